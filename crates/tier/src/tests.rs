//! With a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{Valkey, ValkeyOptions};

use super::*;

const TABLES: [u64; 2] = [7, u64::MAX];
const RESULT_KEY: ResultKey = [9; 16];

fn settings(address: &str) -> Settings {
    Settings {
        address: address.parse().unwrap(),
        tls: net::tls::ClientTls::disabled(),
        user: None,
        password: None,
        database: 0,
        prefix: "test".into(),
        name: None,
        membership: Duration::from_millis(400),
        // The machine may be busy: what is tested is who is given what.
        timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_secs(5),
        forget: Duration::from_secs(600),
        trust: Duration::ZERO,
        entry_max: 1 << 20,
    }
}

fn start(valkey: &Valkey, change: impl FnOnce(&mut Settings)) -> Arc<Tier> {
    let mut settings = settings(&valkey.address());
    change(&mut settings);
    Tier::start(settings).unwrap()
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn serves(tiers: &[&Arc<Tier>]) {
    for tier in tiers {
        until("it serves", async || !matches!(ask(tier, &[], None).await, TierReply::Nothing)).await;
    }
}

async fn ask(tier: &Tier, have: &[u8], key: Option<ResultKey>) -> TierReply {
    tier.ask(Question { cluster: "main", tables: &TABLES, have, key }).await
}

/// The tier's first reply that says anything: on a busy machine it may say nothing for a moment although all is well.
async fn reported(tier: &Tier, have: &[u8], key: Option<ResultKey>) -> TierReply {
    let mut reported = TierReply::Nothing;
    until("it says something", async || {
        reported = ask(tier, have, key).await;
        reported != TierReply::Nothing
    })
    .await;
    reported
}

async fn tags(tier: &Tier) -> Box<[u8]> {
    match reported(tier, &[], None).await {
        TierReply::Tags { tags, .. } => tags,
        other => panic!("{other:?}"),
    }
}

async fn found(tier: &Tier) -> Option<Box<[u8]>> {
    match reported(tier, &[], Some(RESULT_KEY)).await {
        TierReply::Tags { answer, .. } => answer,
        other => panic!("{other:?}"),
    }
}

async fn put(tier: &Tier) -> Box<[u8]> {
    let mut tags = tags(tier).await;
    until("it is put", async || {
        tags = self::tags(tier).await;
        tier.put(RESULT_KEY, &tags, b"the answer", Duration::from_secs(600));
        found(tier).await.is_some()
    })
    .await;
    tags
}

#[tokio::test]
async fn members_find_each_others_answers_until_one_of_them_writes() {
    let valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let (one, two) = (start(&valkey, |_| ()), start(&valkey, |_| ()));
    serves(&[&one, &two]).await;
    for written in [TierWrite::Tables(&TABLES[1..]), TierWrite::Anything, TierWrite::Definition] {
        let tags = put(&one).await;
        assert_eq!(found(&two).await.as_deref(), Some(&b"the answer"[..]));
        assert_eq!(reported(&two, &tags, None).await, TierReply::Good);
        two.report("other", written).await;
        two.report("main", TierWrite::Tables(&[8])).await;
        assert_eq!(reported(&one, &tags, None).await, TierReply::Good, "another table, another cluster");
        two.report("main", written).await;
        assert_eq!(found(&one).await, None, "{written:?}");
        let now = self::tags(&one).await;
        assert_ne!(now, tags, "{written:?}");
        let defines = definitions_tag(&now) != definitions_tag(&tags);
        assert_eq!(defines, written == TierWrite::Definition);
        // A result that was read before comes late.
        let puts = two.status().counts.puts;
        serves(&[&two]).await;
        two.put(RESULT_KEY, &tags, b"the old answer", Duration::from_secs(600));
        until("it is put", async || two.status().counts.puts > puts).await;
        assert_eq!(found(&one).await, None);
    }
    let counts = one.status().counts;
    assert!(counts.found > 0 && counts.good > 0 && counts.missed > 0 && counts.errors == 0, "{counts:?}");
}

#[tokio::test]
async fn nothing_is_given_out_while_a_member_cannot_be_told_from() {
    let valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let one = start(&valkey, |_| ());
    let two = start(&valkey, |settings| settings.name = Some("two".into()));
    serves(&[&one, &two]).await;
    put(&one).await;
    // Its connections are refused from now on; the other one's stays.
    let connects = [&one, &two].map(|tier| tier.status().counts.connects);
    let is_in_again = |tier: &Tier, connects: u64| {
        let status = tier.status();
        status.state == State::Serves && status.counts.connects > connects
    };
    valkey.commands(&["CONFIG SET maxclients 1", "CLIENT KILL TYPE normal SKIPME yes"]).unwrap();
    let (began, mut given) = (Instant::now(), 0);
    // Whichever of the two is let in again first is asked; the other one is out.
    let (mut inside, mut outside) = (&one, &two);
    loop {
        if is_in_again(&one, connects[0]) {
            break;
        }
        if is_in_again(&two, connects[1]) {
            (inside, outside) = (&two, &one);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    outside.report("main", TierWrite::Tables(&TABLES[..1])).await;
    // From here on its client knows.
    let reported = Instant::now();
    while reported.elapsed() < Duration::from_millis(600) {
        given += usize::from(ask(inside, &[], Some(RESULT_KEY)).await != TierReply::Nothing);
    }
    assert_eq!(given, 0, "a member is out, and has written");
    assert!(inside.status().counts.closed > 0);
}

#[tokio::test]
async fn what_the_tier_loses_is_not_given_out() {
    let mut valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let (one, two) = (start(&valkey, |_| ()), start(&valkey, |_| ()));
    serves(&[&one, &two]).await;
    let tags = put(&one).await;
    valkey.commands(&["FLUSHALL"]).unwrap();
    serves(&[&one, &two]).await;
    assert_eq!(found(&two).await, None);
    assert_ne!(self::tags(&two).await, tags);

    // It comes back with what it had saved before something was written.
    let tags = put(&one).await;
    valkey.commands(&["SAVE"]).unwrap();
    two.report("main", TierWrite::Tables(&TABLES)).await;
    valkey.kill();
    until("it is missed", async || one.status().state == State::Away && two.status().state == State::Away).await;
    assert_eq!(ask(&one, &tags, Some(RESULT_KEY)).await, TierReply::Nothing);
    let began = Instant::now();
    two.report("main", TierWrite::Tables(&TABLES)).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    valkey.restart().unwrap();
    assert_ne!(valkey.commands(&["DBSIZE"]).unwrap(), ":0\r\n", "it has saved nothing");
    serves(&[&one, &two]).await;
    assert_eq!(found(&one).await, None);
    assert_ne!(self::tags(&one).await, tags);
}

#[tokio::test]
async fn a_server_that_stands_still_holds_nobody_up_and_gives_out_nothing_old() {
    let valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let fast = |settings: &mut Settings| settings.timeout = Duration::from_millis(50);
    let (one, two) = (start(&valkey, fast), start(&valkey, fast));
    serves(&[&one, &two]).await;
    for _ in 0..3 {
        let tags = put(&one).await;
        valkey.signal("STOP").unwrap();
        let began = Instant::now();
        assert_eq!(ask(&one, &tags, None).await, TierReply::Nothing);
        until("nobody asks any more", async || one.status().state != State::Serves).await;
        until("an answer without a wait for the server", async || {
            let asked = Instant::now();
            assert_eq!(ask(&one, &tags, None).await, TierReply::Nothing);
            asked.elapsed() < Duration::from_millis(40)
        })
        .await;
        two.report("main", TierWrite::Tables(&TABLES)).await;
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        // All that had been sent to it is done now, late.
        valkey.signal("CONT").unwrap();
        until("it serves again", async || match ask(&one, &tags, Some(RESULT_KEY)).await {
            TierReply::Nothing => false,
            TierReply::Good => panic!("it was written meanwhile"),
            TierReply::Tags { answer, .. } => {
                assert_eq!(answer, None);
                true
            }
        })
        .await;
        serves(&[&one, &two]).await;
    }
}

#[tokio::test]
async fn who_leaves_is_not_waited_for_and_who_dies_is_until_it_is_back() {
    let valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let one = start(&valkey, |_| ());
    let named = |settings: &mut Settings| settings.name = Some("two".into());
    let two = start(&valkey, named);
    serves(&[&one, &two]).await;
    until("members are known", async || one.status().members.len() == 2).await;
    two.stop();
    assert_ne!(reported(&one, &[], None).await, TierReply::Nothing, "it has left");

    // One that died: its word runs out, and nobody takes it back.
    let run = valkey.commands(&["INFO server"]).unwrap();
    let run = run.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().trim().to_owned();
    let info = valkey.commands(&["INFO replication"]).unwrap();
    let replication = info.lines().find_map(|line| line.strip_prefix("master_replid:")).unwrap().trim();
    let members = format!("test:{FORM}:{run}.{replication}:members");
    // Not long enough ago to be forgotten by those that are there.
    let died = std::time::SystemTime::now() - Duration::from_secs(2);
    let died = died.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    valkey.commands(&[&format!("ZADD {members} {died} \"two\\x00dead\"")]).unwrap();
    assert_eq!(ask(&one, &[], None).await, TierReply::Nothing);
    let two = start(&valkey, named);
    serves(&[&one, &two]).await;
    // One without a name is forgotten.
    valkey.commands(&[&format!("ZADD {members} {died} \"nobody\\x00dead\"")]).unwrap();
    assert_eq!(ask(&one, &[], None).await, TierReply::Nothing);
    let three = start(&valkey, |settings| settings.forget = Duration::from_secs(1));
    serves(&[&one, &two, &three]).await;
}

#[tokio::test]
async fn passwords_databases_and_bounds() {
    // As the documentation has them.
    const RIGHTS: &str = "+info +time +script|load +evalsha +get +set +strlen +del +hmget +hset +hdel +zadd +zrem +zscore \
                          +zcount +zrange +zrangebyscore +zremrangebyscore +pexpire +select";
    let user = format!("user tier on >pass ~test:* {RIGHTS}");
    let lines = ["requirepass secret", &user, "maxmemory 3mb", "maxmemory-policy noeviction"];
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    let valkey = Valkey::start(ValkeyOptions { lines, tls: None }).unwrap();
    let log_in = |user: Option<&str>, password: &str, database: u32| {
        let (user, password) = (user.map(str::to_owned), password.as_bytes().to_vec());
        start(&valkey, move |settings| {
            (settings.user, settings.password, settings.database) = (user, Some(password.into()), database);
        })
    };
    let good = [log_in(None, "secret", 0), log_in(Some("tier"), "pass", 3)];
    serves(&[&good[0], &good[1]]).await;
    put(&good[0]).await;
    assert_eq!(found(&good[1]).await, None, "another database");
    let bad = log_in(Some("tier"), "wrong", 0);
    until("it is refused", async || bad.status().trouble.is_some()).await;
    let trouble = bad.status().trouble.unwrap();
    assert!(trouble.contains("AUTH") && trouble.contains("WRONGPASS") && !trouble.contains("wrong\""), "{trouble}");

    // It is full: nothing more is kept, and no harm is done.
    let before = good[0].status().counts;
    for n in 0..64_u8 {
        let tags = tags(&good[0]).await;
        good[0].put([n; 16], &tags, &vec![n; 100_000], Duration::from_secs(600));
        until("it is put or refused", async || {
            let counts = good[0].status().counts;
            counts.puts + counts.errors > before.puts + before.errors + u64::from(n)
        })
        .await;
        if good[0].status().counts.errors > before.errors {
            break;
        }
    }
    assert!(good[0].status().counts.errors > before.errors);
    good[0].report("main", TierWrite::Anything).await;
    assert_eq!(good[0].status().counts.unreported, 0);
}

/// Names and fields are what processes of other versions find, too: who changes them changes [`FORM`].
#[tokio::test]
async fn names_are_the_same_in_every_version() {
    let valkey = Valkey::start(ValkeyOptions::default()).unwrap();
    let one = start(&valkey, |_| ());
    serves(&[&one]).await;
    put(&one).await;
    let strings = |reply: &str| {
        let lines = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let names = strings(&valkey.commands(&["KEYS *"]).unwrap());
    let ends: Vec<&str> = names.iter().map(|name| name.splitn(4, ':').last().unwrap()).collect();
    assert_eq!(ends, ["answer:09090909090909090909090909090909", "marks", "members"]);
    assert!(names.iter().all(|name| name.starts_with("test:2:")), "{names:?}");
    let fields = |tables: &[u64]| fields("main", tables).concat();
    assert_eq!(fields(&[7]), b"main\0*main\0dmain\0t\0\0\0\0\0\0\0\x07");
    let tags = names.iter().find(|name| name.ends_with(":marks")).unwrap();
    assert_eq!(valkey.commands(&[&format!("HLEN {tags}")]).unwrap(), ":4\r\n");
    for field in ["main\\x00*", "main\\x00d", "main\\x00t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07"] {
        assert_eq!(valkey.commands(&[&format!("HEXISTS {tags} \"{field}\"")]).unwrap(), ":1\r\n", "{field}");
    }
}
