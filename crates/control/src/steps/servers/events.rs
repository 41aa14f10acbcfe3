//! Events are switched off and on.

use super::*;

#[test]
fn what_cannot_be_done_with_events_is_reported_and_a_server_stays_read_only() {
    for family in families() {
        let cluster = cluster(family);
        run(reported(cluster.primary()));
    }
}

async fn reported(server: &Server) {
    let (app, user) = (lab::APP_USER, lab::MONITOR_USER);
    let error = |done: Result<(), Failed>| done.unwrap_err().text;
    let enabled = || server.sql("SELECT COUNT(*) FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'").unwrap();
    server.sql(&format!("CREATE DEFINER = {app}@'%' EVENT app.e ON SCHEDULE EVERY 1 DAY DO SELECT 1")).unwrap();

    let mut client = monitor(server).await;
    let unseen = error(disable_events(&mut hand(&mut client)).await);
    assert!(unseen.starts_with("without the right EVENT"), "{unseen}");
    server.sql(&format!("GRANT EVENT ON app.* TO {user}@'%'")).unwrap();
    let denied = error(disable_events(&mut hand(&mut client)).await);
    assert!(denied.contains("events need the rights EVENT"), "{denied}");
    assert_eq!(enabled(), "1\n");
    let rights = match server.family() {
        Family::MariaDb => "BINLOG ADMIN, SET USER",
        Family::MySql => "SET_ANY_DEFINER",
    };
    server.sql(&format!("GRANT {rights} ON *.* TO {user}@'%'")).unwrap();

    // Rights count from the next login on.
    let mut client = monitor(server).await;
    let running = running_events(&mut hand(&mut client)).await.unwrap();
    assert_eq!(running.events, [("app".to_owned(), "e".to_owned())].into());
    assert_eq!(events_of_primary(&mut hand(&mut client)).await.unwrap().as_ref(), Some(&running));
    set_read_only(&mut hand(&mut client), true, Clients::Stay).await.unwrap();
    assert_eq!(events_of_primary(&mut hand(&mut client)).await.unwrap(), None);
    let logged = match server.family() {
        Family::MariaDb => "SELECT @@global.gtid_binlog_pos",
        Family::MySql => "SELECT @@global.gtid_executed",
    };
    let before = server.sql(logged).unwrap();
    for _ in 0..2 {
        disable_events(&mut hand(&mut client)).await.unwrap();
        assert!(is_read_only(server) && enabled() == "0\n");
    }

    set_read_only(&mut hand(&mut client), false, Clients::Stay).await.unwrap();
    let unknown = error(enable_events(&mut hand(&mut client), None, true).await);
    assert!(unknown.starts_with("1 events are disabled, and which of them ran"), "{unknown}");
    let nothing = Running { events: BTreeSet::new(), scheduler: false };
    enable_events(&mut hand(&mut client), Some(&nothing), true).await.unwrap();
    assert_eq!(enabled(), "0\n", "it did not run before");
    server.sql("SET GLOBAL event_scheduler = OFF").unwrap();
    let running = Running { scheduler: true, ..running };
    let idle = error(enable_events(&mut hand(&mut client), Some(&running), false).await);
    assert!(idle.contains("event_scheduler is off here and was on") && enabled() == "1\n", "{idle}");
    let off = Running { scheduler: false, ..running.clone() };
    enable_events(&mut hand(&mut client), Some(&off), true).await.unwrap();
    let scheduler = || server.sql("SELECT @@global.event_scheduler").unwrap();
    assert_eq!(scheduler(), "OFF\n", "it was off there, too");
    if server.family() == Family::MariaDb {
        let denied = error(enable_events(&mut hand(&mut client), Some(&running), true).await);
        assert!(denied.contains("that needs the right SUPER"), "{denied}");
        server.sql(&format!("SET sql_log_bin = 0; GRANT SUPER ON *.* TO {user}@'%'")).unwrap();
        client = monitor(server).await;
    }
    enable_events(&mut hand(&mut client), Some(&running), true).await.unwrap();
    assert_eq!(scheduler(), "ON\n");
    assert_eq!(server.sql(logged).unwrap(), before, "nothing of it is in the binary log");
    let session = client.query_one("SELECT @@sql_log_bin").await.unwrap();
    assert_eq!(session.scalar().as_deref(), Some("1"));
}
