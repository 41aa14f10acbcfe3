//! A replication group of the lab, where a MySQL server is named: it forms, loses its primary and takes it back.

use std::time::{Duration, Instant};

use sqluice_lab::{Binaries, Family, GroupReplication, GroupReplicationOptions};

#[test]
fn a_group_replicates_and_takes_back_what_it_lost() {
    if !Binaries::find().unwrap().families().contains(&Family::MySql) {
        return;
    }
    let options = GroupReplicationOptions {
        config: vec!["group_replication_member_expel_timeout=0".into()],
        init_sql: "CREATE TABLE app.t (id INT PRIMARY KEY)".into(),
        ..GroupReplicationOptions::new(3)
    };
    let group = GroupReplication::start(&options).unwrap();
    group.server(0).sql("INSERT INTO app.t VALUES (1)").unwrap();
    assert!(group.server(1).sql("INSERT INTO app.t VALUES (2)").is_err(), "there is one primary");
    group.server(0).kill9();
    let begun = Instant::now();
    while [1, 2].iter().all(|index| group.server(*index).sql("INSERT INTO app.t VALUES (3)").is_err()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody takes over");
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("another primary took writes after {:?}", begun.elapsed());
    group.restart(0).unwrap();
    assert!(group.server(0).sql("INSERT INTO app.t VALUES (4)").is_err(), "it comes back as a replica");
    // A member shows what was committed before it is asked.
    let sql = "SET SESSION group_replication_consistency = 'BEFORE'; SELECT COUNT(*) FROM app.t";
    assert_eq!(group.server(0).sql(sql).unwrap(), "2\n");
}
