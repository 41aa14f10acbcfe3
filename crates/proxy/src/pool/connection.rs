//! One backend connection: a socket that is logged in, with what is known of its state.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use facts::view::ServerId;
use net::Stream;
use net::client::LoginSeen;
use net::stream::Detached;
use proof::mark::{self, Mark};
use sql::Statement;
use stats::ServerStats;
use tokio::io::{AsyncRead, ReadBuf};
use wire::Capabilities;
use wire::auth::Credential;
use wire::packet::HEADER_BYTES;
use wire::reply::ServerError;

use super::listed::Listed;
use super::statements::ServerStatements;
use crate::error::Refusal;
use route::state::StateMap;

/// Capabilities that change what a server answers: connections that differ in them are not exchanged for each other.
pub const MEANINGFUL: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::NO_SCHEMA)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::DEPRECATE_EOF)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::PROGRESS)
    .union(Capabilities::EXTENDED_METADATA);

/// The properties that backend connections must share, beside their state, to be exchanged for each other.
#[derive(Clone, Debug)]
pub struct Key {
    /// The user that is logged in.
    pub user: Arc<str>,
    /// How; it takes part in comparisons, so that a changed password is not served by old connections.
    pub credential: Arc<Credential>,
    /// The client's capabilities that matter ([`MEANINGFUL`]).
    pub capabilities: Capabilities,
    /// The client's address, where servers get it. Clients that differ in the port alone share connections: accounts
    /// know no ports.
    pub client: Option<SocketAddr>,
    /// The client's connection attributes, packed, for a session that has queried them on the server; other sessions share
    /// connections that say they are Sqluice's.
    pub attributes: Option<Arc<[u8]>>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        self.capabilities == other.capabilities
            && self.attributes == other.attributes
            && self.client.map(|client| client.ip()) == other.client.map(|client| client.ip())
            && self.user == other.user
            && (Arc::ptr_eq(&self.credential, &other.credential) || self.credential == other.credential)
    }
}

/// A backend connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// Bytes of the server that were read and not yet used; empty between statements.
    pub inbox: Vec<u8>,
    /// The server, the key and the state of the connection.
    pub origin: Origin,
}

/// [`Origin::messages`] of a connection that has none: it fits all sessions that have none. No session has the id 0.
pub const NO_MESSAGES: (u32, u32) = (0, 0);

/// All of a backend connection but its socket.
#[derive(Debug)]
pub struct Origin {
    /// The server.
    pub server: ServerId,
    /// The server's name.
    pub server_name: Arc<str>,
    /// The properties that it shares with others.
    pub key: Arc<Key>,
    /// The server's id of it, which KILL takes on that server.
    pub thread_id: u64,
    /// Its place in the list of open connections.
    pub listed: Listed,
    /// The mark in front of the writes that are sent on it.
    pub mark: Option<Mark>,
    /// The capabilities that both sides agreed on.
    pub capabilities: Capabilities,
    /// The server is MariaDB.
    pub mariadb: bool,
    /// Its state as far as it is known.
    pub state: Arc<StateMap>,
    /// It was reset: its schema must be chosen again, because MariaDB's reset (seen with 10.11) takes the server's character
    /// set for `character_set_database`, which LOAD DATA reads files by.
    pub schema_is_stale: bool,
    /// A session without a schema has used it, and found it in one: `state` has none, and it is in some. Such statements as
    /// do the same in any schema are all that it is good for, until one is chosen.
    pub in_some_schema: bool,
    /// It tells all changes of its state; a connection fresh from its login or reset does not yet.
    pub tracks: bool,
    /// It tells what SET TRANSACTION has announced, whatever its state says of `session_track_transaction_info`.
    pub tells_characteristics: bool,
    /// The flags of its replies for ANSI_QUOTES and NO_BACKSLASH_ESCAPES may be those of a routine's `sql_mode`, which servers
    /// take back without them: clients escape texts by these flags.
    pub mode_flags_unsure: bool,
    /// MySQL 9 may warn the next write that it mixes storage engines with the one before, which changed no row of a table without
    /// transactions, perhaps another session's (warning 6414; seen with 9.7). A COMMIT takes that away.
    pub wrote_nothing: bool,
    /// MySQL's tracker may still have the access mode of a transaction that ended while the connection reported no characteristics.
    pub access_mode_left: bool,
    /// Statements prepared on it.
    pub statements: ServerStatements,
    /// How many statements may be prepared on it.
    pub statements_max: usize,
    /// The session that used it last: its LAST_INSERT_ID() and the like are that session's.
    pub last_session: u32,
    /// Several sessions have used it since it was opened or reset.
    pub of_several: bool,
    /// The value of LAST_INSERT_ID() on it, when that is known.
    pub insert_id: Option<u64>,
    /// The session whose messages SHOW WARNINGS shows on it, and that session's own count of them, or [`NO_MESSAGES`].
    pub messages: Option<(u32, u32)>,
    /// Those messages are stand-ins: as many as there were, with what little could be given to them.
    pub stands_in: bool,
    /// User variables, in lower case, that sessions before this one had. They are NULL, with a type; those that were never set
    /// have one from where they stand with MySQL, and another length with MariaDB.
    pub once_set: Vec<String>,
    /// `max_allowed_packet` of the servers when it was opened, which is what it takes for ever; 0 where that was not known.
    pub packet_max: u64,
    /// [`crate::shared::ClusterSettings::tls_number`] when it was opened.
    pub tls_number: u64,
    /// The parts of its login that a later COM_CHANGE_USER needs.
    pub seen: Box<LoginSeen>,
    /// Which clients had come when it logged in last ([`crate::shared::Logins`]).
    pub logged_in: u64,
    /// When it was opened.
    pub opened: Instant,
    /// When it was given back last.
    pub idle_since: Instant,
    /// Counts of its server.
    pub stats: Arc<ServerStats>,
}

