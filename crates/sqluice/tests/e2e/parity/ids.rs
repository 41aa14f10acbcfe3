//! Ids of connections, wherever a client finds them: directly and through, each is that of the greeting.

use lab::Family;

use super::*;

const SETUP: &str = "CREATE TABLE t (v BIGINT UNSIGNED) ENGINE = InnoDB;";

/// Questions of a client; `#` is the greeting's id, and `@g` is set to it. The minutes have the text as it stands here.
async fn asks_for_ids(family: Family, database: &'static str, asks: &[&str]) {
    let case = Case { family, database, setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        asks_unsaid(wire, "SET @g = #").await;
        for ask in asks {
            asks_unsaid(wire, ask).await;
        }
    })
    .await;
}

async fn asks_unsaid(wire: &mut Wire, ask: &str) {
    asks_unsaid_of(wire, ask, wire.id).await;
}

/// The same with the id of another session.
async fn asks_unsaid_of(wire: &mut Wire, ask: &str, id: u32) {
    wire.note(format!("> {ask}"));
    let mut payload = Vec::new();
    ::wire::command::begin_query(&mut payload, wire.capabilities);
    payload.extend(ask.replace('#', &id.to_string()).as_bytes());
    says_unsaid(wire, &payload).await;
}

/// A command that the minutes do not show, and its reply, which they do.
async fn says_unsaid(wire: &mut Wire, payload: &[u8]) {
    wire.send(&[payload]).await;
    wire.reply(Expect::Results).await;
    wire.interlude().await;
}

async fn functions_and_variables(family: Family) {
    asks_for_ids(
        family,
        "par_ids",
        &[
            "SELECT CONNECTION_ID() = @g, @@pseudo_thread_id = @g, @@session.pseudo_thread_id = CONNECTION_ID() AS x",
            "SELECT CONNECTION_ID() - @g, COALESCE(connection_id ( ), 1) = @g, (SELECT CONNECTION_ID()) = @g y",
            "SELECT CONNECTION_ID() = @g FROM (SELECT CONNECTION_ID() + 0) AS d",
            "SELECT /* a comment */ 1 + CONNECTION_ID() - @g",
            "SELECT GET_LOCK('par_ids', 0)",
            "SELECT IS_USED_LOCK('par_ids') = @g, IS_USED_LOCK('par_ids') = CONNECTION_ID() AS mine",
            "SELECT CASE IS_USED_LOCK('par_ids') WHEN CONNECTION_ID() THEN 'mine' ELSE 'no' END",
            "SELECT IS_USED_LOCK('par_no_such_lock')",
            "INSERT INTO t SELECT IS_USED_LOCK('par_ids')",
            "SELECT v = @g, v = CONNECTION_ID() FROM t",
            "SET @owner = IS_USED_LOCK('par_ids'), @me = @@pseudo_thread_id",
            "SELECT @owner = @g, @me = @g",
            "SELECT RELEASE_LOCK('par_ids')",
            "SELECT IS_USED_LOCK('par_ids')",
            "SELECT @@global.pseudo_thread_id",
        ],
    )
    .await;
}

async fn lists(family: Family) {
    asks_for_ids(
        family,
        "par_listed_ids",
        &[
            "SELECT p.ID - @g, p.ID = CONNECTION_ID(), USER, DB, COMMAND FROM information_schema.PROCESSLIST p \
             WHERE p.ID = CONNECTION_ID()",
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = #",
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = '#' AND info LIKE 'SELECT COUNT%'",
            "SELECT info FROM information_schema.processlist WHERE id = CONNECTION_ID() AND command = 'Query'",
            "INSERT INTO t SELECT id FROM information_schema.processlist WHERE id = CONNECTION_ID()",
            "SELECT v = @g FROM t",
            "SELECT COUNT(*) FROM t JOIN information_schema.PROCESSLIST ON v = id",
            "SELECT 1 FROM t WHERE v NOT IN (SELECT id FROM information_schema.PROCESSLIST)",
            "SET @n = (SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE id = #)",
            "SELECT @n",
            "USE information_schema",
            "SELECT COUNT(*), MAX(processlist.id) = @g FROM processlist WHERE id = CONNECTION_ID()",
            "SELECT COUNT(*) FROM PROCESSLIST AS p JOIN PROCESSLIST AS q ON p.id = q.id WHERE p.id = #",
        ],
    )
    .await;
}

/// Another session that does nothing is in the list of each, as it is on a server.
async fn idle_sessions_are_in_lists(family: Family) {
    let case = Case { family, database: "par_idle_ids", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        let (idle, mut watcher) = (wire.again().await, wire.again().await);
        let listed = "FROM information_schema.PROCESSLIST WHERE id = #";
        asks_unsaid_of(wire, &format!("SELECT COUNT(*), MIN(command), MIN(db), MIN(user) {listed}"), idle.id).await;
        asks_unsaid_of(wire, "KILL #", idle.id).await;
        let listed = format!("SELECT COUNT(*) {}", listed.replace('#', &idle.id.to_string()));
        crate::support::until("the session to be gone", async || {
            let (_, rows) = watcher.values(&listed, false).await;
            (rows == ["0"]).then_some(())
        })
        .await;
        watcher.close().await;
    })
    .await;
}

async fn prepared_statements_ask_for_ids(family: Family) {
    let case = Case { family, database: "par_prepared_ids", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.query("SELECT GET_LOCK('par_prepared_ids', 0)").await;
        let me = i64::from(wire.id);
        for sql in [
            "SELECT CONNECTION_ID() = ?, @@pseudo_thread_id = ?",
            "SELECT IS_USED_LOCK('par_prepared_ids') = ?, CONNECTION_ID() = ?",
            "SELECT COUNT(*), MAX(id) - ? FROM information_schema.PROCESSLIST WHERE id = ?",
        ] {
            let id = wire.prepare(sql).await;
            for _ in 0..2 {
                let execution = execute(id, 0, &[long(me), long(me)], true);
                says_unsaid(wire, &execution).await;
            }
        }
        wire.query("SELECT RELEASE_LOCK('par_prepared_ids')").await;
    })
    .await;
}

both!(functions_and_variables lists idle_sessions_are_in_lists prepared_statements_ask_for_ids);
