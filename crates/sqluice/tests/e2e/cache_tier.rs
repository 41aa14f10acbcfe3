//! The result cache's shared tier: two Sqluices in front of the same servers, and a Valkey or Redis that both know.

mod play;

use std::time::{Duration, Instant};

use lab::{Family, Valkey, ValkeyOptions};
use net::query::{Client, Parameter};

use crate::login::accounts;
use crate::support::cache::{KEY, hits, page, until_hit};
use crate::support::{Front, all, authority, blocking, calm, families, http_with, signal, until, value};

async fn valkey(options: ValkeyOptions) -> Valkey {
    blocking(|| Valkey::start(options).unwrap()).await
}

/// The common part of both: the tier's address, and a rule for all reads.
fn sections(tier: &str) -> String {
    format!(
        "[cache.tier]\ntimeout_ms = 150\n{tier}\n[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\n\
         cache_ttl_ms = 600000\ncache_tier = true\n"
    )
}

/// One Sqluice. All reads that miss the cache go to the primary, so that no client misses a write that a replica does not have yet.
async fn front(family: Family, tier: &str) -> Front {
    Front::start(calm(family).await, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.listener = "split = \"primary\"".into();
        setup.more = sections(tier);
    })
    .await
}

/// Two of them, and a table of their own for the test.
async fn fronts(family: Family, table: &str, tier: &str) -> [Front; 2] {
    let servers = calm(family).await;
    accounts(
        servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT); \
             INSERT INTO app.{table} VALUES (0, 0), (1, 0), (2, 0), (3, 0)"
        ),
    )
    .await;
    let fronts = [front(family, tier).await, front(family, tier).await];
    for front in &fronts {
        caches(front, table).await;
    }
    fronts
}

/// Waits until answers come from the cache again.
async fn caches(front: &Front, table: &str) {
    let mut client = front.client().await;
    until_hit(front, &mut client, &format!("SELECT COUNT(*) AS known FROM {table}")).await;
}

async fn in_tier(front: &Front, key: &str) -> u64 {
    page(front).await["tier"][key].as_u64().unwrap()
}

/// Whether the tier had the answer, which is this.
async fn is_found(front: &Front, client: &mut Client, read: &str, expected: &str) -> bool {
    let before = in_tier(front, "found").await;
    assert_eq!(value(client, read).await, expected);
    in_tier(front, "found").await > before
}

async fn check_answers(family: Family) {
    let valkey = valkey(ValkeyOptions::default()).await;
    let [one, two] = fronts(family, "tier_answers", &format!("address = \"{}\"", valkey.address())).await;
    let (mut a, mut b) = (one.client().await, two.client().await);
    let read = "SELECT n FROM tier_answers WHERE id = 1";
    until("an answer is in the tier", async || {
        // One that did not come there in `timeout_ms` is in the memory of both, and nobody asks the tier for it: another one has to come.
        all(&mut a, "UPDATE tier_answers SET n = n + 1 WHERE id = 3").await;
        let other = "SELECT n FROM tier_answers WHERE id = 3";
        let n = value(&mut a, other).await;
        is_found(&two, &mut b, other, &n).await.then_some(())
    })
    .await;
    assert_eq!(value(&mut a, read).await, "0");

    // Each sees at once what the other one's client was told of, from its memory or from the tier.
    for n in 1..50 {
        let (writer, reader) = if n % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let write = format!("UPDATE tier_answers SET n = {n} WHERE id = 1");
        match n % 5 {
            0 => drop(all(writer, &format!("BEGIN; {write}; COMMIT")).await),
            1 => {
                all(writer, "START TRANSACTION").await;
                all(writer, &write).await;
                assert_eq!(value(reader, read).await, (n - 1).to_string(), "it is not committed");
                all(writer, "COMMIT").await;
            }
            2 => {
                let prepared = writer.prepare("UPDATE tier_answers SET n = ? WHERE id = ?").await.unwrap();
                writer.execute(&prepared, &[Parameter::Int(n), Parameter::Int(1)]).await.unwrap();
            }
            _ => drop(all(writer, &write).await),
        }
        for _ in 0..2 {
            assert_eq!(value(reader, read).await, n.to_string());
        }
        assert_eq!(value(writer, read).await, n.to_string());
    }
    assert!(in_tier(&two, "good").await > 0 && in_tier(&one, "reports").await > 0);
    assert_eq!(in_tier(&one, "unreported").await + in_tier(&two, "unreported").await, 0);

    // A definition through one of them: what a view means is looked up anew by the other.
    all(&mut a, "CREATE OR REPLACE VIEW tier_view AS SELECT n FROM tier_answers WHERE id = 1").await;
    until("the view is known", async || {
        // With whatever is asked of the tier, it is heard of.
        value(&mut b, read).await;
        let before = hits(&two, "all").await;
        assert_eq!(value(&mut b, "SELECT n FROM tier_view").await, "49");
        (hits(&two, "all").await > before).then_some(())
    })
    .await;
    all(&mut a, "CREATE OR REPLACE VIEW tier_view AS SELECT n FROM tier_answers WHERE id = 2").await;
    for n in 100..110 {
        assert_eq!(
            value(&mut b, "SELECT n FROM tier_view").await,
            if n == 100 { "0".into() } else { (n - 1).to_string() }
        );
        all(&mut a, &format!("UPDATE tier_answers SET n = {n} WHERE id = 2")).await;
    }

    // Wiping is for all.
    caches(&two, "tier_answers").await;
    assert_eq!(http_with(&one.admin, "DELETE", "/api/v1/cache", Some(KEY)).await.0, 200);
    let missed = in_tier(&two, "missed").await;
    until("it is asked anew", async || {
        all(&mut b, read).await;
        (in_tier(&two, "missed").await > missed).then_some(())
    })
    .await;
    let metrics = one.metrics().await;
    assert_eq!(metrics.sum("sqluice_cache_tier_state", &["state=\"serves\""]), 1.0);
    assert!(metrics.sum("sqluice_cache_tier_members", &[]) >= 2.0);
}

