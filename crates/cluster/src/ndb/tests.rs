use facts::view::{ServerId, Writers};

use super::*;
use crate::driver::script::{Script, facts, settings};
use crate::observation::{DataNode, Facts, FailureClass};
use crate::settings::{GroupKind, Settings};
use facts::command::Command;

use DataNodeStatus::{Other, SingleUser, Started};

/// SQL node 100 and so many, of a cluster with two node groups of two data nodes.
fn sql_node(number: u32, change: impl FnOnce(&mut Ndb)) -> Facts {
    let node = |group| DataNode { group, status: Started };
    let mut ndb = Ndb {
        node_id: 100 + number,
        data_nodes: 4,
        ready: 4,
        system: "shop".into(),
        nodes: [0, 0, 1, 1].map(node).to_vec(),
    };
    change(&mut ndb);
    let mut facts = facts(number);
    facts.details.ndb = Some(ndb);
    facts
}

fn well(number: u32) -> Facts {
    sql_node(number, |_| {})
}

fn cluster() -> Script {
    let mut script = Script::with(Settings { group: Some(GroupKind::Ndb), ..settings() }, 3);
    (1..=3).for_each(|number| script.good(number, well(number)));
    script
}

/// The numbers of those that take writes.
fn writers(script: &Script) -> Vec<u32> {
    (1..=3).filter(|number| script.server(*number).role == Role::Primary).collect()
}

/// The numbers of those that serve reads.
fn readers(script: &Script) -> Vec<u32> {
    (1..=3).filter(|number| script.server(*number).serves_reads).collect()
}

#[test]
fn every_connected_sql_node_takes_reads_and_writes() {
    let mut script = Script::with(Settings { group: Some(GroupKind::Ndb), ..settings() }, 3);
    script.good(2, well(2));
    assert_eq!((script.primary(), writers(&script)), (Some(2), vec![2]), "nobody waits for the others");
    script.good(1, well(1));
    script.good(3, well(3));
    assert_eq!((script.primary(), writers(&script), readers(&script)), (Some(2), vec![1, 2, 3], vec![1, 2, 3]));
    let view = script.driver.view();
    assert_eq!((view.group, view.same_data, view.epoch), (Some(Writers::All), true, 1));
    assert_eq!(&*script.server(1).reason, "SQL node 101, connected to 4 of 4 data nodes");
    assert_eq!(script.found(), [""; 0]);
    assert!(script.catch_ups.is_empty(), "nobody has to show what it has");
}

#[test]
fn one_that_dies_is_replaced_by_any_other() {
    let mut script = cluster();
    assert_eq!(script.primary(), Some(1));
    script.down(1);
    assert_eq!((script.primary(), readers(&script)), (Some(2), vec![2, 3]));
    // It comes back as one of them.
    script.good(1, well(1));
    script.good(1, well(1));
    assert_eq!((script.primary(), writers(&script)), (Some(2), vec![1, 2, 3]));
}

#[test]
fn one_that_lost_its_data_nodes_or_belongs_to_no_cluster_serves_nobody() {
    let cases: [(Facts, &str); 4] = [
        (sql_node(1, |ndb| ndb.ready = 0), "it is connected to none of the 4 data nodes"),
        (sql_node(1, |ndb| ndb.node_id = 0), "it belongs to no NDB cluster (Ndb_cluster_node_id)"),
        (facts(1), "it belongs to no NDB cluster (Ndb_cluster_node_id)"),
        (sql_node(1, |ndb| ndb.nodes[0].status = SingleUser), "the NDB cluster is in single user mode"),
    ];
    for (reported, why) in cases {
        let mut script = cluster();
        script.good(1, reported);
        assert_eq!(
            (writers(&script), readers(&script), script.found()),
            (vec![2, 3], vec![2, 3], vec!["out_of_group"])
        );
        assert_eq!((script.primary(), script.server(1).fenced, &*script.server(1).reason), (Some(2), true, why));
        script.good(1, well(1));
        assert_eq!((writers(&script), script.server(1).fenced), (vec![1, 2, 3], false));
    }
}

