use wire::binlog::TableMap;
use wire::binlog::rows::Rows;

use super::*;
use crate::logged::tests::{DIALECT, prepared};
use crate::mark::Marks;

fn sought(texts: &[&str]) -> Tail {
    let texts = texts.iter().map(|text| Text {
        text: text.as_bytes().to_vec(),
        is_marked: true,
        execution: None,
        dialect: DIALECT,
        schema: Some("app".into()),
        table_schema: None,
    });
    Tail::new(Sought { logged_on: Some(2), mark: None, texts: texts.collect(), target: None })
}

#[test]
fn marks_tell_whose_a_transaction_is() {
    let marks = Marks::default();
    let [own, other] = [marks.next().unwrap(), Marks::default().next().unwrap()];
    let with = |mark: &Mark, text: &str| format!("{}{text}", String::from_utf8_lossy(mark.bytes()));
    let found = |mark: Option<&Mark>, text: &str, logged: &[&str]| {
        let mut tail = sought(&[text]);
        tail.sought.mark = mark.cloned();
        mariadb(&mut tail, 1, logged);
        tail.end();
        tail.found(|_| false)
    };
    let (insert, delete) = ("INSERT INTO t VALUES (7)", "DELETE FROM t");
    let these = SearchOutcome::These(vec![(0, 1)]);
    assert_eq!(found(Some(&own), insert, &[&with(&own, insert)]), these);
    assert_eq!(found(Some(&own), &format!(" {insert};"), &[&with(&own, &format!(" {insert}"))]), these);
    assert_eq!(found(Some(&own), insert, &[&with(&other, insert)]), SearchOutcome::Nothing, "the very same of another");
    assert_eq!(found(Some(&own), insert, &[&with(&other, delete)]), SearchOutcome::Nothing);
    assert_eq!(found(Some(&own), insert, &[&with(&other, delete), "INSERT INTO audit"]), SearchOutcome::Nothing);
    assert_eq!(
        found(Some(&own), insert, &[&with(&own, delete)]),
        SearchOutcome::Others,
        "earlier on the same connection"
    );
    assert_eq!(found(Some(&own), insert, &[insert]), SearchOutcome::Similar, "past Sqluice");
    assert_eq!(found(Some(&own), insert, &[delete]), SearchOutcome::Others);
    assert_eq!(found(None, insert, &[&with(&other, insert)]), SearchOutcome::Nothing, "nothing is marked here");
    // Between here and the server stands another Sqluice, or a client of this one is one.
    assert_eq!(found(Some(&own), insert, &[&with(&other, &with(&own, insert))]), these);
    let came = with(&other, insert);
    assert_eq!(found(Some(&own), &came, &[&with(&own, &came)]), these);
    assert_eq!(found(None, &came, &[&came]), these);
    // A text that is too long for a mark.
    let mut tail = sought(&[insert]);
    tail.sought.mark = Some(own);
    tail.sought.texts[0].is_marked = false;
    mariadb(&mut tail, 1, &[insert]);
    tail.end();
    assert_eq!(tail.found(|_| false), these);
}

fn mariadb(tail: &mut Tail, sequence: u64, texts: &[&str]) {
    tail.take(&Event { server: 1, kind: EventKind::MariaDbGtid { domain: 0, sequence } });
    texts.iter().for_each(|text| tail.take(&Event { server: 1, kind: EventKind::Annotate(text.as_bytes()) }));
    tail.take(&Event { server: 1, kind: EventKind::Commit });
}

/// The body of a map of a table with one column, a BIGINT.
fn map(schema: &str) -> Vec<u8> {
    let head = [9, 0, 0, 0, 0, 0, 1, 0, u8::try_from(schema.len()).unwrap()];
    [&head[..], schema.as_bytes(), b"\0\x01t\0\x01\x08\0\0"].concat()
}

#[test]
fn mysql_tells_by_the_texts_too() {
    let source = 9_u128.to_be_bytes();
    let found = |server, kinds: &[EventKind<'_>]| {
        let mut tail = sought(&["UPDATE t SET a = 1"]);
        tail.take(&Event { server, kind: EventKind::MySqlGtid { source, number: 4 } });
        tail.take(&Event { server, kind: EventKind::Query { error: 0, schema: b"", text: b"BEGIN" } });
        kinds.iter().for_each(|kind| tail.take(&Event { server, kind: kind.clone() }));
        tail.end();
        tail.found(|_| false)
    };
    let (ours, other) = (b"UPDATE t SET a = 1", b"UPDATE t SET a = 2");
    assert_eq!(found(1, &[EventKind::Annotate(ours)]), SearchOutcome::These(vec![(9, 4)]));
    let statement = |schema| EventKind::Query { error: 0, schema, text: ours };
    assert_eq!(found(1, &[statement(b"app")]), SearchOutcome::These(vec![(9, 4)]));
    assert_eq!(found(1, &[statement(b"other")]), SearchOutcome::Similar);
    assert_eq!(found(1, &[EventKind::Annotate(other)]), SearchOutcome::Others);
    assert!(matches!(found(1, &[EventKind::Other, EventKind::Commit]), SearchOutcome::Unclear(_)), "no texts");
    assert_eq!(
        found(2, &[EventKind::Annotate(ours)]),
        SearchOutcome::Nothing,
        "it began on the server that has the log"
    );
    assert!(matches!(found(1, &[EventKind::Opaque]), SearchOutcome::Unclear(_)));
}