/// The end of a connection that no session used for a while, if it has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// Nothing: it stands.
    None,
    /// It ended without a word.
    Closed,
    /// It ended with these words.
    Said(Refusal),
}

/// How a connection to a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// It has not, or in a way that tells nothing.
    #[default]
    Unknown,
    /// The server closed it.
    Closed,
    /// It was reset.
    Reset,
    /// No session waits for the server any more.
    GivenUp,
}

impl ConnectionEnd {
    /// By the error of a socket.
    pub fn of(error: &io::Error) -> ConnectionEnd {
        match error.kind() {
            // With TLS this is an end without a last message.
            io::ErrorKind::UnexpectedEof => ConnectionEnd::Closed,
            io::ErrorKind::ConnectionReset => ConnectionEnd::Reset,
            _ => ConnectionEnd::Unknown,
        }
    }
}

/// A connection on its way to another worker.
#[derive(Debug)]
pub struct Parcel {
    socket: Detached,
    origin: Origin,
}

impl Origin {
    /// Tells it from every other backend connection that exists.
    pub fn identity(&self) -> (ServerId, u64) {
        (self.server, self.thread_id)
    }

    /// Whether it can be brought to this state, or is good for a statement that does the same in any schema.
    #[inline]
    pub fn fits(&self, wanted: &StateMap, in_any_schema: bool) -> bool {
        in_any_schema || wanted.schema().is_some() || !self.in_some_schema && self.state.can_become(wanted)
    }

    /// The mark in front of a text of this meaning; empty if there is none.
    pub fn mark_of(&self, statement: &Statement, text: &[u8]) -> &[u8] {
        match &self.mark {
            Some(mark) if mark::belongs_to(statement, text) => mark.bytes(),
            _ => &[],
        }
    }

    /// COM_RESET_CONNECTION succeeds, or is on its way.
    pub fn is_reset(&mut self) {
        let ignores_space = !self.mariadb && self.capabilities.contains(Capabilities::IGNORE_SPACE);
        self.state = Arc::new(self.state.after_reset(ignores_space));
        self.schema_is_stale = true;
        self.tracks = false;
        self.tells_characteristics = false;
        self.statements.clear();
        (self.last_session, self.of_several) = (0, false);
        self.insert_id = Some(0);
        // MariaDB 10.11 keeps the counts of messages that it did not list (`max_error_count`).
        let keeps_counts = self.mariadb && self.messages != Some(NO_MESSAGES);
        (self.messages, self.stands_in) = ((!keeps_counts).then_some(NO_MESSAGES), false);
        self.once_set.clear();
    }

