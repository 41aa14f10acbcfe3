//! Cleaning up: COM_RESET_CONNECTION, and what a session leaves on its connection when it ends.

use super::belief::Belief;
use super::environment::Environment;
use std::sync::Arc;
use std::time::Duration;

use sql::Modes;
use wire::Status;
use wire::command::{Command, begin_query};
use wire::exchange::{Advance, Event, Exchange, Expect};
use wire::reply::ServerError;
use wire::{errno, packet};

use super::attempts::Attempts;
use super::client::Request;
use super::diagnostics::read_back::rows;
use super::local::Answered;
use super::long_data::LongData;
use super::relay::{RelayError, hear};
use super::write::write;
use super::{Held, Past, Session};
use crate::error::SessionEnd;
use crate::pool::Connection;
use crate::worker::Worker;
use route::state::OF_SCHEMA;
use route::{Pin, Reason, Route, Target};

/// How long a server may take to clean a connection; after that it is closed.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(5);

/// The state of an XA transaction behind XA PREPARE, in the messages of [`errno::ER_XAER_RMFAIL`].
const XA_PREPARED: &[u8] = b"PREPARED";

/// Longest reply to a statement of Sqluice's own.
const ASK_BYTES_MAX: usize = 64 * 1024;

impl Session {
    /// COM_RESET_CONNECTION: the session is as it was after its login, but stays in its schema, and keeps its role.
    pub(super) async fn reset(&mut self, request: &Request) -> Result<Answered, SessionEnd> {
        if self.belief.pins.may_have_role() {
            self.reset_with_role().await?;
        } else {
            self.forget().await;
        }
        // MySQL goes back to the server's character sets, MariaDB to those of the login.
        let collation = if self.belief.is_mariadb() { self.who.identity.collation } else { 0 };
        let schema = self.belief.state.schema().map(str::to_owned);
        self.begin_anew_in_schema(collation, schema.as_deref()).await;
        self.belief.status = self.belief.status_at_rest();
        Ok(self.answer_ok(request, 0))
    }

    /// [`Session::begin_anew`] in the schema of before. Servers keep it, and forget its character set until a schema is chosen
    /// again; DEFAULT would be the schema's.
    pub(super) async fn begin_anew_in_schema(&mut self, collation: u16, schema: Option<&str>) {
        self.begin_anew(collation, schema).await;
        if schema.is_some()
            && let Some(collation) = self.belief.catalog.globals.get(OF_SCHEMA[1])
        {
            Arc::make_mut(&mut self.belief.state).set_variable(OF_SCHEMA[1], collation);
        }
    }

    /// Servers keep the role of a session that is reset, and only its connection knows it: the connection is reset and stays
    /// with the session. If it cannot be reset, another one takes the role.
    async fn reset_with_role(&mut self) -> Result<(), SessionEnd> {
        let Some(mut held) = self.here.held.take() else { return Ok(()) };
        let asked = !self.belief.past.found_rows_unsure || self.read_found_rows(&mut held).await;
        let stays = [Pin::BinlogEvents, Pin::Tracing].into_iter().any(|pin| self.belief.pins.has(pin));
        let may_close = stays || self.belief.may_have_xa();
        let role = if asked && may_close { self.read_role(&mut held).await } else { None };
        let clean = asked && self.reset_in_time(&mut held.lease).await;
        self.lose_pinned_state();
        if clean {
            held.lease.origin.is_reset();
        } else {
            drop(held);
            held = match role {
                Some(role) => self.take_role(&role).await?,
                None => return Err(SessionEnd::ServerLost("the role of the session is gone with it".into())),
            };
        }
        self.belief.pins.put(Pin::Role, true);
        self.env.show_pins(self.belief.pins.bits());
        self.belief.forget_statements();
        // The connection may have the counts of another session.
        self.belief.past.is_here();
        self.here.held = Some(held);
        Ok(())
    }

    /// The role of the session, as SET ROLE takes it. `None` if only a server can write its name.
    async fn read_role(&mut self, held: &mut Held) -> Option<String> {
        let capabilities = held.lease.origin.capabilities;
        let asking = ask(&mut held.lease, "SELECT CURRENT_ROLE()", &self.env.worker);
        let reply = tokio::time::timeout(CLEAN_UP_WAIT, asking).await.ok()?.ok()??;
        let role = match rows(&reply, 1, capabilities).ok()?.first()?.first()? {
            None => return Some("NONE".into()),
            Some(role) => std::str::from_utf8(role).ok().filter(|role| role.is_ascii())?.to_owned(),
        };
        // MySQL gives a list of quoted names, or NONE.
        Some(if self.belief.is_mariadb() { format!("`{}`", role.replace('`', "``")) } else { role })
    }

