//! Pipelines: reads of several sessions that share connections. No session sees another's, and a long one holds nobody up.

mod early_kill;
mod fills;
mod killed_once;
mod late_kill;
mod own_replies;
mod seen;

use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::query::{Client, Parameter};
use tokio::task::JoinSet;

use crate::parity::lone;
use crate::support::{Front, SOON, Setup, all, blocking, calm, error, failing, families, until, value};

/// Sessions at a time.
const CLIENTS: usize = 16;
/// Most time of a short read beside a long one: much less than the long one takes, and much more than a busy machine needs.
const SHORT_MAX: Duration = Duration::from_secs(5);

async fn numbers(servers: &'static Replication) {
    let rows: Vec<String> = (0..500).map(|n| format!("({n}, 'text {n}')")).collect();
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {db}.piped (n INT PRIMARY KEY, t VARCHAR(40));
         REPLACE INTO {db}.piped VALUES {};",
        rows.join(","),
        db = lab::APP_DATABASE
    );
    blocking(move || {
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(Duration::from_secs(60)).unwrap();
    })
    .await;
}

fn always(setup: &mut Setup) {
    setup.listener = "pipelines = \"always\"".into();
}

/// One worker in front of one server with numbers; reads share connections as `pool` says.
async fn one_worker(family: Family, pool: &str) -> Front {
    let servers = lone(family).await;
    numbers(servers).await;
    Front::start(servers, |setup| {
        always(setup);
        setup.proxy = "workers = 1".into();
        setup.pool = pool.into();
    })
    .await
}

