//! One event, as a worker hands it over: values that are shared or copied, nothing that has to be formatted.

use std::sync::Arc;
use std::time::SystemTime;

use sql::Dialect;
use stats::digests::DigestName;

use crate::trace::Trace;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it was over.
    pub at: SystemTime,
    /// The id of the session, as its client knows it.
    pub session: u32,
    /// The client.
    pub client: Arc<Client>,
    /// The kind of event, and its facts.
    pub body: Body,
}

/// Most bytes of a statement's text, and of an error's, in an event.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

impl Event {
    /// Bytes of the texts that only this event has.
    pub(crate) fn text_bytes(&self) -> usize {
        let Body::Query(query) = &self.body else { return 0 };
        let error = query.error.as_ref().map_or(0, |error| error.text.len());
        let tags = query.trace.as_ref().map_or(0, |trace| trace.text_bytes());
        let parameters = query.params.as_ref().map_or(0, |params| params.bytes);
        query.text.as_ref().map_or(0, |text| text.bytes.len()) + error + tags + parameters
    }
}

/// The facts of a client that stay the same from a login to the next COM_CHANGE_USER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its address: IP and port, or `unix`.
    pub address: String,
    /// The user.
    pub user: Arc<str>,
    /// The listener that it came in by.
    pub listener: Arc<str>,
    /// The cluster behind that.
    pub cluster: Arc<str>,
    /// Its connection is encrypted.
    pub tls: bool,
    /// The program, by the client's own word.
    pub program: Option<Arc<str>>,
    /// The account of the servers that the client is, `user@host`, if it is known.
    pub account: Option<Arc<str>>,
}

/// The kind of event.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A query is over.
    Query(Query),
    /// A client has logged in, or was refused.
    Login(Login),
    /// COM_CHANGE_USER: the client is another user now, or was refused.
    ChangeUser(Login),
    /// A client that had logged in is gone.
    Logout(Ended),
    /// Clients were refused before they said who they are.
    TurnedAway(TurnedAway),
    /// An order of an operator.
    Admin(Admin),
}

/// Clients whom a listener has refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// The code of the error that they got.
    pub code: u16,
    /// The reason, in words.
    pub reason: Arc<str>,
    /// Clients since the last such event.
    pub count: u64,
}

/// An order of an operator, or a login of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Its way in: `api`, `console` or `signal`.
    pub way: &'static str,
    /// The role of the key; `nobody` without a right one.
    pub role: String,
    /// The operator's address; empty if it is this machine.
    pub client: String,
    /// The order, such as `PUT /api/v1/clusters/main/switchover` or `KILL 7`.
    pub action: String,
    /// The body of the request, shortened.
    pub order: String,
    /// Whether it was carried out.
    pub ok: bool,
    /// The result, in words.
    pub result: String,
}

impl From<Admin> for Event {
    /// The event of an order that was given now.
    fn from(admin: Admin) -> Event {
        Event { at: SystemTime::now(), session: 0, client: Arc::default(), body: Body::Admin(admin) }
    }
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The schema that the client asked for.
    pub schema: Arc<str>,
    /// The reason of a refusal, in words for the operator.
    pub failure: Option<String>,
    /// Microseconds from the connection to the end of the login.
    pub total_us: u64,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The reason, in words.
    pub reason: String,
    /// Microseconds since its login.
    pub total_us: u64,
}