#[test]
fn the_texts_of_the_statements_tell() {
    let found = |texts: &[&str], transactions: &[(u64, &[&str])], reported: &[u64]| {
        let mut tail = sought(texts);
        transactions.iter().for_each(|(sequence, texts)| mariadb(&mut tail, *sequence, texts));
        tail.end();
        tail.found(|(_, number)| reported.contains(&number))
    };
    let insert = "INSERT INTO t VALUES (7)";
    assert_eq!(found(&[insert], &[(1, &["DELETE FROM t"]), (2, &[insert])], &[]), SearchOutcome::These(vec![(0, 2)]));
    assert_eq!(found(&[" INSERT INTO t VALUES (7); "], &[(2, &[insert])], &[]), SearchOutcome::These(vec![(0, 2)]));
    let trigger = "INSERT INTO audit VALUES (NEW.id)";
    assert_eq!(found(&[insert], &[(1, &[trigger])], &[]), SearchOutcome::Others, "perhaps ours: a trigger wrote first");
    assert_eq!(found(&[insert], &[(1, &[trigger])], &[1]), SearchOutcome::Nothing);
    let heartbeat = "INSERT INTO `sqluice`.heartbeat (writer, at_us) SELECT 1, 2";
    assert_eq!(found(&[insert], &[(1, &[heartbeat])], &[]), SearchOutcome::Nothing);
    assert_eq!(found(&[insert], &[(1, &[insert])], &[1]), SearchOutcome::Nothing, "somebody else's");
    assert_eq!(found(&[insert], &[(1, &[insert]), (2, &[insert])], &[1]), SearchOutcome::These(vec![(0, 2)]));
    let both = ["UPDATE a", "UPDATE b"];
    assert_eq!(found(&both, &[(1, &both), (2, &["UPDATE b", "UPDATE a"])], &[]), SearchOutcome::These(vec![(0, 1)]));
    assert_eq!(
        found(&both, &[(1, &["UPDATE b"])], &[]),
        SearchOutcome::These(vec![(0, 1)]),
        "the first changed nothing"
    );
    assert!(matches!(found(&[insert], &[(1, &[])], &[]), SearchOutcome::Unclear(_)), "no texts at all");
    assert!(matches!(found(&[insert], &[(1, &["INSERT INTO t VALUES (7)\x01\x02"])], &[]), SearchOutcome::Similar));
}

#[test]
fn parameters_and_schemas_tell_statements_apart() {
    let found = |number: i64, schemas: &[&str], logged: &str| {
        let sought = prepared("INSERT INTO t VALUES (?)", &[(8, 0, Some(&number.to_le_bytes()))]);
        let target = Target { schema: "app".into(), table: "t".into(), columns: 1, counter: Some(0) };
        let mut tail = Tail::new(Sought { logged_on: Some(2), mark: None, texts: vec![sought], target: Some(target) });
        let maps: Vec<_> = schemas.iter().map(|schema| map(schema)).collect();
        let rows =
            [&[9, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0][..], &41_u64.to_le_bytes(), &[0], &42_u64.to_le_bytes()].concat();
        let mut take = |kind| tail.take(&Event { server: 1, kind });
        take(EventKind::MariaDbGtid { domain: 0, sequence: 5 });
        take(EventKind::Annotate(logged.as_bytes()));
        maps.iter().for_each(|map| take(EventKind::Table(TableMap::parse(map).unwrap())));
        take(EventKind::Rows(Rows::parse(23, &rows).unwrap().unwrap()));
        take(EventKind::Commit);
        tail.end();
        (tail.found(|_| false), tail.changed((0, 5)).cloned())
    };
    let (what, changed) = found(7, &["other", "app"], "INSERT INTO t VALUES (7)");
    let changed = changed.unwrap();
    assert_eq!(what, SearchOutcome::These(vec![(0, 5)]));
    assert_eq!((changed.inserted, changed.first_id, changed.committed, changed.server), (2, Some(41), true, 1));
    assert!(!changed.is_unclear && !changed.is_statement);
    assert_eq!(
        found(7, &["other"], "INSERT INTO t VALUES (7)").0,
        SearchOutcome::Similar,
        "another table of that name"
    );
    assert_eq!(found(8, &["app"], "INSERT INTO t VALUES (7)").0, SearchOutcome::Others);
    assert_eq!(found(8, &["app"], "INSERT INTO t VALUES ('8')").0, SearchOutcome::Similar);
}
