//! Opening a backend connection: connect, log in as the client's user, with the client's capabilities that matter.

use std::sync::Arc;
use std::time::Instant;

use facts::view::ServerView;
use net::client::{ConnectError, Connected, LoginSeen};
use stats::ServerStats;
use wire::Capabilities;
use wire::handshake::client::LoginRequest;

use super::{Connection, ConnectionNeeds, NO_MESSAGES, Origin, ServerStatements};
use crate::shared::{ClusterShared, login_as};
use route::state::{StateMap, packet_max};

/// The capabilities that every backend connection requests beside the client's.
const ALWAYS: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_DATA)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::SESSION_TRACK)
    .union(ON_DEMAND);

/// Commands of MariaDB that change nothing for those who do not send them.
pub const ON_DEMAND: Capabilities = Capabilities::STMT_BULK.union(Capabilities::BULK_UNIT_RESULTS);

pub(super) async fn open(
    shared: &ClusterShared,
    server: &ServerView,
    wanted: &ConnectionNeeds,
    stats: &Arc<ServerStats>,
) -> Result<Connection, ConnectError> {
    let settings = shared.settings.load();
    let target = shared.target(server, settings.pool.connect_timeout, wanted.key.client);
    let login = login(wanted);
    // A session with an expired password keeps the connection, on which the server itself has run it.
    let quiet = match wanted.key.capabilities.contains(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS) {
        true => None,
        false => shared.quiet_login(&target, login.capabilities).await,
    };
    let becomes_user = quiet.is_some();
    let logged_in = shared.connection_login(wanted.login);
    let packet_max_before = packet_max_of_today(shared);
    let connected = net::client::connect(&target, quiet.unwrap_or(login)).await?;
    let begins_with = shared.published.catalog.load().init_connect().is_some();
    let packet_max = packet_max_of_today(shared).filter(|bytes| packet_max_before == Some(*bytes)).unwrap_or(0);
    let seen = Box::new(LoginSeen::of(&connected));
    let Connected { stream, greeting, capabilities, .. } = connected;
    let now = Instant::now();
    let origin = Origin {
        server: server.id,
        server_name: server.name.clone(),
        key: wanted.key.clone(),
        thread_id: u64::from(greeting.connection_id),
        listed: shared.backends.add(server.id, u64::from(greeting.connection_id)),
        mark: settings.mark_writes.then(|| shared.marks.next()).flatten(),
        capabilities,
        mariadb: greeting.server_version.contains("MariaDB"),
        state: Arc::new(state_after_login(shared, wanted, wanted.state.schema(), capabilities)),
        schema_is_stale: false,
        in_some_schema: false,
        tracks: false,
        tells_characteristics: false,
        mode_flags_unsure: false,
        wrote_nothing: false,
        access_mode_left: false,
        statements: ServerStatements::default(),
        statements_max: settings.pool.statements_max as usize,
        last_session: 0,
        of_several: false,
        insert_id: Some(0),
        messages: Some(NO_MESSAGES),
        stands_in: false,
        once_set: Vec::new(),
        packet_max,
        tls_number: settings.tls_number,
        seen,
        logged_in,
        opened: now,
        idle_since: now,
        stats: stats.clone(),
    };
    let mut connection = Connection { stream, inbox: Vec::new(), origin };
    if becomes_user {
        log_in_again(shared, server, wanted, &mut connection).await?;
    } else if begins_with {
        // Each session runs it for itself.
        net::client::reset(&mut connection.stream, &target).await?;
        connection.origin.is_reset();
    }
    Ok(connection)
}

/// The servers' `max_allowed_packet`; `None` while somebody may just have changed it.
fn packet_max_of_today(shared: &ClusterShared) -> Option<u64> {
    shared.published.catalog_is_fresh().then(|| packet_max(&shared.published.catalog.load()))
}

/// Logs in anew on a connection that was opened for the same user: it has the rights and the roles of now then.
pub(super) async fn log_in_again(
    shared: &ClusterShared,
    server: &ServerView,
    wanted: &ConnectionNeeds,
    connection: &mut Connection,
) -> Result<(), ConnectError> {
    let target = shared.target(server, shared.settings.load().pool.connect_timeout, wanted.key.client);
    let Connection { stream, origin, .. } = connection;
    let mut login = login(wanted);
    // MariaDB waits a second before it answers a COM_CHANGE_USER that fails, also for a schema that is unknown or forbidden (seen
    // with 10.11): the session chooses its schema behind it.
    if origin.mariadb {
        login.schema = None;
        login.capabilities.remove(Capabilities::CONNECT_WITH_DB);
    }
    let logged_in = shared.connection_login(wanted.login);
    // MariaDB's COM_CHANGE_USER leaves the role of before to an account that has no default role (seen with 10.11).
    let ahead = if origin.mariadb { "SET ROLE NONE" } else { "" };
    net::client::log_in_again(stream, &mut origin.seen, &target, login, ahead).await?;
    // MariaDB forgets with the first login what that asked for of IGNORE_SPACE (seen with 10.11).
    let capabilities =
        if origin.mariadb { origin.capabilities - Capabilities::IGNORE_SPACE } else { origin.capabilities };
    let schema = wanted.state.schema().filter(|_| !origin.mariadb);
    let state = state_after_login(shared, wanted, schema, capabilities);
    origin.has_logged_in(state, logged_in);
    Ok(())
}

fn login(wanted: &ConnectionNeeds) -> LoginRequest {
    let schema = wanted.state.schema().map(|name| name.as_bytes().to_vec());
    let mut capabilities = ALWAYS | wanted.key.capabilities;
    capabilities.set(Capabilities::CONNECT_WITH_DB, schema.is_some());
    let login = login_as(&wanted.key.user, &wanted.key.credential, capabilities, wanted.collation);
    let mut login = LoginRequest { schema, ..login };
    // They were read from a login, so they can be read.
    if let Some(Ok(attributes)) = wanted.key.attributes.as_deref().map(wire::handshake::Attributes::unpack) {
        login.attributes = attributes;
    }
    login
}

fn state_after_login(
    shared: &ClusterShared,
    wanted: &ConnectionNeeds,
    schema: Option<&str>,
    capabilities: Capabilities,
) -> StateMap {
    let catalog = shared.published.catalog.load();
    let accounts = shared.published.accounts.load();
    StateMap::after_login(&catalog, wanted.collation, schema)
        .ignoring_space(capabilities.contains(Capabilities::IGNORE_SPACE), &catalog)
        .with_statement_time(accounts.statement_time(&wanted.key.user))
}
