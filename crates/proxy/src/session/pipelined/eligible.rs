//! Which reads may share a connection with reads of other sessions.

use config::Pipelines;
use sql::{Access, FoundRows, Kind};
use wire::command::Command;
use wire::exchange::Expect;

use crate::pipeline::{REQUEST_BYTES_MAX, Wanted, Why};
use crate::session::attempts::{Attempts, Sharing};
use crate::session::belief::Belief;
use crate::session::query::{Body, Query};
use crate::session::who::Who;
use crate::session::{Held, Session};

impl Session {
    /// How a query shares a connection, to begin with: a single read that leaves nothing, in a session without a pin, looks for a
    /// pipeline at once. Where nothing else runs, a connection of its own is as good, and little of it is looked at.
    #[inline]
    pub(in crate::session) fn sharing_at_first(&self, query: &Query<'_>) -> Sharing {
        let statement = &*query.statement;
        let wanted = self.who.wants_pipelines(query);
        let may_share = statement.kind == Kind::Select
            && wanted != Pipelines::Off
            && self.here.cluster.pipelines.is_on()
            && self.belief.pins.is_empty()
            && matches!(statement.access, Access::Read)
            && statement.asks.is_empty()
            && statement.effects.is_empty()
            && statement.parts == 1;
        if may_share && wanted != Pipelines::Always && self.here.cluster.loads.is_quiet() {
            self.env.runs_alone(Why::Quiet);
            return Sharing::Begins;
        }
        if may_share && self.may_share_now(query) { Sharing::Now } else { Sharing::Never }
    }

    /// Whether a read that leaves nothing is answered the same on any connection in the session's state.
    fn may_share_now(&self, query: &Query<'_>) -> bool {
        let (statement, past, facts) = (&*query.statement, &self.belief.past, self.belief.facts());
        let as_it_is = match query.command {
            Command::Query => matches!(query.body, Body::AsCame),
            Command::StmtExecute => matches!(query.body, Body::Execute(_)) && !query.opens_cursor,
            _ => false,
        };
        let counts_itself = match statement.found_rows {
            FoundRows::Rows { skipped: 0 } | FoundRows::One => true,
            FoundRows::Uncut => !self.cuts_results(),
            FoundRows::Aggregate => !self.belief.may_leave_found_rows(query),
            _ => false,
        };
        as_it_is
            && counts_itself
            && statement.transaction.is_none()
            && statement.hint.is_none()
            && !statement.insert_id_unsure
            && !facts.null_is_last_id
            && query.hides.is_none()
            && query.catalog_was_fresh
            && query.expect == Expect::Results
            && query.request.packets.len() <= REQUEST_BYTES_MAX
            && facts.autocommit
            && self.here.held.is_none()
            && self.transaction.log.is_none()
            && self.who.identity.connections_max == 0
            && !self.belief.needs_text_instead(query)
            && !self.belief.tracking.hides()
            && past.doubt.is_none()
            && past.variables.is_empty()
            && !past.messages_unsure
            && !past.found_rows_unsure
    }

    /// Whether the connection that a query has waited for becomes a pipeline: others that wait may share it then.
    #[inline]
    pub(in crate::session) fn begins_pipeline(&self, query: &Query<'_>, held: &Held, attempts: &Attempts) -> bool {
        attempts.has_waited
            && matches!(attempts.sharing, Sharing::Begins | Sharing::Waits(_))
            && held.lease.is_waited_for()
            && self.may_begin_pipeline(query, held, attempts)
    }

    fn may_begin_pipeline(&self, query: &Query<'_>, held: &Held, attempts: &Attempts) -> bool {
        let (cluster, identity) = (&self.here.cluster, &self.who.identity);
        let view = cluster.view();
        let Some(server) = view.server(held.lease.server()) else { return false };
        let wanted = Wanted { server, key: &identity.key, login: identity.login, state: &self.belief.state };
        held.awaits.is_none()
            // A query that waits to share was looked at before; one that found nothing else under way was not.
            && (attempts.sharing != Sharing::Begins || self.may_share_now(query))
            && (self.who.wants_pipelines(query) == Pipelines::Always
                || cluster.pipelines.is_short(query.statement.digest, attempts.at))
            && !self.limits_differ(&held.lease.origin)
            && cluster.pipelines.may_begin(&cluster.pools, &wanted, &held.lease)
    }
}

impl Who {
    /// As a rule says, else as user or listener do.
    pub(super) fn wants_pipelines(&self, query: &Query<'_>) -> Pipelines {
        query.plan.pipelines().unwrap_or(self.identity.pipelines)
    }
}

impl Belief {
    /// Whether a query goes to a pipeline that begins while it waits for a connection of its own.
    pub(super) fn shares_later(&self, query: &Query<'_>) -> Sharing {
        let Body::Execute(id) = query.body else { return Sharing::Waits(None) };
        // MySQL's keep the types of the last execution.
        match self.statements.find(id) {
            Some(known) if self.is_mariadb() || known.parameters == 0 => Sharing::Waits(Some(id)),
            _ => Sharing::Begins,
        }
    }
}
