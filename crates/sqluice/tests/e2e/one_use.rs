//! State that servers keep until it is used up, and state that a part of a failed text has set: the same statements directly
//! and through one worker with a pool of one connection, where a neighbour looks for leaks behind each.

use lab::{Family, Server};
use net::client::Target;
use net::query::{self, Client, Limits, QueryError, ResultSet};
use wire::auth::Credential;

use crate::statements::{start, within};
use crate::support::{Front, SOON, all, app, blocking, calm, families, value};

/// How long the neighbour waits for the one connection.
const WAIT_MS: u32 = 100;
/// With this error Sqluice says that all connections are in use.
const ALL_IN_USE: u16 = 1203;
const USER: &str = "e2e_one_use";
const PASSWORD: &str = "one-use-secret";

const TABLES: &str = "
    CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT);
    CREATE TABLE t2 (a INT);
    CREATE TABLE memory (a INT) ENGINE=MEMORY;
    CREATE TABLE seen (id INT AUTO_INCREMENT PRIMARY KEY, a INT);
    DELIMITER //
    CREATE PROCEDURE p_announces() SET TRANSACTION READ ONLY//
    CREATE PROCEDURE p_commits() BEGIN COMMIT; SET TRANSACTION READ ONLY; END//
    CREATE PROCEDURE p_reads() SELECT COUNT(*) FROM t2//
    CREATE PROCEDURE p_plain() BEGIN DECLARE x INT; SET x = 5; END//
    CREATE PROCEDURE p_savepoint() SAVEPOINT x//
    CREATE PROCEDURE p_time() SET timestamp = 1000//
    CREATE PROCEDURE p_id() SET insert_id = 7000//
    DELIMITER ;";

/// Behind each statement: what one session must not see of another.
const NEIGHBOUR: [&str; 6] = [
    "SELECT @zz, @y, @@autocommit, @@sql_mode LIKE '%ANSI%', @@timestamp > 1000000, LAST_INSERT_ID(), DATABASE() IS NULL",
    "SHOW VARIABLES LIKE 'last_insert_id'",
    "ROLLBACK TO x",
    "INSERT INTO seen (a) VALUES (1)",
    "SELECT LAST_INSERT_ID()",
    "SELECT COUNT(*) FROM t2 WHERE a = 60",
];

