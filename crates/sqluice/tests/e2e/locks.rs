//! Locks, sequences and variables belong to the session that has them: with one connection for all, another session finds
//! nothing of them.

use lab::{Family, Replication};
use net::query::{Client, Parameter};

use crate::statements::start;
use crate::support::{Front, all, error, families, until, value};

/// The program with one worker and one connection to each server, and a client in the test's database.
pub async fn narrow(family: Family, database: &str, sql: &str) -> (Front, &'static Replication) {
    let (front, servers) = start(family, database, sql).await;
    drop(front);
    let front = Front::start(servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "max_connections_per_server = 1\nwait_ms = 60000".into();
        setup.cluster += "\ncatalog_refresh_s = 1";
    })
    .await;
    (front, servers)
}

pub async fn within(front: &Front, database: &str) -> Client {
    crate::statements::within(front, database).await
}

#[tokio::test]
async fn a_user_lock_is_held_as_often_as_it_was_taken() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_locks", "CREATE TABLE t (id INT PRIMARY KEY)").await;
        let (mut one, mut two) = (within(&front, "e2e_locks").await, within(&front, "e2e_locks").await);
        assert_eq!(value(&mut one, "SELECT GET_LOCK('twice', 0)").await, "1");
        assert_eq!(value(&mut one, "SELECT GET_LOCK('twice', 0)").await, "1");
        assert_eq!(value(&mut one, "SELECT RELEASE_LOCK('twice')").await, "1");
        front.is_pinned_by(&["user_lock"]).await;
        assert_eq!(value(&mut one, "SELECT RELEASE_LOCK('twice')").await, "1");
        front.is_pinned_by(&[]).await;
        assert_eq!(value(&mut two, "SELECT GET_LOCK('twice', 0)").await, "1");
        assert_eq!(value(&mut two, "SELECT RELEASE_LOCK('twice'), 1").await, "1");
        assert_eq!(value(&mut one, "SELECT IFNULL(RELEASE_LOCK('twice'), 'none')").await, "none");
        front.is_pinned_by(&[]).await;
        // Several in one statement, a release that does not happen, and what the statement before left.
        assert_eq!(value(&mut one, "SELECT GET_LOCK('a', 0) + GET_LOCK('b', 0) + GET_LOCK('a', 0)").await, "3");
        assert_eq!(value(&mut one, "SELECT IF(0, RELEASE_LOCK('a'), 5)").await, "5");
        assert_eq!(value(&mut one, "SELECT RELEASE_LOCK('a') + RELEASE_LOCK('b')").await, "2");
        front.is_pinned_by(&["user_lock"]).await;
        // MySQL calls a function of constants even where there is no row, MariaDB does not.
        assert_eq!(value(&mut one, "SELECT COUNT(*) FROM t WHERE RELEASE_LOCK('a')").await, "0");
        let left: &[&str] = if family == Family::MariaDb { &["user_lock"] } else { &[] };
        front.is_pinned_by(left).await;
        all(&mut one, "DO RELEASE_LOCK('a')").await;
        front.is_pinned_by(&[]).await;
        drop((one, two));
    }
}

#[tokio::test]
async fn a_lock_that_was_not_taken_keeps_no_connection() {
    for family in families() {
        let (front, servers) = narrow(family, "e2e_no_lock", "CREATE TABLE t (id INT PRIMARY KEY)").await;
        let (mut one, mut two) = (within(&front, "e2e_no_lock").await, within(&front, "e2e_no_lock").await);
        let beside = Front::start(servers, |_| {}).await;
        let mut direct = beside.client().await;
        assert_eq!(value(&mut direct, "SELECT GET_LOCK('Busy', 0)").await, "1");
        assert_eq!(value(&mut one, "SELECT GET_LOCK('Busy', 0)").await, "0");
        front.is_pinned_by(&[]).await;
        // MySQL compares names without case, MariaDB byte by byte.
        let other_case = if family == Family::MySql { "0" } else { "1" };
        assert_eq!(value(&mut two, "SELECT GET_LOCK('bUSY', 0)").await, other_case);
        all(&mut two, "DO RELEASE_LOCK('bUSY')").await;
        front.is_pinned_by(&[]).await;
        // Names that only the server knows.
        all(&mut one, "SET @name = 'mine'").await;
        assert_eq!(value(&mut one, "SELECT GET_LOCK(@name, 0)").await, "1");
        front.is_pinned_by(&["user_lock"]).await;
        assert_eq!(value(&mut one, "SELECT RELEASE_ALL_LOCKS()").await, "1");
        front.is_pinned_by(&[]).await;
        let lock = one.prepare("SELECT GET_LOCK(?, 0)").await.unwrap();
        one.execute(&lock, &[Parameter::Bytes(b"mine".to_vec())]).await.unwrap();
        front.is_pinned_by(&["user_lock"]).await;
        all(&mut one, "DO RELEASE_ALL_LOCKS()").await;
        front.is_pinned_by(&[]).await;
        assert_eq!(value(&mut two, "SELECT IFNULL(IS_USED_LOCK('mine'), 'free')").await, "free");
    }
}