    /// Another connection of the session's user, clean and with a role.
    async fn take_role(&mut self, role: &str) -> Result<Held, SessionEnd> {
        let lost = |why: &str| SessionEnd::ServerLost(format!("the role of the session is gone with it: {why}"));
        let route = Route::to(Target::Primary, Reason::SessionChange, config::Consistency::Session);
        let mut held = self.checkout(&route, &mut Attempts::new()).await.map_err(|refusal| lost(&refusal.message))?;
        let taking = async {
            reset_connection(&mut held.lease, &self.env.worker).await?;
            ask(&mut held.lease, &format!("SET ROLE {role}"), &self.env.worker).await
        };
        match tokio::time::timeout(CLEAN_UP_WAIT, taking).await {
            Ok(Ok(Some(_))) => {
                held.lease.origin.is_reset();
                Ok(held)
            }
            _ => Err(lost("no other connection takes it")),
        }
    }

    /// Everything goes that the session's statements left, but for FOUND_ROWS(), which servers do not reset.
    pub(super) async fn forget(&mut self) {
        if let Some(mut held) = self.here.held.take()
            && (!self.belief.past.found_rows_unsure || self.read_found_rows(&mut held).await)
        {
            self.clean_up(held).await;
        }
        self.lose_pinned_state();
        self.belief.forget_statements();
    }

    /// Forgets the pinned state, which is gone with its connection.
    pub(super) fn lose_pinned_state(&mut self) {
        self.transaction.log = None;
        self.belief.pins.clear();
        self.env.show_pins(0);
        self.belief.status -= Status::IN_TRANSACTION | Status::IN_READ_ONLY_TRANSACTION;
    }

    /// Gives a pinned connection back clean: transaction rolled back, locks released, temporary tables dropped. If the
    /// server does not manage that in time, the connection is closed, which does the same.
    pub(super) async fn clean_up(&mut self, mut held: Held) {
        if self.belief.pins.has(Pin::ExpiredPassword) {
            return;
        }
        let clean = self.reset_in_time(&mut held.lease).await;
        if self.env.handle.end_statement(super::kill::KILL_WAIT).await {
            return;
        }
        if clean {
            let connection = &mut *held.lease;
            connection.origin.is_reset();
            if self.belief.pins.may_have_role() {
                // COM_RESET_CONNECTION leaves the role: whoever comes next logs in again.
                connection.origin.logged_in = 0;
            }
            held.lease.give_back();
        }
    }
}

impl Session {
    /// Resets the session's connection; gives whether it is as good as a new one, in time.
    async fn reset_in_time(&self, connection: &mut Connection) -> bool {
        let may_have_xa = self.belief.may_have_xa();
        // No reset takes MySQL's traces of the optimizer away (seen with 9.7).
        let stays = [Pin::BinlogEvents, Pin::Tracing].into_iter().any(|pin| self.belief.pins.has(pin));
        let cleaning = async {
            if stays || may_have_xa && has_prepared_xa(connection, &self.env.worker).await? {
                return Ok(false);
            }
            reset_connection(connection, &self.env.worker).await.map(|()| true)
        };
        matches!(tokio::time::timeout(CLEAN_UP_WAIT, cleaning).await, Ok(Ok(true)))
    }
}

impl Belief {
    pub(super) fn is_mariadb(&self) -> bool {
        self.facts().dialect.family == sql::Family::MariaDb
    }

    /// Prepared statements go, and what the last statement left.
    fn forget_statements(&mut self) {
        self.statements.clear();
        self.long_data = LongData::default();
        let found_rows = self.past.found_rows;
        // Connections that others have not used since are marked with the numbers before.
        let messages = self.past.messages.wrapping_add(1);
        self.past = Past { found_rows, messages, ..Past::default() };
    }

    /// Whether an XA transaction may be open on a connection that keeps a part of it behind COM_RESET_CONNECTION.
    ///
    /// MariaDB (10.11) takes the XA transaction from the connection, but not all of it: no table of InnoDB can be read
    /// there any more (1031), and the locks outlive the transaction's end. A connection that is closed leaves it whole.
    fn may_have_xa(&self) -> bool {
        let pins = &self.pins;
        self.is_mariadb() && (pins.has(Pin::Transaction) || pins.has(Pin::Xa))
    }

    /// The status flags outside any transaction. Those of the mode tell clients how to escape texts; MySQL has no flag for quotes.
    pub(super) fn status_at_rest(&self) -> Status {
        let modes = self.facts().dialect.modes;
        let mut status = Status::empty();
        status.set(Status::AUTOCOMMIT, self.facts().autocommit);
        status.set(Status::NO_BACKSLASH_ESCAPES, modes.contains(Modes::NO_BACKSLASH_ESCAPES));
        status.set(Status::ANSI_QUOTES, self.is_mariadb() && modes.contains(Modes::ANSI_QUOTES));
        status
    }
}