/// Statements of one session. `!reset`, `!change` and `!execute TEXT` are commands. A last `held` says that the session keeps
/// its connection.
const CASES: &[&[&str]] = &[
    // SET TRANSACTION waits for a statement that really uses it up.
    &[
        "SET TRANSACTION READ ONLY",
        "SELECT 1",
        "INSERT INTO t2 VALUES (5)",
        "SELECT a FROM t2",
        "INSERT INTO t2 VALUES (6)",
    ],
    &[
        "SET TRANSACTION READ ONLY",
        "SELECT DATABASE() IS NULL",
        "DELETE FROM t2",
        "SELECT @@last_insert_id",
        "DO 1",
        "DELETE FROM t2",
        "COMMIT",
        "DELETE FROM t2",
    ],
    &["SET TRANSACTION READ ONLY", "SELECT nope", "INSERT INTO t2 VALUES (5)", "ROLLBACK"],
    &["SET TRANSACTION READ ONLY", "SELECT nope FROM t2", "INSERT INTO t2 VALUES (5)", "ROLLBACK"],
    &["SET TRANSACTION READ ONLY", "SELECT (SELECT 1 UNION SELECT 2) FROM t2", "INSERT INTO t2 VALUES (5)"],
    &[
        "SET TRANSACTION READ ONLY",
        "SELECT a FROM nosuch",
        "garbage",
        "SIGNAL SQLSTATE '45000'",
        "INSERT INTO t2 VALUES (5)",
        "held",
    ],
    &["SET TRANSACTION READ ONLY", "SELECT a FROM memory", "INSERT INTO t2 VALUES (5)", "held"],
    &["SET TRANSACTION READ ONLY", "SHOW TABLES LIKE 'zz'", "INSERT INTO t2 VALUES (5)", "ROLLBACK"],
    &[
        "SET TRANSACTION READ ONLY",
        "USE {}",
        "SHOW WARNINGS",
        "SHOW VARIABLES LIKE 'port_zz'",
        "DELETE FROM t2",
        "!execute SELECT 1",
        "DELETE FROM t2",
        "!execute SELECT a FROM t2",
        "DELETE FROM t2",
    ],
    &["SET TRANSACTION READ ONLY", "CALL p_plain()", "DELETE FROM t2", "CALL p_reads()", "DELETE FROM t2"],
    &["CALL p_announces()", "DELETE FROM t2", "SELECT a FROM t2", "DELETE FROM t2"],
    &["CALL p_announces()", "held"],
    &["!execute SET TRANSACTION READ ONLY", "DELETE FROM t2", "SELECT a FROM t2", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY; SELECT 1", "DELETE FROM t2", "SELECT 1; SELECT a FROM t2", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY; SELECT nope", "DELETE FROM t2", "ROLLBACK"],
    &["SET TRANSACTION READ ONLY; SELECT a FROM t2; SELECT nope", "DELETE FROM t2"],
    &[
        "SET TRANSACTION READ ONLY",
        "SET TRANSACTION READ ONLY",
        "DELETE FROM t2",
        "SET SESSION TRANSACTION READ WRITE",
        "DELETE FROM t2",
    ],
    &[
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SELECT 1",
        "BEGIN",
        "SELECT a FROM t2",
        "COMMIT",
        "SELECT a FROM t2",
    ],
    &["SET TRANSACTION READ ONLY", "BEGIN", "DELETE FROM t2", "COMMIT", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY", "START TRANSACTION READ WRITE", "DELETE FROM t2", "COMMIT", "DELETE FROM t2"],
    &[
        "SET autocommit = 0",
        "SET TRANSACTION READ ONLY",
        "SELECT 1",
        "SELECT a FROM t2",
        "DELETE FROM t2",
        "COMMIT",
        "DELETE FROM t2",
        "COMMIT",
    ],
    &[
        "SET TRANSACTION READ ONLY",
        "SET autocommit = 0",
        "SET autocommit = 1",
        "DELETE FROM t2",
        "SET @y = (SELECT MAX(a) FROM t2)",
        "DELETE FROM t2",
    ],
    &["SET TRANSACTION READ ONLY", "CREATE TABLE IF NOT EXISTS t2 (a INT)", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY", "DROP TABLE nosuch", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY", "!reset", "USE {}", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY", "!change", "USE {}", "DELETE FROM t2"],
    &["SET TRANSACTION READ ONLY", "held"],
    &["BEGIN", "SET TRANSACTION READ ONLY", "COMMIT", "DELETE FROM t2"],
    &["BEGIN", "CALL p_commits()"],
    &["BEGIN", "CALL p_reads()", "COMMIT", "DELETE FROM t2"],
    // The number that SET insert_id gives waits for a row that takes it.
    &[
        "SET insert_id = 3000",
        "DELETE FROM t",
        "SELECT 1",
        "INSERT INTO t2 VALUES (5)",
        "INSERT INTO t (id, a) VALUES (9, 9)",
        "INSERT INTO t (a) VALUES (1)",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t (a) VALUES (1)",
    ],
    &["SET insert_id = 3000", "SELECT 1", "held"],
    &[
        "SET insert_id = 3000",
        "INSERT INTO t (id, a) VALUES (NULL, 1), (1, 1), (1, 1)",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t (a) VALUES (1)",
    ],
    &["SET insert_id = 3000; SELECT nope", "INSERT INTO t (a) VALUES (1)", "SELECT @@insert_id"],
    &["BEGIN", "SET insert_id = 3000", "INSERT INTO t (a) VALUES (1)", "ROLLBACK", "INSERT INTO t (a) VALUES (1)"],
    &["CALL p_id()", "INSERT INTO t (a) VALUES (1)", "INSERT INTO t (a) VALUES (1)", "held"],
    &["SET insert_id = 3000", "!reset", "USE {}", "INSERT INTO t (a) VALUES (1)"],
    // LAST_INSERT_ID() in all its forms, also of statements that fail.
    &[
        "SET last_insert_id = 5",
        "SHOW VARIABLES LIKE 'last_insert_id'",
        "SHOW VARIABLES WHERE Variable_name = 'identity'",
        "SELECT @@identity",
    ],
    &[
        "SET identity = 6",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t (id, a) VALUES (NULL, 1), (1, 1), (1, 1)",
        "SELECT LAST_INSERT_ID()",
    ],
    &["SELECT LAST_INSERT_ID(77), (SELECT 1 UNION SELECT 2)", "SELECT LAST_INSERT_ID()"],
    &["SELECT nope, LAST_INSERT_ID(88)", "SELECT LAST_INSERT_ID()"],
    &[
        "INSERT INTO t (a) VALUES (1); INSERT INTO t (id, a) VALUES (NULL, 1), (1, 1), (1, 1)",
        "SELECT LAST_INSERT_ID()",
    ],
    &["SET last_insert_id = 5; SELECT nope", "SELECT LAST_INSERT_ID()"],
    // Parts of a text that failed have done what they say.
    &["SET @zz = 77; SELECT 1; SELECT nope", "SELECT @zz"],
    &["SET @zz = 77; SET sql_mode = 'ANSI'; SELECT nope; SET @zz = 78", "SELECT @zz, @@sql_mode"],
    &["SET @@sql_mode = 'ANSI'; SELECT nope", "SELECT @@sql_mode"],
    &["SET @zz = 5, @y = (SELECT 1 UNION SELECT 2)", "SELECT @zz, @y"],
    &["SET @zz = 5, @@sql_mode = 'ANSI', @y = (SELECT 1 UNION SELECT 2)", "SELECT @zz, @y, @@sql_mode"],
    &["SET @zz = 5, nosuch = 6", "SELECT @zz"],
    &["SET NAMES latin1 COLLATE latin1_bin; SELECT nope", "SELECT @@character_set_client, @@collation_connection"],
    &["SET autocommit = 0; SELECT nope", "SELECT @@autocommit", "INSERT INTO t2 VALUES (60)", "ROLLBACK"],
    &["SET autocommit = 0", "SELECT 1; INSERT INTO t VALUES (1, 1), (1, 1)", "ROLLBACK"],
    &["SET @@timestamp = 1000; SELECT nope", "SELECT @@timestamp", "!reset"],
    &["CREATE TEMPORARY TABLE own (a INT); SELECT nope", "SELECT COUNT(*) FROM own", "DROP TEMPORARY TABLE own"],
    &["PREPARE s FROM 'SELECT 1'; SELECT nope", "EXECUTE s", "DEALLOCATE PREPARE s"],
    &["CALL p_time()", "SELECT @@timestamp", "held"],
    &["SET timestamp = 1000", "SELECT @@timestamp", "SET timestamp = DEFAULT"],
    &["SET rand_seed1 = 1, rand_seed2 = 2", "SELECT RAND()", "SELECT RAND()", "held"],
    // With autocommit off a savepoint may come first.
    &[
        "SET autocommit = 0",
        "SAVEPOINT x",
        "SELECT COUNT(*) FROM t2",
        "INSERT INTO t2 VALUES (60)",
        "ROLLBACK TO x",
        "COMMIT",
        "SELECT COUNT(*) FROM t2 WHERE a = 60",
        "COMMIT",
    ],
    &["SET autocommit = 0", "SAVEPOINT x", "ROLLBACK TO x", "RELEASE SAVEPOINT x", "ROLLBACK TO x", "ROLLBACK"],
    &["SET autocommit = 0", "SAVEPOINT x", "SET autocommit = 1", "ROLLBACK TO x"],
    &[
        "SET autocommit = 0",
        "SAVEPOINT x",
        "SET autocommit = 0",
        "SELECT nope",
        "ROLLBACK TO x",
        "BEGIN",
        "ROLLBACK TO x",
        "COMMIT",
    ],
    &["SET autocommit = 0; SAVEPOINT x; SELECT nope", "ROLLBACK TO x", "COMMIT"],
    &["SET autocommit = 0", "CALL p_savepoint()", "ROLLBACK TO x", "COMMIT"],
    &["SET autocommit = 0", "SAVEPOINT x", "CREATE TABLE IF NOT EXISTS t2 (a INT)", "ROLLBACK TO x", "held"],
    &["SET autocommit = 0", "SAVEPOINT x", "held"],
    &["SAVEPOINT x", "ROLLBACK TO x"],
];

/// One side: a schema of its own on the primary, asked directly or through Sqluice.
struct Side {
    target: Target,
    schema: &'static str,
    admin: Client,
}

impl Side {
    async fn new(target: Target, schema: &'static str, primary: &Server) -> Side {
        let direct = Target::plain(primary.address().to_string().parse().unwrap(), SOON);
        let mut admin = connect(&direct).await;
        admin.init_db(schema).await.unwrap();
        Side { target, schema, admin }
    }

    async fn begin(&mut self) {
        let fresh = "TRUNCATE TABLE t; TRUNCATE TABLE t2; TRUNCATE TABLE memory; TRUNCATE TABLE seen; \
                     INSERT INTO t2 VALUES (1); INSERT INTO memory VALUES (1); INSERT INTO t (a) VALUES (1)";
        all(&mut self.admin, fresh).await;
    }

    async fn session(&self) -> Client {
        let mut client = connect(&self.target).await;
        client.init_db(self.schema).await.unwrap();
        client
    }
}

async fn connect(target: &Target) -> Client {
    let login = query::login(USER, Credential::password(PASSWORD));
    Client::connect(target, login, Limits::default()).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Does what a line says; gives what came of it.
async fn run(client: &mut Client, line: &str, schema: &str) -> Result<Vec<String>, u16> {
    let line = line.replace("{}", schema);
    let done = match line.split_once(' ') {
        Some(("!execute", text)) => execute(client, text).await,
        _ if line == "!reset" => client.reset_connection().await.map(|()| Vec::new()),
        _ if line == "!change" => {
            let login = query::login(USER, Credential::password(PASSWORD));
            client.change_user(login).await.map(|()| Vec::new())
        }
        _ => client.query(&line).await,
    };
    match done {
        Ok(results) => Ok(results.iter().map(|result| shown(result, schema)).collect()),
        Err(error) => Err(error.code().unwrap_or_else(|| panic!("{line}: {error}"))),
    }
}

async fn execute(client: &mut Client, text: &str) -> Result<Vec<ResultSet>, QueryError> {
    let statement = client.prepare(text).await?;
    client.execute(&statement, &[]).await
}

fn shown(result: &ResultSet, schema: &str) -> String {
    let text = |value: &Option<Vec<u8>>| {
        value.as_ref().map_or("NULL".into(), |value| String::from_utf8_lossy(value).replace(schema, "{}"))
    };
    let rows: Vec<Vec<String>> = result.rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let flags = result.status & (wire::Status::IN_TRANSACTION | wire::Status::AUTOCOMMIT);
    format!("{rows:?} {} {} {flags:?}", result.affected, result.last_insert_id)
}

/// The neighbour's view; `None` while it gets no connection.
async fn look(client: &mut Client, side: &Side, questions: &[&str]) -> Option<Vec<String>> {
    let mut seen = Vec::new();
    for question in questions {
        match client.query(question).await {
            Ok(results) => seen.extend(results.iter().map(|result| shown(result, side.schema))),
            Err(error) => {
                let said = error.server_error().unwrap_or_else(|| panic!("{question}: {error}"));
                if said.code == ALL_IN_USE {
                    assert!(seen.is_empty(), "{question}: {}", said.message);
                    return None;
                }
                seen.push(said.code.to_string());
            }
        }
    }
    Some(seen)
}

async fn compare(family: Family, case: &[&str], direct: &mut Side, through: &mut Side, wrong: &mut Vec<String>) {
    direct.begin().await;
    through.begin().await;
    let name = case.join(" / ");
    let (mut own, mut own_direct) = (through.session().await, direct.session().await);
    let (mut other, mut other_direct) = (through.session().await, direct.session().await);
    let (lines, held) = match case.split_last() {
        Some((&"held", lines)) => (lines, true),
        _ => (case, false),
    };
    let mut given = true;
    for line in lines {
        let (direct_said, said) =
            (run(&mut own_direct, line, direct.schema).await, run(&mut own, line, through.schema).await);
        if said != direct_said {
            wrong.push(format!("{name}\n  {line}\n  - {direct_said:?}\n  + {said:?}"));
        }
        let seen = look(&mut other, through, &NEIGHBOUR).await;
        given = seen.is_some();
        if let Some(seen) = seen {
            let seen_direct = look(&mut other_direct, direct, &NEIGHBOUR).await.unwrap();
            if seen != seen_direct {
                wrong.push(format!("{name}\n  the neighbour behind {line}\n  - {seen_direct:?}\n  + {seen:?}"));
            }
        }
    }
    // The lab's MySQL does not show user variables, so that what may set them unseen keeps the session's connection.
    let sets_unseen = |line: &&str| line.contains("CALL") || line.contains("EXECUTE");
    if given == held && !(family == Family::MySql && lines.iter().any(sets_unseen)) {
        wrong.push(format!("{name}\n  the connection is {}", if given { "not held" } else { "held" }));
    }
    own.quit().await.unwrap();
    own_direct.quit().await.unwrap();
    let seen = look(&mut other, through, &NEIGHBOUR).await;
    let seen_direct = look(&mut other_direct, direct, &NEIGHBOUR).await;
    if seen != seen_direct {
        wrong.push(format!("{name}\n  the neighbour at the end\n  - {seen_direct:?}\n  + {seen:?}"));
    }
    let (mut fresh, mut fresh_direct) = (through.session().await, direct.session().await);
    let seen = look(&mut fresh, through, &NEIGHBOUR).await;
    let seen_direct = look(&mut fresh_direct, direct, &NEIGHBOUR).await;
    if seen != seen_direct {
        wrong.push(format!("{name}\n  a new session\n  - {seen_direct:?}\n  + {seen:?}"));
    }
}

async fn all_cases(family: Family) {
    let servers = calm(family).await;
    let make = ["e2e_one_direct", "e2e_one_through"]
        .map(|schema| format!("DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema}; USE {schema};\n{TABLES}\n"));
    let user = format!(
        "DROP USER IF EXISTS {USER}@'%'; CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL PRIVILEGES ON *.* TO {USER}@'%';\n"
    );
    let script = user + &make.concat();
    blocking(move || {
        servers.primary().sql(&script).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = format!("max_connections_per_server = 1\nwait_ms = {WAIT_MS}");
        setup.listener = "split = \"primary\"".into();
    })
    .await;
    let direct = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
    let mut direct = Side::new(direct, "e2e_one_direct", servers.primary()).await;
    let mut through = Side::new(front.target(), "e2e_one_through", servers.primary()).await;
    let mut wrong = Vec::new();
    for case in CASES {
        compare(family, case, &mut direct, &mut through, &mut wrong).await;
    }
    assert!(wrong.is_empty(), "{family:?}: {} of {} cases\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_is_used_up_once_is_used_up_by_its_own_session_on_mariadb() {
    all_cases(Family::MariaDb).await;
}

#[tokio::test]
async fn what_is_used_up_once_is_used_up_by_its_own_session_on_mysql() {
    if families().any(|family| family == Family::MySql) {
        all_cases(Family::MySql).await;
    }
}

#[tokio::test]
async fn a_read_only_transaction_with_variables_makes_room_for_writes() {
    for family in families() {
        let schema = "e2e_one_moved";
        let (front, _) = start(family, schema, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
        let mut client = within(&front, schema).await;
        for set in [
            "SET @c = 1 + 4",
            "SELECT @c := a + 4 FROM t",
            "SELECT 5 INTO @c",
            "SELECT SQL_CALC_FOUND_ROWS a, @c := 5 FROM t LIMIT 1",
        ] {
            for write in ["LOCK TABLES t WRITE", "START TRANSACTION READ WRITE", "SELECT a FROM t LOCK IN SHARE MODE"] {
                all(&mut client, "START TRANSACTION READ ONLY").await;
                all(&mut client, set).await;
                let refused = client.query(write).await.err().and_then(|error| error.code());
                let locks = write.ends_with("MODE");
                assert_eq!(refused, None, "{family:?}: {set} / {write}");
                if !locks {
                    all(&mut client, "INSERT INTO t VALUES (2)").await;
                }
                all(&mut client, "UNLOCK TABLES").await;
                all(&mut client, "ROLLBACK").await;
                all(&mut client, "DELETE FROM t WHERE a = 2").await;
                assert_eq!(value(&mut client, "SELECT @c").await, "5", "{family:?}: {set} / {write}");
            }
        }
        front.is_pinned_by(&[]).await;
    }
}

#[tokio::test]
async fn ignore_space_of_a_login_outlives_resets_as_on_the_server() {
    const ASKS: &str = "SELECT @@sql_mode LIKE '%IGNORE_SPACE%'";
    for family in families() {
        let servers = calm(family).await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = "max_connections_per_server = 1".into();
            setup.listener = "split = \"primary\"".into();
        })
        .await;
        let direct = Target::plain(servers.primary().address().to_string().parse().unwrap(), SOON);
        let mut said = Vec::new();
        for target in [&direct, &front.target()] {
            let session = async || {
                let mut login = app();
                login.capabilities |= wire::Capabilities::IGNORE_SPACE;
                Client::connect(target, login, Limits::default()).await.unwrap()
            };
            let (mut first, mut second) = (session().await, session().await);
            let mut heard = Vec::new();
            all(&mut second, "SET sql_mode = DEFAULT").await;
            heard.push(value(&mut first, ASKS).await);
            for line in ["!reset", "BEGIN", "!reset", "SET sql_mode = ''", "!reset", "SET sql_mode = DEFAULT"] {
                run(&mut first, line, "").await.unwrap();
                heard.push(value(&mut first, ASKS).await);
                if line != "BEGIN" {
                    heard.push(value(&mut second, ASKS).await);
                    heard.push(value(&mut session().await, ASKS).await);
                }
            }
            said.push(heard);
        }
        assert_eq!(said[1], said[0], "{family:?}");
        assert!(said[0].contains(&"1".into()) && said[0].contains(&"0".into()), "{said:?}");
    }
}
