use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::super::{
    CacheSaid, CachedFigures, Counted, DigestFigures, DigestName, DigestReport, Order, Ran, RanBy, merge,
    merge_by_cluster,
};
use super::DigestTable;

fn began() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000))
}

fn name(key: u64, user: &str) -> DigestName {
    DigestName {
        hash: key,
        text: format!("SELECT {key}").into(),
        user: user.into(),
        schema: "app".into(),
        cluster: "main".into(),
    }
}

fn ran(time_us: u64, at: Instant) -> Ran {
    let (by, server_us) = (RanBy::Primary, time_us / 2);
    Ran {
        rows_sent: 2,
        rows_affected: 3,
        reply_bytes: 7,
        by,
        wait_us: 4,
        time_us,
        server_us,
        ..Ran::unserved(None, at)
    }
}

/// A key as spread as real ones.
fn key(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn run(table: &mut DigestTable, number: u64, ran: &Ran) {
    if table.count(key(number), ran) == Counted::Missing {
        table.admit(key(number), ran, || name(number, "u"));
    }
}

/// Statements of all entries and of the others: nothing is counted twice or not at all.
fn sum(report: &DigestReport) -> DigestFigures {
    let mut sum = report.others;
    report.rows.iter().for_each(|row| sum.add(&row.figures));
    sum
}

fn numbers(report: &DigestReport) -> BTreeMap<u64, u64> {
    report.rows.iter().map(|row| (row.name.hash, row.figures.statements)).collect()
}

#[test]
fn statements_are_counted_with_all_that_is_known_of_them() {
    let began = began();
    let at = |us: u64| began.0 + Duration::from_micros(us);
    let mut table = DigestTable::new(10, began);
    run(&mut table, 1, &ran(50, at(1)));
    run(&mut table, 1, &Ran { error: Some(1064), by: RanBy::Replica, ..ran(10, at(2)) });
    run(&mut table, 1, &Ran { rows_sent: 40, pipelined: true, ..ran(70, at(3)) });
    run(&mut table, 1, &Ran { wait_us: 900, ..Ran::unserved(Some(1064), at(4)) });
    let report = table.report();
    let [row] = &report.rows[..] else { panic!("{report:?}") };
    let expected = DigestFigures {
        statements: 4,
        errors: 2,
        rows_sent: 44,
        rows_affected: 9,
        on_primary: 2,
        on_replicas: 1,
        pipelined: 1,
        reply_bytes: 21,
        wait_us: 912,
        time_us: 130,
        server_us: 65,
        time_us_min: Some(10),
        time_us_max: 70,
    };
    assert_eq!((row.figures, &*row.name), (expected, &name(1, "u")));
    assert_eq!(row.first_seen, began.1 + Duration::from_micros(1));
    assert_eq!(row.last_seen, began.1 + Duration::from_micros(4));
    assert_eq!((table.len(), table.lost(), report.others), (1, 0, DigestFigures::default()));
}

#[test]
fn the_table_is_bounded_and_keeps_what_takes_the_most_time() {
    const ENTRIES: usize = 100;
    let began = began();
    let mut table = DigestTable::new(ENTRIES, began);
    let mut named = 0usize;
    // Ten forms that come again and again in a flood of forms that never do.
    for round in 0..5_000u64 {
        for number in [round % 10, 1_000 + round] {
            let ran = ran(20, began.0);
            if table.count(key(number), &ran) == Counted::Missing {
                table.admit(key(number), &ran, || {
                    named += 1;
                    name(number, "u")
                });
            }
        }
        assert!(table.len() <= ENTRIES);
    }
    let report = table.report();
    let heavy = numbers(&report);
    assert_eq!((report.rows.len(), sum(&report).statements), (ENTRIES, 10_000));
    assert_eq!(sum(&report).time_us, 200_000);
    for number in 0..10 {
        assert_eq!(heavy.get(&number), Some(&500), "{number}");
    }
    assert_eq!(table.lost(), report.others.statements);
    assert!(named < 200, "texts are made for entries only, not {named} times");
}

#[test]
fn what_was_heavy_once_sinks_and_what_is_heavy_now_comes_in() {
    let began = began();
    let mut table = DigestTable::new(64, began);
    for number in 0..64 {
        (0..10).for_each(|_| run(&mut table, number, &ran(100, began.0)));
    }
    // Other forms take over, each as heavy as the old ones were.
    for _ in 0..200 {
        (1_000..1_064).for_each(|number| run(&mut table, number, &ran(100, began.0)));
    }
    let now = numbers(&table.report());
    assert!(now.keys().filter(|number| **number >= 1_000).count() >= 60, "{now:?}");
    // One statement that outweighs the least is in at once.
    run(&mut table, 5_000, &ran(1_000_000, began.0));
    assert_eq!(numbers(&table.report()).get(&5_000), Some(&1));
    assert_eq!(sum(&table.report()).statements, 640 + 200 * 64 + 1);
}

#[test]
fn the_bound_can_be_changed_and_the_table_switched_off() {
    let began = began();
    let mut table = DigestTable::new(50, began);
    (0..50).for_each(|number| run(&mut table, number, &ran(number, began.0)));
    table.set_max(10);
    let report = table.report();
    assert!(numbers(&report).keys().all(|number| *number >= 40) && table.len() == 10);
    assert_eq!((report.others.statements, sum(&report).time_us), (40, (0..50).sum()));
    (40..50).for_each(|number| run(&mut table, number, &ran(1, began.0)));
    assert!(numbers(&table.report()).values().all(|statements| *statements == 2));
    table.set_max(0);
    assert_eq!(table.count(key(1), &ran(1, began.0)), Counted::Done, "nobody makes a text for it");
    table.admit(key(1), &ran(1, began.0), || unreachable!());
    assert_eq!(table.report(), DigestReport::default());
    table.set_max(5);
    (0..9).for_each(|number| run(&mut table, number, &ran(1, began.0)));
    assert_eq!((table.len(), sum(&table.report()).statements), (5, 9));
    table.reset();
    assert!(table.is_empty() && table.report() == DigestReport::default());
    run(&mut table, 3, &ran(1, began.0));
    assert_eq!(numbers(&table.report()), BTreeMap::from([(3, 1)]));
}

#[test]
fn one_entry_is_enough_to_work() {
    let began = began();
    let mut table = DigestTable::new(1, began);
    for round in 0..100 {
        run(&mut table, round % 3, &ran(round, began.0));
        assert_eq!(table.len(), 1);
    }
    assert_eq!(sum(&table.report()).statements, 100);
}

#[test]
fn tables_of_workers_add_up_and_are_sorted() {
    let began = began();
    let mut tables = [DigestTable::new(10, began), DigestTable::new(1, began)];
    let later = began.0 + Duration::from_secs(5);
    run(&mut tables[0], 1, &ran(5, began.0));
    run(&mut tables[1], 1, &ran(9, later));
    (0..3).for_each(|_| run(&mut tables[0], 2, &ran(1, began.0)));
    tables[1].admit(key(2), &ran(2, began.0), || unreachable!("there is no room"));
    // The same form of another user is another entry.
    tables[0].admit(key(7), &Ran { rows_sent: 100, ..ran(4, began.0) }, || name(1, "v"));
    run(&mut tables[0], 3, &Ran { error: Some(1064), ..ran(0, began.0) });
    let sorted = |order| {
        let report = merge(tables.iter().map(DigestTable::report), order);
        let names = report.rows.iter().map(|row| (row.name.hash, Arc::clone(&row.name.user)));
        (names.collect::<Vec<_>>(), report)
    };
    let (u, v): (Arc<str>, Arc<str>) = ("u".into(), "v".into());
    let (order, report) = sorted(Order::Time);
    assert_eq!(order, [(1, u.clone()), (1, v.clone()), (2, u.clone()), (3, u.clone())]);
    let first = &report.rows[0];
    assert_eq!((first.figures.statements, first.figures.time_us, first.figures.time_us_min), (2, 14, Some(5)));
    assert_eq!((first.first_seen, first.last_seen), (began.1, began.1 + Duration::from_secs(5)));
    assert_eq!((report.others.statements, report.others.time_us), (1, 2));
    assert_eq!(sorted(Order::Statements).0[0], (2, u.clone()));
    assert_eq!(sorted(Order::Rows).0[0], (1, v));
    assert_eq!(sorted(Order::Errors).0[0], (3, u));
    for (word, order) in Order::WORDS {
        assert_eq!(Order::from_word(word), Some(order));
    }
    assert_eq!(Order::from_word("TIME; --"), None);
}

#[test]
fn what_the_cache_did_is_counted_with_the_form_or_with_the_others() {
    let began = began();
    let mut table = DigestTable::new(1, began);
    run(&mut table, 1, &Ran { question: 7, ..ran(500, began.0) });
    table.cache_said(key(1), CacheSaid::Miss);
    table.cache_said(key(1), CacheSaid::Refused(3));
    run(&mut table, 1, &Ran { by: RanBy::Cache { saved_us: 500, bytes: 80 }, ..ran(0, began.0) });
    table.cache_said(key(2), CacheSaid::Refused(3));
    let report = table.report();
    let expected = CachedFigures { hits: 1, misses: 1, saved_us: 500, bytes: 80, refused: vec![(3, 1)] };
    assert_eq!(report.rows[0].cached, expected);
    assert_eq!((report.rows[0].figures.statements, report.rows[0].figures.on_primary), (2, 1));
    assert_eq!(report.rows[0].questions.as_ref().unwrap().asked(), 1, "what the cache answers no server was asked");
    assert_eq!(report.others_cached.refused, [(3, 1)]);

    // The saved time keeps the digest in the table, and is not lost with it.
    run(&mut table, 2, &ran(400, began.0));
    assert_eq!(numbers(&table.report()).keys().copied().collect::<Vec<_>>(), [1]);
    run(&mut table, 2, &ran(4_000, began.0));
    let report = table.report();
    assert_eq!((report.rows[0].name.hash, report.others_cached.hits), (2, 1));
    let both = merge([report.clone(), report], Order::Time);
    assert_eq!((both.others_cached.refused[0], both.others_cached.saved_us), ((3, 4), 1_000));
}

#[test]
fn the_sample_is_a_slow_statement_and_never_shown() {
    let began = began();
    let mut table = DigestTable::new(10, began);
    let mut statement = |time_us: u64, text: Option<&str>| {
        let ran = ran(time_us, began.0);
        let counted = table.count(key(1), &ran);
        if counted == Counted::Missing {
            table.admit(key(1), &ran, || name(1, "u"));
        }
        if counted != Counted::Done {
            table.sample(key(1), &ran, text.map(str::as_bytes));
        }
        let sample = table.report().rows[0].sample.clone();
        (counted, sample.map(|sample| String::from_utf8(sample.0.to_vec()).unwrap()))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(statement(100, Some("SELECT 'first'")), (Counted::Missing, text("SELECT 'first'")));
    assert_eq!(statement(120, Some("SELECT 'a little slower'")), (Counted::Done, text("SELECT 'first'")));
    assert_eq!(statement(200, Some("SELECT 'slow'")), (Counted::Slower, text("SELECT 'slow'")));
    assert_eq!(statement(900, None), (Counted::Slower, text("SELECT 'slow'")));
    let long = "x".repeat(super::SAMPLE_BYTES_MAX + 1);
    assert_eq!(statement(2_000, Some(&long)), (Counted::Slower, text("SELECT 'slow'")));
    assert!(!format!("{:?}", table.report()).contains("slow'"));
    table.set_samples(false);
    assert_eq!(
        (table.report().rows[0].sample.clone(), table.count(key(1), &ran(9_000, began.0))),
        (None, Counted::Done)
    );
}

#[test]
fn a_digest_of_several_clusters_is_one_row_or_one_of_each() {
    let began = began();
    let reports = || {
        ["main", "other"].map(|cluster| {
            let mut table = DigestTable::new(10, began);
            let name = || DigestName { cluster: cluster.into(), ..name(1, "u") };
            table.admit(key(1), &ran(50, began.0), name);
            table.admit(key(1), &ran(50, began.0), name);
            table.report()
        })
    };
    let rows = |report: DigestReport| {
        let row = |row: &super::DigestRow| (row.clusters().join(" "), row.figures.statements);
        report.rows.iter().map(row).collect::<Vec<_>>()
    };
    // Several workers have run it on each cluster, and answer in any order.
    let twice = || reports().into_iter().rev().chain(reports());
    assert_eq!(rows(merge(twice(), Order::Time)), [("main other".into(), 8)]);
    assert_eq!(rows(merge_by_cluster(twice(), Order::Time)), [("main".into(), 4), ("other".into(), 4)]);
}
