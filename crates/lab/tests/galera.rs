//! A Galera group of the lab: it forms, loses members and takes them back.

use std::time::{Duration, Instant};

use sqluice_lab::{Galera, GaleraOptions};

/// A lost member is given up after a second.
const QUICK: &str =
    "evs.keepalive_period=PT0.2S;evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;evs.inactive_check_period=PT0.1S";

#[test]
fn a_group_replicates_and_takes_back_what_it_lost() {
    let options = GaleraOptions {
        provider_options: QUICK.into(),
        init_sql: "CREATE TABLE app.t (id INT PRIMARY KEY)".into(),
        ..GaleraOptions::new(3)
    };
    let group = Galera::start(&options).unwrap();
    let insert = |index: usize, id: u32| group.server(index).sql(&format!("INSERT INTO app.t VALUES ({id})")).unwrap();
    let rows = |index: usize| {
        let text = group.server(index).sql("SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM app.t").unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    (0..3).for_each(|index| drop(insert(index, index as u32)));
    assert_eq!([0, 1, 2].map(rows), [3, 3, 3]);
    group.server(0).kill9();
    let begun = Instant::now();
    insert(1, 10);
    eprintln!("a write on a survivor took {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(20));
    group.wait_members(1, 2).unwrap();
    group.restart(0).unwrap();
    assert_eq!([0, 1, 2].map(rows), [4, 4, 4]);
    group.server(2).stop().unwrap();
    insert(0, 11);
    group.restart(2).unwrap();
    assert_eq!(rows(2), 5);
    group.set_desync(1, true).unwrap();
    assert!(group.server(1).sql("SHOW STATUS LIKE 'wsrep_local_state'").unwrap().ends_with("2\n"));
    group.set_desync(1, false).unwrap();
    group.wait_synced(1).unwrap();
    group.set_reject_queries(1, true).unwrap();
    let refused = group.server(1).sql("SELECT COUNT(*) FROM app.t").unwrap_err();
    assert!(refused.to_string().contains("WSREP"), "{refused}");
    group.set_reject_queries(1, false).unwrap();
    (0..3).for_each(|index| group.server(index).kill9());
    group.restart(1).unwrap();
    group.restart(0).unwrap();
    assert_eq!([0, 1].map(rows), [5, 5]);
}