impl Environment {
    /// A connection that others have used may remember what sequences gave them, by writes whose text does not say so: the
    /// session that asks for LASTVAL() has none there. A connection that breaks here is found broken by the statement.
    pub(super) async fn forget_sequences(&mut self, held: &mut Held) {
        let origin = &held.lease.origin;
        if origin.last_session == self.handle.id && !origin.of_several {
            return;
        }
        if let Ok(()) = reset_connection(&mut held.lease, &self.worker).await {
            held.lease.origin.is_reset();
        }
    }
}

/// Runs a short statement of Sqluice's own; gives its reply, `None` when it failed.
pub(super) async fn ask(
    connection: &mut Connection,
    text: &str,
    worker: &Worker,
) -> Result<Option<Vec<u8>>, RelayError> {
    let capabilities = connection.origin.capabilities;
    let mut bytes = Vec::new();
    let begun = packet::begin(&mut bytes);
    begin_query(&mut bytes, capabilities);
    bytes.extend_from_slice(text.as_bytes());
    begun.end(&mut bytes, 0);
    connection.origin.hears_question();
    write(connection, &bytes).await?;
    read_reply(connection, &mut Exchange::new(Expect::Results, capabilities), worker, ASK_BYTES_MAX).await
}

/// Ends a transaction, unless it is one of XA; gives whether that is a prepared one.
async fn has_prepared_xa(connection: &mut Connection, worker: &Worker) -> Result<bool, RelayError> {
    let capabilities = connection.origin.capabilities;
    let mut bytes = Vec::new();
    let begun = packet::begin(&mut bytes);
    begin_query(&mut bytes, capabilities);
    bytes.extend_from_slice(b"ROLLBACK AND NO CHAIN NO RELEASE");
    begun.end(&mut bytes, 0);
    write(connection, &bytes).await?;
    let mut exchange = Exchange::new(Expect::Results, capabilities);
    let reply = read_reply_whole(connection, &mut exchange, worker, ASK_BYTES_MAX).await?.0;
    let error = reply.get(packet::HEADER_BYTES..).and_then(|payload| ServerError::parse(payload).ok());
    // The message names the state: ACTIVE and IDLE are the others.
    let names_it = |message: &[u8]| message.windows(XA_PREPARED.len()).any(|word| word == XA_PREPARED);
    Ok(error.is_some_and(|error| error.code == errno::ER_XAER_RMFAIL && names_it(error.message)))
}

async fn reset_connection(connection: &mut Connection, worker: &Worker) -> Result<(), RelayError> {
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, &[Command::ResetConnection.byte()]);
    write(connection, &bytes).await?;
    let mut exchange = Exchange::new(Expect::Results, connection.origin.capabilities);
    match read_reply(connection, &mut exchange, worker, 64 * 1024).await? {
        Some(_) => Ok(()),
        None => Err(RelayError::Server("COM_RESET_CONNECTION was refused".into())),
    }
}

/// Reads one reply whole. `None` when it ended with an error or is longer than `max_bytes`.
pub(super) async fn read_reply(
    connection: &mut Connection,
    exchange: &mut Exchange,
    worker: &Worker,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, RelayError> {
    let (reply, good) = read_reply_whole(connection, exchange, worker, max_bytes).await?;
    Ok(good.then_some(reply))
}

/// Reads one reply, up to this many bytes; gives whether these are all and no packet of it is an error.
async fn read_reply_whole(
    connection: &mut Connection,
    exchange: &mut Exchange,
    worker: &Worker,
    max_bytes: usize,
) -> Result<(Vec<u8>, bool), RelayError> {
    let mut reply = Vec::new();
    let mut good = true;
    loop {
        let mut taken = 0;
        while !exchange.is_over() {
            let n = match exchange.advance(&connection.inbox[taken..])? {
                Advance::Pass(n) => n,
                Advance::Packet(packet) => {
                    good &= !matches!(packet.event, Event::Error(_) | Event::Infile(_));
                    packet.taken
                }
                Advance::Needs(_) => break,
            };
            if reply.len() + n <= max_bytes {
                reply.extend_from_slice(&connection.inbox[taken..taken + n]);
            } else {
                good = false;
            }
            taken += n;
        }
        connection.inbox.drain(..taken);
        if exchange.is_over() {
            connection.inbox.shrink_to_fit();
            return Ok((reply, good));
        }
        if exchange.awaits_infile() {
            return Err(RelayError::Server("the server asked for a file that no statement offered".into()));
        }
        hear(connection, worker).await?;
    }
}
