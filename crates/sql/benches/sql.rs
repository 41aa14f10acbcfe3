//! Reading statements: `cargo bench -p sqluice-sql`.

#![allow(missing_docs, reason = "criterion's macros write functions without documentation")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sqluice_sql::lexer::Lexer;
use sqluice_sql::{Dialect, Encoding, Family, Modes, NoFunctions, classify, digest, digest_hash};

/// Statements of sysbench and of frameworks.
const TEXTS: [(&str, &str); 7] = [
    ("point_select", "SELECT c FROM sbtest1 WHERE id=5017"),
    ("sum_range", "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 5017 AND 5116"),
    ("distinct_range", "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 5017 AND 5116 ORDER BY c"),
    ("update", "UPDATE sbtest1 SET k=k+1 WHERE id=5017"),
    ("set", "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'"),
    ("begin", "BEGIN"),
    (
        "join",
        "SELECT `u`.`id`, `u`.`name`, `o`.`total`, COUNT(*) AS `n` FROM `users` AS `u` INNER JOIN `orders` AS `o` ON \
         `o`.`user_id` = `u`.`id` LEFT JOIN `items` AS `i` ON `i`.`order_id` = `o`.`id` WHERE `u`.`email` = \
         'someone@example.com' AND `o`.`state` IN ('open', 'paid', 'sent') AND `o`.`created_at` >= '2026-01-01 \
         00:00:00' GROUP BY `u`.`id`, `o`.`id` HAVING COUNT(*) > 1 ORDER BY `o`.`created_at` DESC LIMIT 20 OFFSET 40",
    ),
];

fn dialect() -> Dialect {
    Dialect { family: Family::MariaDb, version: 101_106, modes: Modes::empty(), encoding: Encoding::Utf8 }
}

/// Measures `work` on each text, as bytes per second.
fn each(c: &mut Criterion, name: &str, work: impl Fn(&[u8], &Dialect)) {
    let (mut group, dialect) = (c.benchmark_group(name), dialect());
    for (name, text) in TEXTS {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| work(black_box(text.as_bytes()), &dialect)));
    }
    group.finish();
}

fn benches(c: &mut Criterion) {
    each(c, "lexer", |text, dialect| {
        black_box(Lexer::new(text, dialect).count());
    });
    each(c, "classify", |text, dialect| drop(black_box(classify(text, dialect, &NoFunctions))));
    each(c, "digest_hash", |text, dialect| {
        black_box(digest_hash(text, dialect));
    });
    each(c, "digest", |text, dialect| drop(black_box(digest(text, dialect))));
}

criterion_group!(all, benches);
criterion_main!(all);
