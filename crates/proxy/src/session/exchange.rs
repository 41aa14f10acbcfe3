//! A statement and its reply: what goes to the server, and what comes back of it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Instant;

use sql::{Asks, FoundRows, Kind, NoFunctions};
use wire::command::Command;

use super::belief::Belief;
use super::cache::Fill;
use super::checksum::Checksum;
use super::client::Request;
use super::processes::{OwnVariables, Renumber, Shown};
use super::query::Query;
use super::relay::{Copied, Outcome, Relay, RelayError, RowChange, Taps};
use super::tracking::{Hearing, Parts, TRANSACTION_INFO, Transactions};
use super::{Held, Session};
use crate::sessions::Activity;
use route::state::PACKET_MAX;
use route::{Route, Target};

/// Of a longer reply it is plain that an aggregate function has made its row of something.
const AGGREGATE_BYTES_MAX: usize = 4096;

/// A longer result of administration counts as one about a table that was opened.
const ADMINISTRATION_BYTES_MAX: usize = 64 * 1024;

impl Session {
    /// Sends the statement, which has [begun](crate::sessions::SessionHandle::begin_statement), with what must go ahead of it, and
    /// relays the reply. `outcome` has the facts of the reply, also after a failure.
    pub(super) async fn exchange(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        (route, began): (&Route, Instant),
        fill: Option<&Fill>,
        outcome: &mut Outcome,
    ) -> Result<(), RelayError> {
        self.here.begin_load(held.lease.server());
        if route.target == Target::Pinned {
            self.look_at_pinned(held)?;
        }
        let prepare_as = if query.prepares() { self.belief.statements.next_id() } else { 0 };
        let mut sent = self.env.worker.outgoing.take();
        self.send(held, query, &mut sent).await?;
        if held.lease.origin.tells_characteristics || self.belief.tracking.hides() {
            self.belief.hide_characteristics(held);
        }
        let effects = &query.statement.effects;
        let tracking_after =
            if effects.is_empty() { None } else { self.belief.tracking.after(effects, &self.here.cluster.catalog()) };
        let listed = self.listed(held, query);
        let counts_earlier = matches!(query.command, Command::InitDb | Command::SetOption | Command::Debug);
        let warnings = self.belief.own_messages().filter(|_| counts_earlier);
        let withhold = self.withheld(query, route, held.lease.server());
        let keeps_end = self.notes_first(query);
        let statement = (&*query.statement, query.command == Command::Query);
        let mut hearing = Hearing::behind(&self.belief.tracking, &self.belief.state, statement);
        let parts = if query.statement.parts > 1 { self.parts_heard(query) } else { None };
        hearing.parts = parts.as_ref();
        outcome.sent = sent.sent;
        outcome.taps = Taps {
            sum: self.transaction.log.is_some().then(Checksum::default),
            change: sent.columns.take().map(RowChange::Columns).or(listed),
            copy: match query.statement.found_rows {
                FoundRows::Aggregate if fill.is_none() => Some(Box::new(Copied::new(AGGREGATE_BYTES_MAX))),
                _ if hearing.reads_rows(query.statement.kind) => Some(Box::new(Copied::new(ADMINISTRATION_BYTES_MAX))),
                _ => self.copy_for(fill, held.lease.server()),
            },
        };
        let mut relay = Relay {
            worker: &self.env.worker,
            handle: &self.env.handle,
            client: &mut self.client,
            connection: &mut held.lease,
            pending: &mut sent.pending,
            tracking: tracking_after.as_ref().unwrap_or(&self.belief.tracking),
            withhold,
            hearing: Some(hearing),
            file_allowed: query.statement.asks.contains(sql::Asks::LOCAL_FILE),
            prepare_as,
            keeps_end,
            rows_stay: query.rows_stay,
            texts: query.texts(),
            warnings,
            outcome,
        };
        show_query(&self.env.handle.activity, (query, began), pin!(relay.run())).await?;
        let heard = (tracking_after.is_some() || parts.is_some()).then(|| relay.tracking.clone());
        if let Some(heard) = heard {
            self.belief.tracking.heard_by(heard);
        }
        self.env.worker.outgoing.keep(sent);
        Ok(())
    }

    /// The statements of a text of several, where the client hears of each in its own way.
    fn parts_heard(&self, query: &Query<'_>) -> Option<Parts> {
        let text = query.text().filter(|_| Parts::matter_in(&query.statement))?;
        let mut statements = Vec::new();
        sql::statements(text.bytes, &text.dialect, &mut |part| {
            statements.push(sql::classify(part, &text.dialect, &NoFunctions));
            false
        });
        Some(Parts::of(&statements, &self.belief.tracking, &self.here.cluster.catalog()))
    }

    /// The change of a list of connections, or of variables, on its way to the client.
    fn listed(&self, held: &Held, query: &Query<'_>) -> Option<RowChange> {
        let statement = &query.statement;
        let lists = statement.asks.contains(Asks::PROCESSES)
            || statement.kind == Kind::Show && statement.asks.contains(Asks::SYSTEM_VARIABLES);
        let executes = query.command == Command::StmtExecute;
        let asks = matches!(query.command, Command::Query | Command::ProcessInfo | Command::StmtExecute);
        if !lists || !asks || statement.parts > 1 || query.opens_cursor {
            return None;
        }
        if !statement.asks.contains(Asks::PROCESSES) {
            if executes {
                return None;
            }
            let ids = (held.lease.origin.thread_id, self.own_id());
            let own = OwnVariables { ids, values: self.belief.variables_to_list(query.request) };
            return Some(RowChange::Processes(Box::new(Renumber::of_variables(own))));
        }
        let shown = Shown::on(&self.env.worker.shared, &self.here.cluster.shared, held.lease.server());
        let renumber = Renumber::of(shown, self.who.identity.user.clone());
        Some(RowChange::Processes(Box::new(if executes { renumber.binary() } else { renumber })))
    }
}

impl Belief {
    /// The values of the session's own variables that its connection has otherwise, for SHOW VARIABLES.
    fn variables_to_list(&self, request: &Request) -> Vec<(&'static str, String)> {
        if memchr::memmem::find(&request.payload().to_ascii_lowercase(), b"global").is_some() {
            return Vec::new();
        }
        let mut values = self.tracking.as_listed(self.is_mariadb());
        values.extend(self.packet_limit_to_list().map(|bytes| (PACKET_MAX, bytes.to_string())));
        let transactions = Transactions::of(self.state.variable_or_global(TRANSACTION_INFO, &self.catalog));
        values.push((TRANSACTION_INFO, transactions.as_listed().to_owned()));
        values
    }

    /// The client hears of transactions what it has asked for, whatever its connection tells.
    fn hide_characteristics(&mut self, held: &Held) {
        let own = self.state.variable_or_global(TRANSACTION_INFO, &self.catalog);
        self.tracking.hide(held.lease.origin.tells_characteristics, own, held.lease.origin.mariadb);
    }
}

/// Runs a relay. Somebody who looks at the session meanwhile hears when its query began, and its form.
async fn show_query(
    activity: &Activity,
    (query, began): (&Query<'_>, Instant),
    mut run: Pin<&mut impl Future<Output = Result<(), RelayError>>>,
) -> Result<(), RelayError> {
    poll_fn(|cx| {
        let polled = run.as_mut().poll(cx);
        if polled.is_pending()
            && activity.is_asked()
            && let Some(form) = query.digest()
        {
            activity.tell(began, form);
        }
        polled
    })
    .await
}