#[tokio::test]
async fn a_lock_that_a_routine_takes_is_its_callers() {
    // With MySQL a CALL keeps its connection anyway: users do not see their variables there.
    let family = Family::MariaDb;
    let sql = "CREATE PROCEDURE takes() DO GET_LOCK('inner', 0);
        CREATE PROCEDURE calls() CALL takes();
        CREATE PROCEDURE plain() SELECT 1;
        CREATE FUNCTION f() RETURNS INT NO SQL RETURN GET_LOCK('inner', 0);
        CREATE FUNCTION g() RETURNS INT NO SQL RETURN f();";
    let (front, _) = narrow(family, "e2e_inner", sql).await;
    let (mut one, mut two) = (within(&front, "e2e_inner").await, within(&front, "e2e_inner").await);
    all(&mut one, "CALL plain()").await;
    front.is_pinned_by(&[]).await;
    let prepared = "PREPARE s FROM 'SELECT GET_LOCK(''inner'', 0)'";
    for text in ["CALL takes()", "CALL e2e_inner.calls()", "SELECT g()", "EXECUTE s"] {
        if text == "EXECUTE s" {
            all(&mut one, prepared).await;
        }
        all(&mut one, text).await;
        if text == "EXECUTE s" {
            all(&mut one, "DEALLOCATE PREPARE s").await;
        }
        front.is_pinned_by(&["user_lock", "user_variable"]).await;
        assert_eq!(value(&mut one, "SELECT RELEASE_ALL_LOCKS()").await, "1", "{text}");
        front.is_pinned_by(&[]).await;
        assert_eq!(value(&mut two, "SELECT IFNULL(RELEASE_LOCK('inner'), 'none')").await, "none", "{text}");
    }
    // It may have come from within a routine that has begun a transaction: the server is asked.
    assert_eq!(error(&mut one, "CALL not_there()").await.0, 1305);
    front.is_pinned_by(&[]).await;
    // One that has just been made is read before it is trusted.
    all(&mut one, "CREATE PROCEDURE late() DO GET_LOCK('inner', 0)").await;
    all(&mut one, "CALL late()").await;
    until("the pin", async || front.metrics().await.pins().contains(&"user_lock".into()).then_some(())).await;
    one.quit().await.unwrap();
    assert_eq!(value(&mut two, "SELECT IFNULL(IS_USED_LOCK('inner'), 'free')").await, "free");
}

#[tokio::test]
async fn each_kind_of_lock_ends_by_itself() {
    for family in families() {
        let right = if family == Family::MySql { "GRANT BACKUP_ADMIN ON *.* TO app;" } else { "" };
        let sql = format!("{right} CREATE TABLE t (id INT PRIMARY KEY)");
        let (front, _) = narrow(family, "e2e_kinds", &sql).await;
        let mut one = within(&front, "e2e_kinds").await;
        let (take, release) = match family {
            Family::MariaDb => ("BACKUP LOCK t", "BACKUP UNLOCK"),
            Family::MySql => ("LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"),
        };
        all(&mut one, take).await;
        if family == Family::MySql {
            all(&mut one, "LOCK TABLES t READ").await;
        }
        all(&mut one, "UNLOCK TABLES").await;
        front.is_pinned_by(&["lock_tables"]).await;
        all(&mut one, release).await;
        front.is_pinned_by(&[]).await;
        // A text that fails behind the lock.
        assert_eq!(error(&mut one, "LOCK TABLES t WRITE; SELECT nope").await.0, 1054);
        front.is_pinned_by(&["lock_tables"]).await;
        all(&mut one, "UNLOCK TABLES").await;
        front.is_pinned_by(&[]).await;
        all(&mut one, "HANDLER e2e_kinds.t OPEN").await;
        all(&mut one, "HANDLER `T` CLOSE").await;
        front.is_pinned_by(&[]).await;
    }
}

