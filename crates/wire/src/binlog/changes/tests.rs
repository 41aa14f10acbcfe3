use proptest::prelude::any;
use proptest::proptest;

use super::*;
use crate::binlog::{INFLATED_BYTES_MAX, KeyPart};

fn event(code: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, code, 7, 0, 0, 0];
    bytes.extend_from_slice(&u32::try_from(HEADER_BYTES + body.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&[0; 6]);
    bytes.extend_from_slice(body);
    bytes
}

/// `app.t (a VARCHAR(10), id INT UNSIGNED, b SMALLINT)` as table 5, with these optional fields.
fn table_map(optional: &[u8]) -> Vec<u8> {
    let body =
        [&[5, 0, 0, 0, 0, 0, 1, 0, 3][..], b"app\0", &[1], b"t\0", &[3, 15, 3, 2, 2, 10, 0, 7], optional].concat();
    event(19, &body)
}

/// No sign for the first of two numbers, and the second column as key.
const FULL: &[u8] = &[1, 1, 0x80, 8, 1, 1];

/// Rows of table 5 with all columns.
fn rows(code: u8, rows: &[u8]) -> Vec<u8> {
    let mut body = vec![5, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7];
    if code == 31 {
        body.push(7);
    }
    body.extend_from_slice(rows);
    event(code, &body)
}

fn gtid() -> Vec<u8> {
    event(33, &[&[0][..], &[9; 16], &5_u64.to_le_bytes()].concat())
}

fn query(text: &[u8]) -> Vec<u8> {
    let status = [&[0, 0, 0, 0, 0, 1][..], &4_u64.to_le_bytes()].concat();
    let head = [&[0; 8][..], &[3, 0, 0, u8::try_from(status.len()).unwrap(), 0]].concat();
    event(2, &[&head[..], &status, b"app\0", text].concat())
}

