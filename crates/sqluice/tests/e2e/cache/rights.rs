//! Users with the same rights share answers, and nobody is answered what it may not read.

use super::*;
use crate::support::error;

const RULE: &str = "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000";

fn user(name: &str, grants: &[&str]) -> String {
    let made = format!("DROP USER IF EXISTS {name}@'%'; CREATE USER {name}@'%' IDENTIFIED BY 'x'; ");
    made + &grants.iter().map(|grant| format!("GRANT {grant} TO {name}@'%'; ")).collect::<String>()
}

async fn login(front: &Front, name: &str) -> Client {
    let mut client = front.login(name, "x").await.unwrap();
    client.init_db(lab::APP_DATABASE).await.unwrap();
    client
}

/// Waits until two users share an answer to this, which both may read.
async fn share(front: &Front, one: &mut Client, two: &mut Client, read: &str) {
    let mut number = 0;
    until("two users to share an answer", async || {
        number += 1;
        let read = format!("{read} /* {number} */");
        all(one, &read).await;
        is_hit(front, two, &read).await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn users_with_the_same_rights_share_answers_and_others_do_not() {
    for family in families() {
        accounts(
            calm(family).await,
            &["a", "b"].map(|name| user(&format!("e2e_rights_{name}"), &["SELECT ON app.*"])).concat(),
        )
        .await;
        accounts(
            calm(family).await,
            &("CREATE TABLE IF NOT EXISTS app.cache_rights (id INT PRIMARY KEY, n INT); \
               DROP VIEW IF EXISTS app.cache_rights_view; DROP TABLE IF EXISTS app.cache_rights_free; \
               CREATE TABLE app.cache_rights_free (n INT); INSERT INTO app.cache_rights_free VALUES (5); "
                .to_owned()
                + &user("e2e_rights_more", &["SELECT ON app.*", "SELECT ON other.*"])
                + &user("e2e_rights_one", &["SELECT (id) ON app.cache_rights", "SELECT ON app.cache_rights_free"])),
        )
        .await;
        let front = start(family, "cache_rights", &rule("all", RULE)).await;
        let mut root = front.client().await;
        all(&mut root, "CREATE VIEW cache_rights_view AS SELECT id, n FROM cache_rights").await;
        let (mut a, mut b) = (login(&front, "e2e_rights_a").await, login(&front, "e2e_rights_b").await);
        let (mut more, mut one) = (login(&front, "e2e_rights_more").await, login(&front, "e2e_rights_one").await);
        let read = "SELECT n FROM cache_rights WHERE id = 1";
        share(&front, &mut a, &mut b, read).await;
        all(&mut a, read).await;
        assert!(is_hit(&front, &mut b, read).await && is_hit(&front, &mut a, read).await);
        assert_eq!(value(&mut b, read).await, "10");
        // Others than these ask for themselves.
        assert!(!is_hit(&front, &mut more, read).await && is_hit(&front, &mut more, read).await);
        // A user without the privilege gets a server's refusal, even if a result is kept.
        assert_eq!(error(&mut one, read).await.0, 1143);
        assert_eq!(value(&mut one, "SELECT COUNT(id) FROM cache_rights").await, "3");
        // By columns, and through views, an answer is its user's alone.
        for (client, read) in
            [(&mut one, "SELECT MAX(id) FROM cache_rights"), (&mut a, "SELECT n FROM cache_rights_view WHERE id = 2")]
        {
            all(client, read).await;
            assert!(is_hit(&front, client, read).await, "{read}: {}", of_rule(&front, "all").await);
        }
        assert!(!is_hit(&front, &mut b, "SELECT n FROM cache_rights_view WHERE id = 2").await);
        assert!(is_hit(&front, &mut b, "SELECT n FROM cache_rights_view WHERE id = 2").await);
    }
}

#[tokio::test]
async fn what_shows_each_user_something_else_comes_from_servers() {
    for family in families() {
        let names = ["e2e_shown_a", "e2e_shown_b"];
        let mut sql = "CREATE TABLE IF NOT EXISTS app.cache_shown (id INT PRIMARY KEY, n INT); \
                       CREATE OR REPLACE VIEW app.cache_shown_whom AS SELECT id, USER() AS who FROM app.cache_shown; \
                       CREATE OR REPLACE VIEW app.cache_shown_last AS SELECT id, LAST_INSERT_ID() AS last FROM app.cache_shown; \
                       CREATE OR REPLACE VIEW app.cache_shown_to AS SELECT id, CONCAT(who, '') AS who FROM app.cache_shown_whom; "
            .to_owned();
        sql += &names.map(|name| user(name, &["SELECT, INSERT ON *.*"])).concat();
        if family == Family::MariaDb {
            // MySQL refuses such columns.
            sql += "DROP TABLE IF EXISTS app.cache_shown_made; \
                    CREATE TABLE app.cache_shown_made (id INT PRIMARY KEY, who VARCHAR(200) AS (USER()) VIRTUAL, \
                    kept VARCHAR(200) AS (CONCAT(id, 'x')) VIRTUAL); \
                    INSERT INTO app.cache_shown_made (id) VALUES (1);";
        }
        accounts(calm(family).await, &sql).await;
        let front = start(family, "cache_shown", &rule("all", RULE)).await;
        let (mut a, mut b) = (login(&front, names[0]).await, login(&front, names[1]).await);
        share(&front, &mut a, &mut b, "SELECT n FROM cache_shown WHERE id = 1").await;
        let mut whose =
            vec!["SELECT who FROM cache_shown_whom WHERE id = 1", "SELECT who FROM cache_shown_to WHERE id = 1"];
        if family == Family::MariaDb {
            whose.push("SELECT who FROM cache_shown_made WHERE id = 1");
        }
        for read in whose {
            for _ in 0..3 {
                assert!(value(&mut a, read).await.starts_with("e2e_shown_a@"), "{read}");
                assert!(value(&mut b, read).await.starts_with("e2e_shown_b@"), "{read}");
            }
        }
        let before = refused(&front, "all", "unknown_function").await;
        for _ in 0..2 {
            all(&mut a, "SELECT last FROM cache_shown_last WHERE id = 1").await;
        }
        assert_eq!(
            refused(&front, "all", "unknown_function").await,
            before + 2,
            "what a session has left is nobody else's"
        );
    }
}

#[tokio::test]
async fn rights_that_are_taken_away_end_sharing_at_once() {
    for family in families() {
        accounts(
            calm(family).await,
            // Rights on a schema are told to a connection when it chooses the schema, those on a table at once.
            &("CREATE TABLE IF NOT EXISTS app.cache_revoked (id INT PRIMARY KEY, n INT); ".to_owned()
                + &["c", "d"]
                    .map(|name| user(&format!("e2e_rights_{name}"), &["SELECT ON app.cache_revoked"]))
                    .concat()),
        )
        .await;
        let front = start(family, "cache_revoked", &rule("all", RULE)).await;
        let grantor = calm(family).await;
        accounts(
            grantor,
            &(user("e2e_rights_grantor", &["SELECT ON app.*"])
                + "GRANT ALL ON *.* TO e2e_rights_grantor@'%' WITH GRANT OPTION"),
        )
        .await;
        let mut grantor = login(&front, "e2e_rights_grantor").await;
        let (mut c, mut d) = (login(&front, "e2e_rights_c").await, login(&front, "e2e_rights_d").await);
        let read = "SELECT n FROM cache_revoked WHERE id = 1";
        for round in 0..5 {
            let read = &*format!("{read} AND {round} = {round}");
            share(&front, &mut c, &mut d, read).await;
            all(&mut c, read).await;
            assert!(is_hit(&front, &mut d, read).await);
            all(&mut grantor, "REVOKE SELECT ON app.cache_revoked FROM e2e_rights_d@'%'").await;
            // The other one's answers are not its own any more, in no form.
            for _ in 0..3 {
                let _ = c.query(read).await.unwrap();
                // Of the table, or of its schema where that has to be chosen anew.
                assert!([1142, 1044].contains(&error(&mut d, read).await.0));
            }
            all(&mut grantor, "GRANT SELECT ON app.cache_revoked TO e2e_rights_d@'%'").await;
            assert_eq!(value(&mut d, read).await, "10");
        }
    }
}

#[tokio::test]
async fn roles_by_default_are_rights_like_others() {
    for family in families() {
        let names = ["e2e_role_a", "e2e_role_b", "e2e_role_c"];
        let role = "DROP ROLE IF EXISTS e2e_reader; CREATE ROLE e2e_reader; GRANT SELECT ON app.* TO e2e_reader; ";
        let mut sql = role.to_owned();
        for name in names {
            sql += &user(name, &["e2e_reader"]);
            sql += &match family {
                Family::MariaDb => format!("SET DEFAULT ROLE e2e_reader FOR {name}@'%'; "),
                Family::MySql => format!("SET DEFAULT ROLE e2e_reader TO {name}@'%'; "),
            };
        }
        sql += &user("e2e_role_none", &["SELECT ON app.cache_roles_other"]);
        accounts(
            calm(family).await,
            &format!("DROP TABLE IF EXISTS app.cache_roles_other; CREATE TABLE app.cache_roles_other (n INT); {sql}"),
        )
        .await;
        let front = start(family, "cache_roles", &rule("all", RULE)).await;
        let (mut a, mut b) = (login(&front, names[0]).await, login(&front, names[1]).await);
        let read = "SELECT n FROM cache_roles WHERE id = 3";
        share(&front, &mut a, &mut b, read).await;
        let mut none = login(&front, "e2e_role_none").await;
        all(&mut a, read).await;
        assert!(is_hit(&front, &mut b, read).await);
        assert_eq!(error(&mut none, read).await.0, 1142);
    }
}