#[tokio::test]
async fn a_sequences_last_value_is_its_sessions() {
    let sql = "CREATE SEQUENCE s NOCACHE; CREATE TABLE t (id INT DEFAULT NEXTVAL(s), a INT)";
    let (front, _) = narrow(Family::MariaDb, "e2e_sequence", sql).await;
    let (mut one, mut two) = (within(&front, "e2e_sequence").await, within(&front, "e2e_sequence").await);
    assert_eq!(value(&mut one, "SELECT NEXTVAL(s)").await, "1");
    front.is_pinned_by(&["sequence"]).await;
    assert_eq!(value(&mut one, "SELECT LASTVAL(s)").await, "1");
    one.quit().await.unwrap();
    assert_eq!(value(&mut two, "SELECT PREVIOUS VALUE FOR s").await, "NULL");
    all(&mut two, "INSERT INTO t (a) VALUES (1)").await;
    assert_eq!(value(&mut two, "SELECT LASTVAL(s)").await, "2");
    two.reset_connection().await.unwrap();
    front.is_pinned_by(&[]).await;
    // The state that a write left unseen belongs to no other session.
    all(&mut two, "INSERT INTO t (a) VALUES (1)").await;
    front.is_pinned_by(&[]).await;
    let mut three = within(&front, "e2e_sequence").await;
    assert_eq!(value(&mut three, "SELECT LASTVAL(s)").await, "NULL");
}

/// Views whose definitions do more than read: they go to the primary, and what they leave is their session's.
#[tokio::test]
async fn what_a_view_does_is_known() {
    for family in families() {
        let mut sql = "CREATE TABLE log (a INT);
            DELIMITER //
            CREATE FUNCTION inner_writes() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO log VALUES (1); RETURN 5; END//
            CREATE FUNCTION writes() RETURNS INT NO SQL RETURN inner_writes()//
            DELIMITER ;
            CREATE VIEW v_writes AS SELECT writes() AS n;
            CREATE VIEW v_over AS SELECT n FROM v_writes;
            CREATE VIEW v_lock AS SELECT GET_LOCK('in_view', 0) AS n;
            CREATE VIEW v_id AS SELECT LAST_INSERT_ID(9) AS n;
            GRANT SELECT ON e2e_views.* TO "
            .to_owned()
            + &format!("{}@'%';", lab::MONITOR_USER);
        if family == Family::MariaDb {
            // Without a cache: another test's FLUSH TABLES makes a server skip what it has kept of a sequence.
            sql += "CREATE SEQUENCE s NOCACHE; CREATE VIEW v_next AS SELECT NEXTVAL(s) AS n;
                CREATE TABLE t (id INT DEFAULT NEXTVAL(s), a INT); INSERT INTO t VALUES (100, 1);";
        }
        let (front, _) = narrow(family, "e2e_views", &sql).await;
        let (mut one, mut two) = (within(&front, "e2e_views").await, within(&front, "e2e_views").await);
        // The catalog is read a moment after the start.
        until("a view that is known", async || {
            assert_eq!(value(&mut one, "SELECT n FROM v_lock").await, "1");
            let known = front.metrics().await.pins().contains(&"user_lock".into());
            all(&mut one, "DO RELEASE_ALL_LOCKS()").await;
            known.then_some(())
        })
        .await;
        front.is_pinned_by(&[]).await;
        assert_eq!(value(&mut two, "SELECT IFNULL(IS_USED_LOCK('in_view'), 'free')").await, "free");
        for text in ["SELECT n FROM v_writes", "SELECT n FROM v_over"] {
            assert_eq!(value(&mut one, text).await, "5", "{text}");
        }
        assert_eq!(value(&mut one, "SELECT n FROM v_id").await, "9");
        assert_eq!(value(&mut two, "SELECT LAST_INSERT_ID()").await, "0");
        assert_eq!(value(&mut one, "SELECT LAST_INSERT_ID()").await, "9");
        if family == Family::MariaDb {
            assert_eq!(value(&mut one, "SELECT DEFAULT(id) FROM t").await, "1");
            assert_eq!(value(&mut one, "SELECT n FROM v_next").await, "2");
            front.is_pinned_by(&["sequence"]).await;
            one.reset_connection().await.unwrap();
            all(&mut two, "INSERT INTO t (a) VALUES (2)").await;
            assert_eq!(value(&mut two, "SELECT LASTVAL(s)").await, "3");
        }
    }
}