/// The changes of the only transaction in these events.
fn of(mariadb: bool, events: &[Vec<u8>]) -> Transaction {
    let mut changes = Changes::new(mariadb);
    let mut all = Vec::new();
    for event in events {
        if let Said::Committed(transaction) = changes.take(event).unwrap() {
            all.push(transaction);
        }
    }
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn keys_of(transaction: Transaction) -> Option<Vec<i128>> {
    let LoggedChange::These { tables, statements } = transaction.what else {
        panic!("everything: {:?}", transaction.what)
    };
    assert!(statements.is_empty() && tables.len() == 1);
    assert_eq!((&*tables[0].schema, &*tables[0].table), ("app", "t"));
    let number = |key: &Key| match key[..] {
        [KeyPart::Integer(number)] => number,
        _ => panic!("{key:?}"),
    };
    Some(tables[0].keys.as_ref()?.iter().map(number).collect())
}

const ROW: &[u8] = &[0, 2, b'x', b'y', 0xff, 0xff, 0xff, 0xff, 1, 0];

fn in_transaction(table: Vec<u8>, rows: Vec<u8>) -> Transaction {
    of(false, &[gtid(), query(b"BEGIN"), table, rows, event(16, &[0; 8])])
}

#[test]
fn rows_give_their_keys() {
    let transaction = in_transaction(table_map(FULL), rows(30, ROW));
    assert_eq!((transaction.gtid, transaction.at), (Gtid::MySql([9; 16], 5), 1));
    assert_eq!(keys_of(transaction), Some(vec![4_294_967_295]));
    // With NULL in front of the key.
    assert_eq!(keys_of(in_transaction(table_map(FULL), rows(32, &[1, 3, 0, 0, 0, 1, 0]))), Some(vec![3]));
    let changed = [ROW, &[5, 2, 0, 0, 0][..]].concat();
    assert_eq!(keys_of(in_transaction(table_map(FULL), rows(31, &changed))), Some(vec![2, 4_294_967_295]));
}

#[test]
fn without_what_tells_the_key_the_whole_table_is_changed() {
    assert_eq!(keys_of(in_transaction(table_map(&[]), rows(30, ROW))), None);
    assert_eq!(keys_of(in_transaction(table_map(&[1, 1, 0x80]), rows(30, ROW))), None);
    // A key whose sign is not reported.
    assert_eq!(keys_of(in_transaction(table_map(&[8, 1, 1]), rows(30, ROW))), None);
    // Rows that are cut off, and rows of another number of columns.
    assert_eq!(keys_of(in_transaction(table_map(FULL), rows(30, &ROW[..5]))), None);
    let narrow = event(30, &[5, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1, 0, 1, b'x']);
    assert_eq!(keys_of(in_transaction(table_map(FULL), narrow)), None);
    let many: Vec<u8> = (0..=u32::try_from(KEYS_MAX).unwrap())
        .flat_map(|id| [&[0, 0][..], &id.to_le_bytes(), &[1, 0]].concat())
        .collect();
    assert_eq!(keys_of(in_transaction(table_map(FULL), rows(30, &many))), None);
}

#[test]
fn what_is_not_understood_changes_everything() {
    let everything = |transaction: Transaction| matches!(transaction.what, LoggedChange::Everything(_));
    // Rows without their table, a table that is cut off, an unknown event, one that is lost and said to be.
    assert!(everything(of(false, &[gtid(), query(b"BEGIN"), rows(30, ROW), event(16, &[])])));
    assert!(everything(in_transaction(event(19, &[5, 0, 0]), rows(30, ROW))));
    for code in [26, 99, 164] {
        assert!(everything(of(false, &[gtid(), query(b"BEGIN"), event(code, &[]), event(16, &[])])), "{code}");
    }
    // An event that may be skipped.
    let mut passed = event(99, &[]);
    passed[17] = 0x80;
    assert!(!everything(of(false, &[gtid(), query(b"BEGIN"), passed, event(16, &[])])));
    assert!(everything(of(false, &[gtid(), event(40, b"no payload")])));
    assert!(everything(of(false, &[gtid(), query(&[b'x'; STATEMENT_BYTES_MAX + 1])])));
    assert!(Changes::new(false).take(&[0; 5]).is_err());
}

#[test]
fn statements_are_given_as_they_are() {
    let LoggedChange::These { statements, .. } = of(false, &[gtid(), query(b"ALTER TABLE t ADD c INT")]).what else {
        panic!("everything");
    };
    let text: Box<[u8]> = b"ALTER TABLE t ADD c INT".as_slice().into();
    assert_eq!(statements, [Statement { schema: "app".into(), sql_mode: Some(4), text }]);
    // MariaDB says in the name whether more follows.
    let name =
        |flags: u8| event(162, &[&9_u64.to_le_bytes()[..], &2_u32.to_le_bytes(), &[flags, 0, 0, 0, 0, 0, 0]].concat());
    let transaction = of(true, &[name(1), query(b"DROP TABLE t")]);
    assert_eq!(transaction.gtid, Gtid::MariaDb(2, 7, 9));
    let transaction = of(true, &[name(0), query(b"INSERT INTO t VALUES (1)"), query(b"COMMIT")]);
    assert!(matches!(transaction.what, LoggedChange::These { statements, .. } if statements.len() == 1));
}

#[test]
fn compressed_transactions_are_read_and_bounded() {
    let inner = [query(b"BEGIN"), table_map(FULL), rows(30, ROW), event(16, &[0; 8])].concat();
    let payload = |size: u32, packed: &[u8]| {
        let size = &size.to_le_bytes()[..3];
        event(40, &[&[2, 1, 0, 3, 4, 0xfd][..], size, &[0], packed].concat())
    };
    let packed = zstd::bulk::compress(&inner, 1).unwrap();
    let size = u32::try_from(inner.len()).unwrap();
    assert_eq!(keys_of(of(false, &[gtid(), payload(size, &packed)])), Some(vec![4_294_967_295]));
    // It holds more than it says.
    let lies = of(false, &[gtid(), payload(size - 1, &packed)]);
    assert!(matches!(lies.what, LoggedChange::Everything(_)));
    let huge = [&[3, 9, 0xfe][..], &(INFLATED_BYTES_MAX as u64 + 1).to_le_bytes(), &[0], &packed].concat();
    assert!(matches!(of(false, &[gtid(), event(40, &huge)]).what, LoggedChange::Everything(_)));
}

#[test]
fn checksums_are_cut_off() {
    let format = event(15, &[4, 0, 1, 9, 9, 9, 9]);
    let with_sum = |mut event: Vec<u8>| {
        event.extend_from_slice(&[1, 2, 3, 4]);
        event
    };
    let events = [gtid(), query(b"BEGIN"), table_map(FULL), rows(30, ROW), event(16, &[0; 8])];
    let mut all = vec![format];
    all.extend(events.map(with_sum));
    assert_eq!(keys_of(of(false, &all)), Some(vec![4_294_967_295]));
    let mut changes = Changes::new(true);
    assert_eq!(changes.take(&event(27, b"log.000001")), Ok(Said::Idle));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_no_danger(
        mariadb: bool,
        codes in proptest::collection::vec((0u8..180, proptest::collection::vec(any::<u8>(), 0..80)), 0..12),
    ) {
        let mut changes = Changes::new(mariadb);
        let _ = changes.take(&table_map(FULL));
        for (code, body) in codes {
            let _ = changes.take(&event(code, &body));
            let mut rows = vec![5, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 7, 7];
            rows.extend_from_slice(&body);
            let _ = changes.take(&event(code, &rows));
        }
    }
}