    /// It may have another collation for its schema than the session that uses it.
    pub fn forget_collation(&mut self) {
        let schema = self.state.schema_name().cloned();
        Arc::make_mut(&mut self.state).set_schema(schema.as_deref());
    }

    /// It has logged in anew: it is in this state, and knows nothing of the sessions before.
    pub fn has_logged_in(&mut self, state: StateMap, logged_in: u64) {
        self.is_reset();
        (self.state, self.schema_is_stale, self.in_some_schema) = (Arc::new(state), false, false);
        self.logged_in = logged_in;
    }

    /// The user variables of this state are taken from the connection, or all are when they would be too many to remember;
    /// gives whether that is so.
    pub fn unset_variables(&mut self, wanted: &StateMap) -> bool {
        /// More are not remembered.
        const ONCE_SET_MAX: usize = 64;
        for name in self.state.user_variables_beyond(wanted) {
            if !self.once_set.iter().any(|known| known == name) {
                self.once_set.push(name.to_owned());
            }
        }
        self.once_set.len() > ONCE_SET_MAX
    }

    /// Sqluice runs a statement of its own that names no table: MySQL forgets the messages of the one before.
    pub fn hears_question(&mut self) {
        if !self.mariadb {
            self.messages = None;
        }
    }
}

impl Connection {
    /// Whether an idle connection still stands: a server that closed it, or that says something unasked (it was killed,
    /// it was idle for too long), has made the socket readable. Costs no system call while nothing came.
    pub fn is_alive(&mut self) -> bool {
        self.inbox.is_empty() && self.stream.is_quiet()
    }

    /// Whether its server has ended it, and with which words.
    pub fn closed_by(&mut self) -> ClosedBy {
        /// Longer words are cut.
        const WORDS_BYTES_MAX: usize = 1024;
        if self.is_alive() {
            return ClosedBy::None;
        }
        let mut bytes = [0; WORDS_BYTES_MAX];
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut bytes);
        // An error of the socket is its end without words.
        let _ = Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer);
        let error = buffer.filled().get(HEADER_BYTES..).and_then(|payload| ServerError::parse(payload).ok());
        error.map_or(ClosedBy::Closed, |error| {
            let message = String::from_utf8_lossy(error.message).into_owned();
            ClosedBy::Said(Refusal { code: error.code, sqlstate: error.sqlstate, message })
        })
    }

    /// Waits for the connection to end, or for the server to say something, which is lost.
    pub async fn end(&mut self) -> ConnectionEnd {
        let mut bytes = [0; HEADER_BYTES];
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            Poll::Ready(read.map(|()| buffer.filled().is_empty()))
        });
        match read.await {
            Ok(true) => ConnectionEnd::Closed,
            Ok(false) => ConnectionEnd::Unknown,
            Err(error) => ConnectionEnd::of(&error),
        }
    }

    /// Whether another worker can have it; a TLS connection stays where it was opened.
    pub fn can_move(&self) -> bool {
        !self.stream.is_tls()
    }

    /// Takes it from this worker's runtime.
    ///
    /// # Errors
    /// It cannot leave (TLS, a frame in work): here it is back, or gone if the system refused.
    pub fn detach(self) -> Result<Parcel, Option<Box<Connection>>> {
        if !self.can_move() {
            return Err(Some(Box::new(self)));
        }
        let Connection { stream, inbox, origin } = self;
        match stream.detach() {
            Ok(socket) => Ok(Parcel { socket, origin }),
            Err(net::stream::DetachError::Stays(stream)) => {
                Err(Some(Box::new(Connection { stream: *stream, inbox, origin })))
            }
            Err(net::stream::DetachError::Io(_)) => Err(None),
        }
    }
}

impl Parcel {
    /// The server it leads to.
    pub fn server(&self) -> ServerId {
        self.origin.server
    }

    /// Gives it to the current worker's runtime.
    pub fn attach(self, stats: Arc<ServerStats>) -> std::io::Result<Connection> {
        let stream = Stream::attach(self.socket)?;
        Ok(Connection { stream, inbox: Vec::new(), origin: Origin { stats, ..self.origin } })
    }
}