/// A table that the monitor may not see is found by the replica's refusal.
#[tokio::test]
async fn a_replica_that_refuses_a_hidden_write_is_passed_over() {
    let sql = "CREATE SEQUENCE s NOCACHE; CREATE VIEW v AS SELECT NEXTVAL(s) AS n";
    let (front, _) = narrow(Family::MariaDb, "e2e_unseen", sql).await;
    let mut client = within(&front, "e2e_unseen").await;
    for n in 1..6 {
        assert_eq!(value(&mut client, "SELECT n FROM v").await, n.to_string());
    }
}

const UNREPORTED: &str = "CREATE TABLE t (id INT PRIMARY KEY);
    CREATE TABLE `a-b` (id INT);
    CREATE VIEW shown AS SELECT * FROM t;
    CREATE ROLE IF NOT EXISTS e2e_unreported_role;
    GRANT e2e_unreported_role TO app;
    CREATE PROCEDURE sets() SET @@sort_buffer_size = 65536;
    CREATE PROCEDURE calls() CALL sets();
    CREATE PROCEDURE inserts(n INT) INSERT INTO `a-b` VALUES (n);
    CREATE PROCEDURE locks() FLUSH TABLES WITH READ LOCK;
    CREATE PROCEDURE takes_role() SQL SECURITY INVOKER SET ROLE e2e_unreported_role;
    DELIMITER //
    CREATE FUNCTION f() RETURNS INT NO SQL BEGIN SET @@sort_buffer_size = 65536; RETURN 1; END//
    CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @@sort_buffer_size = 65536//
    CREATE TRIGGER a_b BEFORE INSERT ON `a-b` FOR EACH ROW INSERT INTO t VALUES (NEW.id)//
    DELIMITER ;
    ";

