//! The parts of a question: text, parameters, session; comments are none.

use net::query::Parameter;

use super::*;

#[tokio::test]
async fn what_changes_the_answer_is_part_of_the_question() {
    for family in families() {
        let table = "cache_keys";
        accounts(
        calm(family).await,
        "DROP USER IF EXISTS e2e_cache@'%'; CREATE USER e2e_cache@'%' IDENTIFIED BY 'x'; GRANT SELECT ON app.* TO e2e_cache@'%'; \
         DROP TABLE IF EXISTS app.cache_times; CREATE TABLE app.cache_times (t TIMESTAMP); INSERT INTO app.cache_times VALUES ('2020-01-01 00:00:00')",
    )
    .await;
        let front = start(
            family,
            table,
            &[
                rule("own", "digest_regex = ' AS own '\ncache = \"on\"\ncache_ttl_ms = 600000"),
                rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\ncache_shared = true"),
            ]
            .concat(),
        )
        .await;
        let mut client = front.client().await;
        let time = "SELECT t FROM cache_times";
        all(&mut client, "SET time_zone = '+00:00'").await;
        let here = value(&mut client, time).await;
        assert!(is_hit(&front, &mut client, time).await);
        all(&mut client, "SET time_zone = '+03:00'").await;
        let there = value(&mut client, time).await;
        assert_ne!(here, there);
        all(&mut client, "SET time_zone = '+00:00'").await;
        assert!(is_hit(&front, &mut client, time).await);
        assert_eq!(value(&mut client, time).await, here);
        // The schema, the mode, and each byte of the text.
        let text = format!("SELECT COUNT(*) FROM {table}");
        all(&mut client, &text).await;
        assert!(is_hit(&front, &mut client, &text).await);
        all(&mut client, "SET sql_mode = 'ANSI'").await;
        assert!(!is_hit(&front, &mut client, &text).await);
        all(&mut client, "SET sql_mode = DEFAULT").await;
        assert!(!is_hit(&front, &mut client, &format!("{text} ")).await);
        // A value that changes no result does not count.
        all(&mut client, "SET wait_timeout = 1234").await;
        assert!(is_hit(&front, &mut client, &format!("{text} ")).await);
        // Without `cache_shared` users with other rights have answers of their own.
        let mut other = front.login("e2e_cache", "x").await.unwrap();
        other.init_db(lab::APP_DATABASE).await.unwrap();
        let own = format!("SELECT n AS own FROM {table} WHERE id = 3");
        for client in [&mut client, &mut other] {
            let before = hits(&front, "own").await;
            assert_eq!(value(client, &own).await, "30");
            assert_eq!(hits(&front, "own").await, before);
            until("an answer of its own", async || {
                assert_eq!(value(client, &own).await, "30");
                (hits(&front, "own").await > before).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn prepared_statements_are_answered_by_their_parameters() {
    for family in families() {
        let table = "cache_prepared";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
        let (mut one, mut two) = (front.client().await, front.client().await);
        let text = format!("SELECT n FROM {table} WHERE id = ?");
        let number = |number: i64| Parameter::Int(number);
        let (first, second) = (one.prepare(&text).await.unwrap(), two.prepare(&text).await.unwrap());
        for (id, n) in [(1, "10"), (2, "20")] {
            assert_eq!(one.execute(&first, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
        }
        let before = hits(&front, "all").await;
        for (id, n) in [(2, "20"), (1, "10"), (2, "20")] {
            assert_eq!(one.execute(&first, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
            assert_eq!(two.execute(&second, &[number(id)]).await.unwrap()[0].scalar().unwrap(), n);
        }
        assert_eq!(hits(&front, "all").await - before, 6, "{}", of_rule(&front, "all").await);
        // A parameter of another type is another question, and the text alone is one of its own.
        let text_parameter = Parameter::Bytes(b"2".to_vec());
        assert_eq!(two.execute(&second, &[text_parameter]).await.unwrap()[0].scalar().unwrap(), "20");
        assert_eq!(value(&mut two, &format!("SELECT n FROM {table} WHERE id = 2")).await, "20");
        assert_eq!(hits(&front, "all").await - before, 6);
        all(&mut two, &format!("UPDATE {table} SET n = 21 WHERE id = 2")).await;
        assert_eq!(one.execute(&first, &[number(2)]).await.unwrap()[0].scalar().unwrap(), "21");
        // A statement that was prepared in another state is another question.
        all(&mut one, "SET sql_mode = 'ANSI'").await;
        let before = hits(&front, "all").await;
        assert_eq!(one.execute(&first, &[number(1)]).await.unwrap()[0].scalar().unwrap(), "10");
        assert_eq!(hits(&front, "all").await, before);
        assert_eq!(one.execute(&first, &[number(1)]).await.unwrap()[0].scalar().unwrap(), "10");
        assert_eq!(hits(&front, "all").await, before + 1);
    }
}

#[tokio::test]
async fn comments_say_what_the_cache_shall_do() {
    for family in families() {
        let table = "cache_comments";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
        let mut client = front.client().await;
        let read = format!("SELECT n FROM {table} WHERE id = 1");
        all(&mut client, &read).await;
        assert!(is_hit(&front, &mut client, &read).await);
        // Past the proxy, so that nothing ends the answer.
        accounts(calm(family).await, &format!("UPDATE app.{table} SET n = 77 WHERE id = 1")).await;
        assert_eq!(value(&mut client, &read).await, "10");
        assert_eq!(value(&mut client, &format!("/*nocache*/ {read}")).await, "77");
        assert_eq!(value(&mut client, &read).await, "10");
        assert_eq!(value(&mut client, &format!("/* sqluice: primary cache=on */ {read}")).await, "77");
        assert_eq!(value(&mut client, &format!("/* sqluice: ttl=600000 */ {read}")).await, "10");
        assert_eq!(value(&mut client, &format!("/* sqluice: ttl=0 */ {read}")).await, "77");
        assert_eq!(value(&mut client, &read).await, "77", "it was kept");
        accounts(calm(family).await, &format!("UPDATE app.{table} SET n = 78 WHERE id = 1")).await;
        assert_eq!(value(&mut client, &format!("/*wipe*/{read}")).await, "78");
        assert!(is_hit(&front, &mut client, &read).await);
        assert_eq!(value(&mut client, &read).await, "78");
    }
}
