//! Changes of rights by others are in the log, too; and a log is followed only as long as a rule wants it.

use super::*;
use crate::support::{SOON, blocking, error, said};

async fn check_rights(family: Family) {
    let table = "follow_rights";
    make(family, table).await;
    let front = Front::start(calm(family).await, follows).await;
    let user = |name: &str| {
        format!(
            "DROP USER IF EXISTS {name}@'%'; CREATE USER {name}@'%' IDENTIFIED BY 'x'; GRANT SELECT ON app.{table} TO {name}@'%'; \
             GRANT SELECT ON app.{table}_child TO {name}@'%'; "
        )
    };
    accounts(calm(family).await, &(user("e2e_follow_c") + &user("e2e_follow_d"))).await;
    let mut clients = Vec::new();
    for name in ["e2e_follow_c", "e2e_follow_d"] {
        let mut client = front.login(name, "x").await.unwrap();
        client.init_db(lab::APP_DATABASE).await.unwrap();
        clients.push(client);
    }
    let [c, d] = &mut clients[..] else { unreachable!() };
    let mut number = 0;
    // A question that nobody has asked, and that the first of the two has an answer to.
    let mut kept = async |c: &mut Client| {
        number += 1;
        let read = format!("SELECT n FROM {table} WHERE id = 1 AND {number} = {number}");
        all(c, &read).await;
        read
    };
    until("two users to share an answer", async || {
        let read = kept(c).await;
        let before = hits(&front, "all").await;
        all(d, &read).await;
        (hits(&front, "all").await > before).then_some(())
    })
    .await;
    let revoked = Instant::now();
    accounts(calm(family).await, &format!("REVOKE SELECT ON app.{table} FROM e2e_follow_d@'%'")).await;
    until("the second user to be asked for its rights", async || {
        let read = kept(c).await;
        d.query(&read).await.is_err().then_some(())
    })
    .await;
    // Else it is known after `accounts_refresh_s`, 30.
    assert!(revoked.elapsed() < Duration::from_secs(10), "{:?}", revoked.elapsed());
    for _ in 0..3 {
        let read = kept(c).await;
        let refused = d.query(&read).await.expect_err("it may not read this");
        assert_eq!(said(&refused).0, 1142);
    }
    assert_eq!(error(d, &format!("SELECT n FROM {table} WHERE id = 1")).await.0, 1142);
}

#[tokio::test]
async fn rights_that_are_taken_away_around_it_are_seen() {
    check_rights(Family::MariaDb).await;
}

#[tokio::test]
async fn rights_that_are_taken_away_around_it_are_seen_with_mysql() {
    if has_mysql() {
        check_rights(Family::MySql).await;
    }
}

#[tokio::test]
async fn a_log_is_followed_only_while_a_rule_wants_it() {
    let table = "follow_ends";
    let mut front = start(Family::MariaDb, table).await;
    let (mut client, mut around) = (front.client().await, direct(calm(Family::MariaDb).await).await);
    let read = format!("SELECT n FROM {table} WHERE id = 1");
    until_hit(&front, &mut client, &read).await;
    let followed = page(&front).await["follow"]["main"].clone();
    assert_eq!((&followed["serves"], &followed["delay_max_ms"]), (&true.into(), &2_000.into()), "{followed}");
    assert!(followed["position"].as_str().is_some_and(|position| position.contains('-')), "{followed}");

    front.reload(|setup| setup.more = String::new());
    until("nobody to follow the log", async || page(&front).await["follow"]["main"].is_null().then_some(())).await;
    all(&mut around, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    // Nothing waits for replicas now.
    let servers = calm(Family::MariaDb).await;
    blocking(move || servers.wait_in_sync(SOON).unwrap()).await;
    assert_eq!(value(&mut client, &read).await, "11");

    // Of what was written meanwhile nothing is known: all ends.
    front.reload(follows);
    until("the log to be followed again", async || {
        assert_eq!(value(&mut client, &read).await, "11");
        (page(&front).await["follow"]["main"]["serves"] == true).then_some(())
    })
    .await;
    until_hit(&front, &mut client, &read).await;
    all(&mut around, &format!("UPDATE {table} SET n = 12 WHERE id = 1")).await;
    until("the write", async || (value(&mut client, &read).await == "12").then_some(())).await;
}