/// The end of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The form of its text, without literals, and its schema.
    pub digest: Arc<DigestName>,
    /// Its text with all literals, if a sink wants that, as it is or hashed.
    pub text: Option<Text>,
    /// The text goes on behind that.
    pub text_cut: bool,
    /// It may have changed data.
    pub writes: bool,
    /// It took as long as the operator's bound for slow queries, or longer.
    pub slow: bool,
    /// The name of the command, such as `COM_QUERY`.
    pub command: &'static str,
    /// The answer's origin.
    pub answered_by: AnsweredBy,
    /// The reason of its route, if it had one.
    pub route_reason: Option<&'static str>,
    /// The rule that decided, if one did.
    pub rule: Option<Arc<str>>,
    /// The error that ended it.
    pub error: Option<ServerError>,
    /// Rows sent to the client.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// Warnings.
    pub warnings: u16,
    /// Bytes of the command, with the heads of its packets; `None` if nobody counted them.
    pub bytes_in: Option<u64>,
    /// Bytes of the reply; `None` if nobody counted them.
    pub bytes_out: Option<u64>,
    /// The position of its last commit, as the server has reported it.
    pub gtid: Option<Box<str>>,
    /// Microseconds from its arrival until a server had it: waits for a connection, for held writes, for a replica.
    pub wait_us: u64,
    /// Microseconds until the first byte of a server's reply.
    pub first_us: u64,
    /// Microseconds from its arrival to its end.
    pub total_us: u64,
    /// Its trace and its tags.
    pub trace: Option<Box<Trace>>,
    /// The number of the statement in its session, from 1.
    pub statement: u32,
    /// The number of its transaction in its session, from 1; 0 if it ran in none.
    pub transaction: u32,
    /// The reasons for which the session kept its backend connection when it came, in words.
    pub pins: Box<[&'static str]>,
    /// The server got another text than the client has sent.
    pub rewritten: bool,
    /// The values of its parameters, if a sink wants texts, and it has any that are known.
    pub params: Option<Box<Params>>,
    /// Rows of values of a bulk execution, if it is one and they can be read.
    pub bulk_rows: Option<u64>,
}

/// The values of an execution's parameters, up to [`TEXT_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// Values in each row of a bulk execution; 0 if it is none.
    per_row: u16,
    /// The values, in order.
    values: Vec<Param>,
    /// There are more, or the last one goes on.
    cut: bool,
    bytes: usize,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// NULL, or a type that servers do not understand alike.
    Null,
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// All others, as a text of SQL has them.
    Bytes(Box<[u8]>),
    /// A value that was sent ahead of the execution, of which only the beginning is known.
    Long {
        /// All its bytes.
        bytes: u64,
        /// The first of them.
        begin: Box<[u8]>,
    },
    /// The default of its column.
    Default,
    /// Its column keeps its value.
    Ignore,
}

impl Params {
    /// The values of a bulk execution, with so many in each row.
    #[must_use]
    pub fn of_rows(per_row: u16) -> Params {
        Params { per_row, ..Params::default() }
    }

    /// Whether one more value may be taken.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.cut
    }

    /// Takes one more value, as far as there is room.
    pub fn push(&mut self, mut value: Param) {
        let left = TEXT_BYTES_MAX.checked_sub(self.bytes + size_of::<Param>());
        let Some(left) = left.filter(|_| !self.cut) else {
            self.cut = true;
            return;
        };
        if let Param::Bytes(bytes) | Param::Long { begin: bytes, .. } = &mut value {
            self.cut = bytes.len() > left;
            if self.cut {
                *bytes = bytes.get(..left).unwrap_or_default().into();
            }
            self.bytes += bytes.len();
        }
        self.bytes += size_of::<Param>();
        self.values.push(value);
    }

    /// The values.
    pub(crate) fn values(&self) -> &[Param] {
        &self.values
    }

    /// Values in each row of a bulk execution; `None` if it is none.
    pub(crate) fn per_row(&self) -> Option<usize> {
        (self.per_row != 0).then(|| self.per_row.into())
    }

    /// Whether there are more, or the last one goes on.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }
}

/// A statement's text as the client sent it, up to [`TEXT_BYTES_MAX`], and the way to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The bytes, in the client's character set.
    pub bytes: Box<[u8]>,
    /// The dialect of the session at that time.
    pub dialect: Dialect,
}

/// The origin of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// A server.
    Server {
        /// Its name.
        name: Arc<str>,
        /// It was the primary then.
        primary: bool,
    },
    /// The result cache.
    Cache,
    /// Sqluice itself: it needed no server.
    Sqluice,
    /// Nobody: Sqluice has refused it.
    Refused,
    /// Nobody: its server was lost.
    Lost,
}

/// An error that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Its code.
    pub code: u16,
    /// Its SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Its message, if a sink wants texts: it may hold literals of the statement.
    pub text: Box<str>,
}