#[test]
fn without_any_data_node_nobody_serves() {
    let mut script = cluster();
    (1..=3).for_each(|number| script.good(number, sql_node(number, |ndb| ndb.ready = 0)));
    assert_eq!((script.primary(), writers(&script), readers(&script)), (None, vec![], vec![]));
    assert!(script.found().contains(&"no_data_nodes"));
    script.good(3, well(3));
    assert_eq!((script.primary(), readers(&script)), (Some(3), vec![3]));
    assert!(!script.found().contains(&"no_data_nodes"));
}

#[test]
fn a_node_group_without_a_started_data_node_stops_all() {
    let lost = |ndb: &mut Ndb| (ndb.nodes[2].status, ndb.nodes[3].status) = (Other, Other);
    let mut script = cluster();
    (1..=3).for_each(|number| script.good(number, sql_node(number, lost)));
    assert_eq!((script.primary(), readers(&script), script.found()), (None, vec![], vec!["node_group_down"]));
    let words: Vec<String> = script.driver.diagnoses().iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["no data node of node group 1 has started: the NDB cluster lacks data, and no server gets traffic"]
    );
}

#[test]
fn a_node_group_with_one_started_data_node_is_enough() {
    let one_left = sql_node(1, |ndb| (ndb.ready, ndb.nodes[0].status) = (3, Other));
    let new_nodes = sql_node(1, |ndb| ndb.nodes.push(DataNode { group: 65_536, status: Other }));
    // The data nodes of the other group are out of its reach; others pass on what it asks of them.
    let far = sql_node(1, |ndb| (ndb.ready, _) = (2, ndb.nodes.truncate(2)));
    let unreadable = sql_node(1, |ndb| ndb.nodes.clear());
    for reported in [one_left, new_nodes, far, unreadable] {
        let mut script = cluster();
        script.good(1, reported);
        assert_eq!((writers(&script), script.found()), (vec![1, 2, 3], vec![]));
    }
}

#[test]
fn sql_nodes_of_another_cluster_serve_nobody() {
    let mut script = cluster();
    script.good(1, sql_node(1, |ndb| ndb.system = "other".into()));
    assert_eq!((script.primary(), writers(&script)), (Some(2), vec![2, 3]), "most belong to the old one");
    assert_eq!(script.found(), ["two_groups", "out_of_group"]);
    // An old version does not tell its cluster's name.
    script.good(1, sql_node(1, |ndb| ndb.system = "".into()));
    assert_eq!((writers(&script), script.found()), (vec![1, 2, 3], vec![]));
}

#[test]
fn a_read_only_one_serves_reads_and_a_drained_one_nobody() {
    let mut script = cluster();
    let mut reported = well(1);
    reported.super_read_only = true;
    script.good(1, reported);
    assert_eq!((script.primary(), writers(&script), readers(&script)), (Some(2), vec![2, 3], vec![1, 2, 3]));
    assert!(!script.server(1).fenced);
    let now = script.now;
    script.driver.command(now, Command::Drain { server: ServerId(1), dry_run: false }).unwrap();
    script.drain();
    assert_eq!((script.primary(), writers(&script), readers(&script)), (Some(3), vec![3], vec![1, 3]));
}

#[test]
fn there_is_no_primary_to_move() {
    let mut script = cluster();
    let now = script.now;
    for command in [
        Command::Switchover { to: Some(ServerId(1)), dry_run: false },
        Command::SetPrimary { server: ServerId(1) },
        Command::Failover { to: None, dry_run: false, force: false },
    ] {
        assert!(script.driver.command(now, command).is_err());
    }
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn one_that_fails_a_probe_stays_until_it_is_given_up() {
    let mut script = cluster();
    script.fail(1, FailureClass::Timeout);
    assert_eq!((script.primary(), script.server(1).health), (Some(1), Health::Suspect));
    script.down(1);
    assert_eq!(script.primary(), Some(2));
}