#[tokio::test]
async fn processes_find_each_others_answers_and_hear_of_each_others_writes() {
    for family in families() {
        check_answers(family).await;
    }
}

async fn check_lost(family: Family) {
    let mut valkey = valkey(ValkeyOptions::default()).await;
    let [one, two] = fronts(family, "tier_lost", &format!("address = \"{}\"", valkey.address())).await;
    let (mut a, mut b) = (one.client().await, two.client().await);
    let read = "SELECT n FROM tier_lost WHERE id = 1";
    let mut n = 0;
    let mut write_and_read = async |a: &mut Client, b: &mut Client| {
        n += 1;
        let began = Instant::now();
        all(a, &format!("UPDATE tier_lost SET n = {n} WHERE id = 1")).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(3), "a write took {took:?}");
        let began = Instant::now();
        assert_eq!(value(b, read).await, n.to_string());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "a read took {took:?}");
    };
    for how in ["kill", "STOP", "FLUSHALL", "kill"] {
        caches(&one, "tier_lost").await;
        caches(&two, "tier_lost").await;
        assert_eq!(value(&mut a, read).await, value(&mut b, read).await);
        match how {
            "kill" => valkey.kill(),
            "STOP" => valkey.signal("STOP").unwrap(),
            _ => drop(valkey.commands(&["FLUSHALL"]).unwrap()),
        }
        for _ in 0..5 {
            write_and_read(&mut a, &mut b).await;
            write_and_read(&mut b, &mut a).await;
        }
        match how {
            "kill" => {
                until("it is missed", async || (page(&one).await["tier"]["state"] == "away").then_some(())).await;
                assert!(page(&one).await["tier"]["trouble"].is_string());
                valkey = blocking(move || {
                    valkey.restart().unwrap();
                    valkey
                })
                .await;
            }
            "STOP" => valkey.signal("CONT").unwrap(),
            _ => {}
        }
        for _ in 0..5 {
            write_and_read(&mut a, &mut b).await;
        }
    }
    caches(&two, "tier_lost").await;
    let log = one.log();
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert!((1..6).contains(&lines("the cache's tier cannot be used, servers answer")), "{log}");
    assert!(lines("the cache's tier can be used again") >= 1, "{log}");
}

#[tokio::test]
async fn without_the_tier_servers_answer() {
    for family in families() {
        check_lost(family).await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_a_line_in_the_log_and_no_more() {
    let options = ValkeyOptions { lines: vec!["requirepass right".into()], tls: None };
    let valkey = valkey(options).await;
    let bad = front(Family::MariaDb, &format!("address = \"{}\"\npassword = \"hushhush\"", valkey.address())).await;
    until("it is said", async || bad.log().contains("to AUTH: WRONGPASS").then_some(())).await;
    assert!(!bad.log().contains("hushhush"));
    let mut client = bad.client().await;
    assert_eq!(value(&mut client, "SELECT 1").await, "1");
}

#[tokio::test]
async fn the_tier_speaks_tls() {
    let (certificate, key) = authority().sign();
    let ca = authority().file();
    let files = lab::TlsFiles { certificate, key, authority: ca.clone() };
    let valkey = valkey(ValkeyOptions { lines: Vec::new(), tls: Some(files) }).await;
    let tls = |mode: &str| {
        let ca = if mode.starts_with("verify") { format!(", ca_file = \"{}\"", ca.display()) } else { String::new() };
        format!("address = \"{}\"\ntls = {{ mode = \"{mode}\"{ca} }}", valkey.address())
    };
    for mode in ["verify_identity", "required"] {
        let front = front(Family::MariaDb, &tls(mode)).await;
        until("it serves", async || (page(&front).await["tier"]["state"] == "serves").then_some(())).await;
    }
    let front = front(Family::MariaDb, &tls("disabled")).await;
    until("it is no use", async || page(&front).await["tier"]["trouble"].is_string().then_some(())).await;
}

#[tokio::test]
async fn a_process_that_stands_still_is_waited_for() {
    let valkey = valkey(ValkeyOptions::default()).await;
    let [one, two] = fronts(Family::MariaDb, "tier_still", &format!("address = \"{}\"", valkey.address())).await;
    let (mut a, mut b) = (one.client().await, two.client().await);
    let read = "SELECT n FROM tier_still WHERE id = 1";
    for n in 1..4 {
        caches(&one, "tier_still").await;
        caches(&two, "tier_still").await;
        value(&mut b, read).await;
        // It stands still with a write under way: whenever its client hears of that, nobody is given anything older.
        let write = format!("UPDATE tier_still SET n = {n} WHERE id = 1");
        let writing = async {
            all(&mut a, &write).await;
            Instant::now()
        };
        let still = async {
            signal(one.pid(), "STOP");
            let until = Instant::now() + Duration::from_millis(1500);
            let mut seen = Vec::new();
            while Instant::now() < until {
                seen.push((Instant::now(), value(&mut b, read).await));
            }
            signal(one.pid(), "CONT");
            let until = Instant::now() + Duration::from_millis(500);
            while Instant::now() < until {
                seen.push((Instant::now(), value(&mut b, read).await));
            }
            seen
        };
        let (reported, seen) = tokio::join!(writing, still);
        for (asked, value) in seen {
            assert!(asked < reported || value == n.to_string(), "{value} was read behind {n}");
        }
        assert_eq!(value(&mut b, read).await, n.to_string());
    }
    assert!(in_tier(&two, "closed").await > 0, "the tier was closed while a member was missing");
}