/// System variables, roles and locks that no reply reports: the neighbour gets the connection without them.
#[tokio::test]
async fn state_that_no_reply_reports_is_its_sessions() {
    const BUFFER: &str = "SELECT @@sort_buffer_size";
    for family in families() {
        let maria = family == Family::MariaDb;
        let mut sql = format!("{UNREPORTED}GRANT SELECT, TRIGGER ON e2e_unreported.* TO {}@'%';", lab::MONITOR_USER);
        let mut setting = vec![
            "CALL sets()",
            "CALL calls()",
            "SELECT f()",
            "INSERT INTO t VALUES (1)",
            "(SET @@sort_buffer_size = 65536)",
            "INSERT INTO shown VALUES (3)",
            "INSERT INTO `a-b` VALUES (4)",
            "CALL inserts(5)",
            "(INSERT INTO t VALUES (6))",
        ];
        let mut locking = vec!["CALL locks()", "(FLUSH TABLES WITH READ LOCK)"];
        if maria {
            sql += "\nSET sql_mode = ORACLE;\nDELIMITER //
                CREATE PROCEDURE ora() AS BEGIN SET @@sort_buffer_size := 65536; END//\nDELIMITER ;";
            setting.extend(["CALL ora()", "BEGIN NOT ATOMIC SET @@sort_buffer_size = 65536; END"]);
            setting.extend([
                "BEGIN NOT ATOMIC INSERT INTO t VALUES (7); END",
                "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (8)'",
            ]);
            locking.extend(["(LOCK TABLES t WRITE)", "(HANDLER t OPEN)"]);
        }
        let (front, _) = narrow(family, "e2e_unreported", &sql).await;
        let default = value(&mut within(&front, "e2e_unreported").await, BUFFER).await;
        // Bodies are read a moment after the start.
        until("a trigger that is known", async || {
            let mut client = within(&front, "e2e_unreported").await;
            all(&mut client, "INSERT IGNORE INTO t VALUES (0)").await;
            let known = front.metrics().await.pins().contains(&"opaque".into());
            client.quit().await.unwrap();
            front.is_pinned_by(&[]).await;
            known.then_some(())
        })
        .await;
        for text in setting {
            let (mut one, mut two) = neighbours(&front).await;
            run_or_execute(&mut one, text).await;
            assert_eq!(value(&mut one, BUFFER).await, "65536", "{family:?}: {text}");
            one.quit().await.unwrap();
            assert_eq!(value(&mut two, BUFFER).await, default, "{family:?}: {text}");
        }
        let mut reader = within(&front, "e2e_unreported").await;
        value(&mut reader, "SELECT COUNT(*) FROM t JOIN `a-b`").await;
        front.is_pinned_by(&[]).await;
        drop(reader);
        for text in locking {
            let (mut one, mut two) = neighbours(&front).await;
            run_or_execute(&mut one, text).await;
            until("the pin", async || front.metrics().await.pins().contains(&"opaque".into()).then_some(())).await;
            one.quit().await.unwrap();
            all(&mut two, "INSERT IGNORE INTO t VALUES (2)").await;
            assert_eq!(error(&mut two, "HANDLER t CLOSE").await.0, 1109, "{family:?}: {text}");
        }
        for text in ["CALL takes_role()", "(SET ROLE e2e_unreported_role)"] {
            let (mut one, mut two) = neighbours(&front).await;
            run_or_execute(&mut one, text).await;
            let role = value(&mut one, "SELECT CURRENT_ROLE()").await;
            assert!(role.contains("e2e_unreported_role"), "{family:?}: {text}: {role}");
            one.quit().await.unwrap();
            let role = value(&mut two, "SELECT CURRENT_ROLE()").await;
            assert!(["NULL", "NONE"].contains(&role.as_str()), "{family:?}: {text}: {role}");
        }
    }
}

async fn neighbours(front: &Front) -> (Client, Client) {
    (within(front, "e2e_unreported").await, within(front, "e2e_unreported").await)
}

/// Runs a text as it is, or prepared by name when it is in brackets; nothing stays prepared.
async fn run_or_execute(client: &mut Client, text: &str) {
    let Some(prepared) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
        all(client, text).await;
        return;
    };
    for text in [&format!("PREPARE s FROM '{prepared}'"), "EXECUTE s", "DEALLOCATE PREPARE s"] {
        all(client, text).await;
    }
}

/// Functions, triggers and what triggers call ask for the LAST_INSERT_ID() of their own session.
#[tokio::test]
async fn hidden_code_finds_the_insert_id_of_its_session() {
    for family in families() {
        let sql = "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY); CREATE TABLE t (n INT, m INT);
            CREATE TABLE u (n INT); INSERT INTO u VALUES (1); CREATE TABLE w (n INT, m INT);
            CREATE FUNCTION last_one() RETURNS INT READS SQL DATA RETURN LAST_INSERT_ID();
            CREATE TRIGGER t_before BEFORE INSERT ON t FOR EACH ROW SET NEW.m = LAST_INSERT_ID();
            CREATE TRIGGER u_before BEFORE UPDATE ON u FOR EACH ROW SET NEW.n = last_one();
            CREATE TRIGGER w_after AFTER INSERT ON w FOR EACH ROW INSERT INTO t (n) VALUES (NEW.n);
            CREATE VIEW v AS SELECT LAST_INSERT_ID() AS n;";
        let (front, _) = narrow(family, "e2e_hidden_ids", sql).await;
        let (mut one, mut two) = (within(&front, "e2e_hidden_ids").await, within(&front, "e2e_hidden_ids").await);
        for round in 1..=2 {
            all(&mut one, "INSERT INTO a VALUES (NULL)").await;
            assert_eq!(value(&mut two, "SELECT last_one()").await, "0");
            all(&mut one, "DO 1").await;
            assert_eq!(value(&mut one, "SELECT last_one()").await, round.to_string());
            assert_eq!(value(&mut two, "SELECT n FROM v").await, "0");
            assert_eq!(value(&mut one, "SELECT n FROM v").await, round.to_string());
            for (write, read) in [
                ("INSERT INTO t (n) VALUES (1)", "SELECT MAX(m) FROM t"),
                ("UPDATE u SET n = 5", "SELECT n FROM u"),
                ("INSERT INTO w (n) VALUES (2)", "SELECT MAX(m) FROM t"),
            ] {
                all(&mut one, "INSERT INTO a VALUES (NULL)").await;
                all(&mut two, write).await;
                assert_eq!(value(&mut two, read).await, "0", "{family:?}: {write}");
            }
            all(&mut one, "TRUNCATE a").await;
            all(&mut one, &format!("INSERT INTO a VALUES ({round})")).await;
        }
    }
}