/// Waits until a server runs a statement whose text holds this.
async fn until_it_runs(client: &mut Client, text: &str) {
    let begun = Instant::now();
    let holds = |value: &Vec<u8>| String::from_utf8_lossy(value).contains(text);
    loop {
        let list = client.query_one("SHOW PROCESSLIST").await.unwrap();
        if list.rows.iter().any(|row| row.iter().flatten().any(holds)) {
            return;
        }
        assert!(begun.elapsed() < SOON, "this does not run: {text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many reads were on pipelines.
async fn pipelined(front: &Front) -> f64 {
    front.metrics().await.sum("sqluice_pipelined_reads_total", &[])
}

/// Why reads were not on pipelines.
async fn reasons(front: &Front) -> String {
    let metrics = front.metrics().await;
    let of = |reason: &'static str| {
        (metrics.sum("sqluice_unpipelined_reads_total", &[&format!("reason=\"{reason}\"")]), reason)
    };
    format!("{:?}", stats::UNPIPELINED.iter().map(|reason| of(reason)).collect::<Vec<_>>())
}

/// Runs reads of many kinds; each row must be the one that was asked for.
async fn read_own(mut client: Client, me: usize, rounds: usize) {
    let prepared = client.prepare("SELECT n, t, ? FROM piped WHERE n = ?").await.unwrap();
    for round in 0..rounds {
        let (n, mark) = ((me * 31 + round) % 500, format!("{me}-{round}"));
        let text = client.query_one(&format!("SELECT n, t, '{mark}' FROM piped WHERE n = {n}")).await.unwrap();
        assert_eq!(text.rows.len(), 1);
        let row: Vec<_> = text.rows[0].iter().map(|value| String::from_utf8_lossy(value.as_deref().unwrap())).collect();
        assert_eq!(row, [n.to_string(), format!("text {n}"), mark.clone()]);
        let parameters = [Parameter::Bytes(mark.as_bytes().to_vec()), Parameter::Int(n as i64)];
        let results = client.execute(&prepared, &parameters).await.unwrap();
        assert_eq!(String::from_utf8_lossy(results[0].rows[0][2].as_deref().unwrap()), mark);
        match round % 8 {
            // Errors and warnings are their session's alone.
            1 => {
                let (code, said) = error(&mut client, &format!("SELECT nosuch_{me} FROM piped")).await;
                assert!(code == 1054 && said.contains(&format!("nosuch_{me}")), "{said}");
                let shown = client.query_one("SHOW WARNINGS").await.unwrap();
                let message = String::from_utf8_lossy(shown.rows[0][2].as_deref().unwrap()).into_owned();
                assert!(message.contains(&format!("nosuch_{me}")), "{message}");
            }
            3 => {
                all(&mut client, &format!("SELECT CAST('{me}x' AS SIGNED)")).await;
                assert_eq!(value(&mut client, "SELECT @@warning_count").await, "1");
            }
            // Some have more rows than others, and FOUND_ROWS() is the session's own.
            5 => {
                let count = 1 + (me * 7 + round) % 50;
                let result = client.query_one(&format!("SELECT t FROM piped WHERE n < {count}")).await.unwrap();
                assert_eq!(result.rows.len(), count);
                assert_eq!(value(&mut client, "SELECT FOUND_ROWS()").await, count.to_string());
            }
            // A reply that is too large for a pipeline.
            7 => {
                let length = 30_000 + me;
                let sql = format!("SELECT REPEAT('{}', {length})", me % 10);
                assert_eq!(value(&mut client, &sql).await, (me % 10).to_string().repeat(length));
            }
            _ => {}
        }
    }
}

async fn all_read_own(front: &Front, rounds: usize) {
    let mut clients = JoinSet::new();
    for me in 0..CLIENTS {
        clients.spawn(read_own(front.client().await, me, rounds));
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn no_session_gets_the_reply_of_another() {
    for family in families() {
        let servers = calm(family).await;
        numbers(servers).await;
        let front = Front::start(servers, always).await;
        all_read_own(&front, 60).await;
        let shared = pipelined(&front).await;
        assert!(
            shared > (CLIENTS * 60) as f64 / 2.0,
            "{family:?}: only {shared} reads were on pipelines: {}",
            reasons(&front).await
        );
        let why = front.metrics().await;
        assert!(
            why.sum("sqluice_unpipelined_reads_total", &["reason=\"reply\""]) > 0.0,
            "{family:?}: errors run alone"
        );
        let lost = why.sum("sqluice_unpipelined_reads_total", &["reason=\"lost\""]);
        assert_eq!(lost, 0.0, "{family:?}: no connection was lost, not by preparing a statement on it either");
    }
}

#[tokio::test]
async fn reads_share_connections_by_themselves_once_they_are_known_to_be_short() {
    for family in families() {
        let servers = lone(family).await;
        numbers(servers).await;
        let front = Front::start(servers, |setup| setup.proxy = "workers = 1".into()).await;
        let mut one = front.client().await;
        for n in 0..100 {
            all(&mut one, &format!("SELECT t FROM piped WHERE n = {n}")).await;
        }
        assert_eq!(pipelined(&front).await, 0.0, "{family:?}: nothing else ran");
        until("reads that share a connection", async || {
            all_read_own(&front, 8).await;
            println!("{}", reasons(&front).await);
            (pipelined(&front).await > 0.0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_long_read_holds_no_other_and_can_be_killed() {
    for family in families() {
        let front = one_worker(family, "").await;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(front.client().await);
        }
        let mut long = front.client().await;
        let id = long.greeting().connection_id;
        let asked = tokio::spawn(async move {
            let before = Instant::now();
            let ended = long.query_one("SELECT n, SLEEP(60) FROM piped WHERE n = 5").await;
            // As servers do: MariaDB with an error, MySQL with a row that says so.
            match (family, ended) {
                (Family::MySql, Ok(result)) => assert_eq!(result.rows[0][1].as_deref(), Some(&b"1"[..])),
                (_, Err(error)) => assert_eq!(error.code(), Some(1317), "{error}"),
                (_, Ok(result)) => panic!("{result:?}"),
            }
            assert!(before.elapsed() < Duration::from_secs(55));
            assert_eq!(value(&mut long, "SELECT t FROM piped WHERE n = 6").await, "text 6", "the session lives");
        });
        for round in 0..20 {
            for (me, client) in clients.iter_mut().enumerate() {
                let before = Instant::now();
                let n = round * 4 + me;
                assert_eq!(value(client, &format!("SELECT t FROM piped WHERE n = {n}")).await, format!("text {n}"));
                assert!(before.elapsed() < SHORT_MAX, "{family:?}: {:?}", before.elapsed());
            }
        }
        // Other tests have sleepers on these servers.
        until_it_runs(&mut clients[0], "SLEEP(60) FROM piped").await;
        all(&mut clients[1], &format!("KILL QUERY {id}")).await;
        asked.await.unwrap();
        let metrics = front.metrics().await;
        assert!(metrics.sum("sqluice_pipelined_reads_total", &[]) > 0.0);
    }
}

#[tokio::test]
async fn a_lost_server_costs_reads_on_pipelines_no_error() {
    for family in families() {
        let servers = failing(family).await;
        numbers(&servers).await;
        let front = Front::start(&servers, always).await;
        let mut clients = JoinSet::new();
        let end = Instant::now() + Duration::from_secs(6);
        for me in 0..CLIENTS {
            let mut client = front.client().await;
            clients.spawn(async move {
                let mut n = me;
                while Instant::now() < end {
                    n = (n + 17) % 500;
                    assert_eq!(
                        value(&mut client, &format!("SELECT t FROM piped WHERE n = {n}")).await,
                        format!("text {n}")
                    );
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = *servers;
        blocking(move || all.servers()[2].kill9()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One that hangs is worse: nothing says that its replies will not come.
        blocking(move || all.servers()[1].freeze().unwrap()).await;
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        assert!(pipelined(&front).await > 0.0, "{}", reasons(&front).await);
    }
}

#[tokio::test]
async fn pipelines_leave_connections_to_statements_that_need_their_own() {
    for family in families() {
        let servers = lone(family).await;
        numbers(servers).await;
        let front = Front::start(servers, |setup| {
            always(setup);
            setup.pool = "max_connections_per_server = 1".into();
        })
        .await;
        let mut readers = JoinSet::new();
        for me in 0..8 {
            let mut client = front.client().await;
            readers.spawn(async move {
                for round in 0..300 {
                    let n = (me * 17 + round) % 500;
                    let read = format!("SELECT t FROM piped WHERE n = {n}");
                    assert_eq!(value(&mut client, &read).await, format!("text {n}"));
                }
            });
        }
        let mut writer = front.client().await;
        all(&mut writer, "CREATE TABLE IF NOT EXISTS piped_writes (id INT AUTO_INCREMENT PRIMARY KEY)").await;
        for _ in 0..20 {
            let before = Instant::now();
            all(&mut writer, "INSERT INTO piped_writes VALUES (NULL)").await;
            assert!(before.elapsed() < SHORT_MAX, "{family:?}: a write waited {:?}", before.elapsed());
        }
        while let Some(ended) = readers.join_next().await {
            ended.unwrap();
        }
    }
}

/// Each that has its answer asks again at once, so that sessions wait for connections all the time.
#[tokio::test]
async fn reads_that_wait_for_connections_come_to_share_them() {
    const READERS: usize = 64;
    const ROUNDS: usize = 40;
    for family in families() {
        let servers = lone(family).await;
        numbers(servers).await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1".into();
            setup.pool = "max_connections_per_server = 4".into();
        })
        .await;
        let mut all_of_them = JoinSet::new();
        for _ in 0..4 {
            let mut client = front.client().await;
            all_of_them.spawn(async move { drop(all(&mut client, "SELECT SLEEP(1)").await) });
        }
        let used = || async {
            (front.metrics().await.sum("sqluice_server_connections", &["state=\"used\""]) >= 4.0).then_some(())
        };
        until("all connections to be used", used).await;
        for me in 0..READERS {
            let mut client = front.client().await;
            all_of_them.spawn(async move {
                for round in 0..ROUNDS {
                    let n = (me * 17 + round) % 500;
                    let read = format!("SELECT t FROM piped WHERE n = {n}");
                    assert_eq!(value(&mut client, &read).await, format!("text {n}"));
                }
            });
        }
        while let Some(ended) = all_of_them.join_next().await {
            ended.unwrap();
        }
        let shared = pipelined(&front).await;
        let least = (READERS * ROUNDS) as f64 / 2.0;
        assert!(shared > least, "{family:?}: only {shared} reads were on pipelines: {}", reasons(&front).await);
    }
}

#[tokio::test]
async fn the_operator_can_switch_pipelines_off() {
    let servers = calm(Family::MariaDb).await;
    numbers(servers).await;
    let of_rule = "[[rule]]\nname = \"alone\"\ntable = \"piped\"\npipelines = \"off\"\n";
    let of_user = format!("[user.{}]\npipelines = \"off\"\n", lab::APP_USER);
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Setup));
    let changes: [Change<'_>; 4] = [
        ("listener", &|setup| setup.listener = "pipelines = \"off\"".into()),
        ("pool", &|setup| {
            always(setup);
            setup.pool = "pipelines = 0".into();
        }),
        ("rule", &|setup| {
            always(setup);
            setup.more = of_rule.into();
        }),
        ("user", &|setup| {
            always(setup);
            setup.more = of_user.clone();
        }),
    ];
    for (place, change) in changes {
        let mut front = Front::start(servers, change).await;
        let mut client = front.client().await;
        for n in 0..50 {
            all(&mut client, &format!("SELECT t FROM piped WHERE n = {n}")).await;
        }
        assert_eq!(pipelined(&front).await, 0.0, "{place}");
        // Live: a reload is enough.
        front.reload(|setup| {
            always(setup);
            (setup.pool, setup.more) = (String::new(), String::new());
        });
        until("reads on pipelines", async || {
            let mut client = front.client().await;
            all(&mut client, "SELECT t FROM piped WHERE n = 1").await;
            all(&mut client, "SELECT t FROM piped WHERE n = 2").await;
            (pipelined(&front).await > 0.0).then_some(())
        })
        .await;
    }
}
