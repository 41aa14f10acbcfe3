//! The monitor's connections, and what their errors mean for a server's health.

use std::sync::Arc;
use std::time::Duration;

use cluster::observation::{Failure, FailureClass};
use net::client::{Announce, Cause, ConnectError, Phase, Target};
use net::query::{Client, Limits, QueryError};
use net::stream::Keepalive;
use net::tls::ClientTls;
use wire::auth::Credential;
use wire::handshake::HandshakeError;
use wire::handshake::client::LoginRequest;
use wire::proxy_header::Version;
use wire::{Capabilities, errno};

/// The monitor's session does not go by the servers' defaults. `autocommit = 0` would leave heartbeats uncommitted and let replicas' rows be
/// read from an old snapshot. Some `sql_mode` would read Sqluice's statements otherwise: BODY is a reserved word of ORACLE.
/// Limits would cut the lists of accounts and tables short, or end their queries. Each family passes over the other's comment.
const SESSION: &str = "SET autocommit = 1, sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1 \
                       /*M!100108 , max_statement_time = 0*/ /*!50708 , max_execution_time = 0*/";

/// The address, TLS settings and login by which the monitor and the failover reach one server.
#[derive(Clone)]
pub(crate) struct ServerAccess {
    pub(crate) address: net::Address,
    pub(crate) tls: ClientTls,
    pub(crate) user: Arc<str>,
    pub(crate) password: config::Secret,
    /// The PROXY header that this server expects; the monitor sends one without a client address.
    pub(crate) announce: Option<Version>,
}

impl ServerAccess {
    /// Opens a connection; the name is resolved anew each time.
    pub(crate) async fn open(&self, connect: Duration, limits: Limits) -> Result<Client, Failure> {
        self.open_with(self.login(), connect, limits).await
    }

    /// The same, where a text with several statements is an error of the server.
    pub(crate) async fn open_for_one_statement(&self, connect: Duration, limits: Limits) -> Result<Client, Failure> {
        let mut login = self.login();
        login.capabilities.remove(Capabilities::MULTI_STATEMENTS);
        self.open_with(login, connect, limits).await
    }

    fn login(&self) -> LoginRequest {
        net::query::login(&self.user, Credential::password(self.password.expose()))
    }

    async fn open_with(&self, login: LoginRequest, connect: Duration, limits: Limits) -> Result<Client, Failure> {
        let target = Target {
            address: self.address.clone(),
            timeout: connect,
            tls: self.tls.clone(),
            keepalive: Keepalive::default(),
            compression: None,
            announce: self.announce.map(|version| Announce { version, client: None }),
        };
        let mut client = Client::connect(&target, login, limits).await.map_err(|error| connect_failure(&error))?;
        client.query(SESSION).await.map_err(|error| query_failure(&error))?;
        Ok(client)
    }
}

/// The address of the configuration as the network layer has it.
pub(crate) fn address(address: &config::Address) -> net::Address {
    match address {
        config::Address::Tcp { host, port } => net::Address::Tcp { host: (**host).to_owned(), port: *port },
        config::Address::Unix(path) => net::Address::Unix(path.to_path_buf()),
    }
}

fn connect_failure(error: &ConnectError) -> Failure {
    let class = match (&error.cause, error.phase) {
        // The host took the connection, and no server speaks: the process may be frozen.
        (Cause::Timeout(_), Phase::Greeting) => FailureClass::Silent,
        (Cause::Timeout(_), _) => FailureClass::Timeout,
        // 1129 (host blocked), 1130 (host not allowed) and the like come instead of a greeting; they are refusals too.
        (Cause::Server(refusal), _) => of_code(refusal.code).unwrap_or(FailureClass::Login),
        (Cause::NoTls, _) | (_, Phase::Tls) => FailureClass::Tls,
        (Cause::Protocol(HandshakeError::CredentialRefused(_)), _) => FailureClass::Login,
        (Cause::Protocol(_), _) => FailureClass::Protocol,
        (Cause::Io(_), Phase::Resolve) => FailureClass::Name,
        (Cause::Io(_), Phase::Connect) => FailureClass::Refused,
        (Cause::Io(_), Phase::Greeting | Phase::Login) => FailureClass::Lost,
    };
    Failure { class, text: error.to_string().into() }
}

/// The failure of the server that a failed query shows.
pub(crate) fn query_failure(error: &QueryError) -> Failure {
    let class = match error {
        QueryError::Server(refusal) => of_code(refusal.code).unwrap_or(FailureClass::Query),
        QueryError::Io(_) | QueryError::Broken => FailureClass::Lost,
        QueryError::Timeout(_) => FailureClass::Timeout,
        _ => FailureClass::Protocol,
    };
    Failure { class, text: error.to_string().into() }
}

/// Errors that say the same at login and later: no connection left (globally, for the user, for the account's limits);
/// shutting down (`ER_SERVER_SHUTDOWN`, MariaDB's `ER_CONNECTION_KILLED`, MySQL's `ER_SESSION_WAS_KILLED`); offline mode.
fn of_code(code: u16) -> Option<FailureClass> {
    match code {
        errno::ER_CON_COUNT_ERROR | errno::ER_TOO_MANY_USER_CONNECTIONS | errno::ER_USER_LIMIT_REACHED => {
            Some(FailureClass::TooManyConnections)
        }
        errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED | errno::ER_SESSION_WAS_KILLED => {
            Some(FailureClass::NotReady)
        }
        errno::ER_SERVER_OFFLINE_MODE => Some(FailureClass::Offline),
        _ => None,
    }
}

/// The monitor user lacks a right (or the object it could see with it).
pub(crate) fn is_denied(code: u16) -> bool {
    matches!(
        code,
        errno::ER_DBACCESS_DENIED_ERROR
            | errno::ER_ACCESS_DENIED_ERROR
            | errno::ER_TABLEACCESS_DENIED_ERROR
            | errno::ER_COLUMNACCESS_DENIED_ERROR
            | errno::ER_SPECIFIC_ACCESS_DENIED_ERROR
            | errno::ER_PROCACCESS_DENIED_ERROR
    )
}
