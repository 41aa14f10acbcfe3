//! Errors that Sqluice itself tells a client, and what went wrong with a connection.
//!
//! Every error of Sqluice's own begins with `sqluice:` and says what happened and what to do. Its code is one on which
//! drivers already do the right thing: reconnect, retry or report.

use std::fmt;
use std::time::Duration;

use wire::errno;
use wire::reply::ServerError;

/// The code of what may or may not have been done: Sqluice's own, which neither servers nor clients use.
pub const IN_DOUBT: u16 = 8007;

/// An error for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// The whole message.
    pub message: String,
}

impl Refusal {
    /// An error of Sqluice's own.
    pub fn own(code: u16, sqlstate: &[u8; 5], message: impl fmt::Display) -> Refusal {
        Refusal { code, sqlstate: *sqlstate, message: format!("sqluice: {message}") }
    }

    /// An error in the words that servers have for it.
    pub fn like_server(code: u16, sqlstate: &[u8; 5], message: impl Into<String>) -> Refusal {
        Refusal { code, sqlstate: *sqlstate, message: message.into() }
    }

    /// Somebody has killed the statement.
    pub fn interrupted() -> Refusal {
        Refusal::like_server(errno::ER_QUERY_INTERRUPTED, b"70100", "Query execution was interrupted")
    }

    /// A command is longer than a server takes.
    pub fn packet_too_large() -> Refusal {
        let message = "Got a packet bigger than 'max_allowed_packet' bytes";
        Refusal::like_server(errno::ER_NET_PACKET_TOO_LARGE, b"08S01", message)
    }

    /// All clients' long commands together are longer than they may be.
    pub fn no_command_memory(max: u64) -> Refusal {
        let why = format_args!("all {max} bytes for long commands are in use (proxy.command_memory_max)");
        Refusal::own(errno::ER_OUT_OF_RESOURCES, b"08004", why)
    }

    /// A server's error, passed on as it is.
    pub fn of_server(code: u16, sqlstate: Option<&str>, message: &str) -> Refusal {
        let mut state = *b"HY000";
        if let Some(Ok(reported)) = sqlstate.map(|text| <[u8; 5]>::try_from(text.as_bytes())) {
            state = reported;
        }
        Refusal { code, sqlstate: state, message: message.into() }
    }

    /// No server has what the statement needs. The code is what a read-only server answers: drivers that know it
    /// reconnect and try again.
    pub fn no_server(needs: &str, waited: Duration, why: &str) -> Refusal {
        Refusal::own(
            errno::ER_OPTION_PREVENTS_STATEMENT,
            b"HY000",
            format_args!("no {needs} became available within {} ms ({why}); try again", waited.as_millis()),
        )
    }

    /// All backend connections were in use for too long.
    pub fn pool_wait(server: &str, waited: Duration, limit: &str) -> Refusal {
        Refusal::own(
            errno::ER_TOO_MANY_USER_CONNECTIONS,
            b"42000",
            format_args!(
                "waited {} ms for a connection to server '{server}', and none came free ({limit}); raise the limit, shorten \
                 transactions or look at the pins",
                waited.as_millis()
            ),
        )
    }

    /// Too many statements wait already.
    pub fn pool_queue_full(server: &str, waiting: usize) -> Refusal {
        Refusal::own(
            errno::ER_TOO_MANY_USER_CONNECTIONS,
            b"42000",
            format_args!("{waiting} statements wait already for a connection to server '{server}' (pool.wait_max)"),
        )
    }

    /// The server was lost in the middle of something that cannot be done again elsewhere.
    pub fn lost(server: &str, during: &str) -> Refusal {
        Refusal::own(errno::CR_SERVER_LOST, b"HY000", format_args!("lost the connection to server '{server}' {during}"))
    }

    /// A transaction was interrupted by the loss of its server, and could not be run again on another one. Code and SQLSTATE are
    /// those of a deadlock: it was rolled back, and may be begun anew.
    pub fn not_replayed(server: &str, why: impl fmt::Display) -> Refusal {
        let why = format_args!(
            "server '{server}' was lost within a transaction, which could not be replayed on another one: {why}; it was \
             rolled back, begin it again"
        );
        Refusal::own(errno::ER_LOCK_DEADLOCK, b"40001", why)
    }

    /// A statement that leaves something for good was sent, and its server was lost before it answered.
    pub fn in_doubt(server: &str, what: &str, why: &str, unproven: &str) -> Refusal {
        let why = format_args!(
            "in doubt: server '{server}' was lost before it answered {what} ({why}), and there is no proof of what became of \
             it: {unproven}; look whether it was done before doing it again"
        );
        Refusal::own(IN_DOUBT, b"08007", why)
    }

    /// The same, and the new primary has it. The number of changed rows and the new ids are unknown.
    pub fn done_unanswered(server: &str, what: &str) -> Refusal {
        let why = format_args!(
            "done: server '{server}' was lost before it answered {what}, which is on the new primary; do not do it again"
        );
        Refusal::own(IN_DOUBT, b"08007", why)
    }

    /// A server asked for a file of the client after a statement that sends none.
    pub fn file_refused(server: &str, name: &str) -> Refusal {
        let why = format_args!(
            "server '{server}' asked for the client's file '{name}' after a statement other than LOAD DATA LOCAL; its \
             connection was closed, check the server at its address"
        );
        Refusal::own(errno::ER_NOT_ALLOWED_COMMAND, b"42000", why)
    }

    /// A rule of the operator's refuses the statement. Code and SQLSTATE are those of errors that applications define.
    pub fn by_rule(rule: &str, text: &str) -> Refusal {
        Refusal::own(errno::ER_SIGNAL_EXCEPTION, b"45000", format_args!("refused by rule '{rule}': {text}"))
    }

    /// Something Sqluice does not do.
    pub fn not_supported(what: &str) -> Refusal {
        Refusal::own(errno::ER_NOT_SUPPORTED_YET, b"42000", format_args!("{what} is not supported"))
    }

    /// The error as a packet's content.
    pub fn as_packet(&self) -> ServerError<'_> {
        ServerError { code: self.code, sqlstate: self.sqlstate, message: self.message.as_bytes() }
    }
}

/// Why a session ends.
#[derive(Debug, thiserror::Error)]
pub enum SessionEnd {
    /// The client said goodbye or closed its connection between commands.
    #[error("the client left")]
    ClientLeft,
    /// The client's connection failed.
    #[error("the client's connection failed: {0}")]
    ClientLost(#[source] std::io::Error),
    /// The client broke the protocol; it has got an error with the reason.
    #[error("the client broke the protocol: {0}")]
    ClientMisbehaved(String),
    /// The server was lost with state that cannot be rebuilt; the client has got an error.
    #[error("the server was lost: {0}")]
    ServerLost(String),
    /// A server would not have let it begin; the client has got an error.
    #[error("aborted: {0}")]
    Aborted(String),
    /// The client did nothing for too long.
    #[error("idle for too long")]
    Idle,
    /// Killed by another session.
    #[error("killed")]
    Killed,
    /// The process stops.
    #[error("draining")]
    Draining,
    /// It goes on at this worker.
    #[error("it moves to worker {0}")]
    Moves(usize),
    /// The client may not even try to log in; it has got an error, and was counted.
    #[error("turned away: {0}")]
    TurnedAway(String),
    /// The login failed; the client has got an error.
    #[error("login refused: {}", .0.message)]
    LoginRefused(Refusal),
}