/// A definition leaves MariaDB's messages on the connection, which are those of one session.
#[tokio::test]
async fn messages_before_a_definition_stay_with_their_session() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_defined", "CREATE TABLE t (id INT)").await;
        let (mut one, mut two) = (within(&front, "e2e_defined").await, within(&front, "e2e_defined").await);
        for define in ["CREATE PROCEDURE p() SELECT 1", "CREATE DATABASE e2e_other"] {
            assert!(one.query("SELECT * FROM missing").await.is_err());
            all(&mut one, define).await;
            assert_eq!(value(&mut two, "SELECT @@error_count").await, "0", "{family:?}: {define}");
            let own = if family == Family::MariaDb { "1" } else { "0" };
            assert_eq!(value(&mut one, "SELECT @@error_count").await, own, "{family:?}: {define}");
        }
        all(&mut one, "DROP DATABASE e2e_other").await;
    }
}

/// A session is still in a schema that another one has dropped, once it was created again.
#[tokio::test]
async fn a_schema_that_is_created_again_has_its_sessions() {
    for family in families() {
        let (front, _) = narrow(family, "e2e_again", "CREATE TABLE t (id INT)").await;
        let (mut one, mut two) = (within(&front, "e2e_again").await, within(&front, "e2e_again").await);
        all(&mut two, "DROP DATABASE e2e_again").await;
        for _ in 0..2 {
            // A replica may have the schema for a moment still.
            assert!(one.query("/* sqluice: primary */ SELECT COUNT(*) FROM t").await.is_err());
            // Its connection was closed, and a new one is opened.
            assert_eq!(value(&mut one, "SELECT 1").await, "1");
        }
        all(&mut two, "CREATE DATABASE e2e_again").await;
        all(&mut two, "CREATE TABLE e2e_again.t (id INT)").await;
        assert_eq!(value(&mut one, "SELECT COUNT(*) FROM t").await, "0");
        assert_eq!(value(&mut one, "SELECT DATABASE()").await, "e2e_again");
    }
}

/// An id that a client gives is not made: LAST_INSERT_ID() stays, also where a trigger pins the session.
#[tokio::test]
async fn a_given_id_leaves_the_sessions_own_behind_a_trigger() {
    for family in families() {
        let sql = "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY);
            CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT);
            CREATE TRIGGER t_before BEFORE INSERT ON t FOR EACH ROW SET @seen = NEW.n;";
        let (front, _) = narrow(family, "e2e_given_ids", sql).await;
        let (mut one, mut two) = (within(&front, "e2e_given_ids").await, within(&front, "e2e_given_ids").await);
        for _ in 0..2 {
            all(&mut one, "INSERT INTO a VALUES (NULL), (NULL), (NULL)").await;
        }
        all(&mut two, "REPLACE INTO t VALUES (1, 5)").await;
        assert_eq!(value(&mut two, "SELECT LAST_INSERT_ID()").await, "0", "{family:?}");
        all(&mut two, "INSERT INTO t (n) VALUES (6)").await;
        assert_eq!(value(&mut two, "SELECT LAST_INSERT_ID()").await, "2", "{family:?}");
        assert_eq!(value(&mut two, "SELECT @seen").await, "6", "{family:?}");
        drop(two);
        assert_eq!(value(&mut one, "SELECT LAST_INSERT_ID()").await, "4", "{family:?}");
    }
}
