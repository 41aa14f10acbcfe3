//! Values that only Sqluice knows, put into a text: the ids of sessions, and the results of the statement before.

use sql::rewrite::{OwnValue, Rewritten};
use sql::{Asks, Effect, Kind, Statement};
use wire::Capabilities;

use crate::session::Session;
use crate::session::belief::Belief;
use crate::session::long_text::{LONG_TEXT_BYTES, PutIn};
use crate::session::query::Query;

impl Session {
    /// The text of a query in which something is put in, if anything is.
    pub(super) async fn rewritten_query(&self, query: &Query<'_>, text: &[u8]) -> Option<Rewritten> {
        let statement = &*query.statement;
        // A definition asks its questions each time that it is used; KILL CONNECTION_ID() is for the connection that runs it,
        // and that id, put in here, would be another session's there.
        if statement.kind == Kind::Kill || statement.kind == Kind::Definition && statement.parts > 1 {
            return None;
        }
        // It fails as a whole, and the server's error quotes it.
        if statement.parts > 1 && !self.who.identity.key.capabilities.contains(Capabilities::MULTI_STATEMENTS) {
            return None;
        }
        // Beside other statements a KILL goes to the server, which knows its own ids.
        let kills = statement.effects.iter().any(|effect| matches!(effect, Effect::Kill { .. }));
        if statement.asks.contains(Asks::DIAGNOSTICS)
            && !kills
            && let Some(text) = self.diagnostics_as_set(statement, text)
        {
            query.sets_diagnostics.set(true);
            return Some(Rewritten { text, renames: false });
        }
        let is_prepared = statement.kind == Kind::PreparedText && statement.parts == 1 && !kills;
        let in_literal = is_prepared
            .then(|| sql::rewrite::in_prepared_text(text, &self.belief.facts().dialect, |text| self.with_own_id(text)))
            .flatten();
        let text = in_literal.as_ref().map_or(text, |rewritten| &rewritten.text);
        let asks = match statement.kind {
            _ if kills => statement.asks - Asks::CONNECTION_ID,
            // A statement that is only explained gets no values, and the server's message quotes it.
            Kind::Explain if statement.parts == 1 && !statement.insert_id_unsure => {
                statement.asks - Asks::CONNECTION_ID - Asks::ROW_COUNT - Asks::FOUND_ROWS
            }
            _ => statement.asks,
        };
        let asks_gtid = self.belief.asks_last_gtid(asks, text);
        // A query that goes ahead for FOUND_ROWS() changes ROW_COUNT() on a connection that is kept.
        let kept = self.here.held.is_some() && !self.belief.gives_found_rows_where_kept(query);
        let around = self.rewritten_where_it_runs(statement, text, asks, kept, asks_gtid).await;
        let literal_renames = in_literal.as_ref().is_some_and(|rewritten| rewritten.renames);
        let both = around.map(|around| Rewritten { renames: around.renames || literal_renames, ..around });
        both.or(in_literal)
    }

    /// A text that is prepared by another one, with the id that the client knows its connection by. The one that it has on the server
    /// stays where that is compared with the server's lists, and in a definition.
    fn with_own_id(&self, text: &[u8]) -> Option<Rewritten> {
        let statement = self.here.cluster.classify(text, &self.belief.facts().dialect);
        let runs = matches!(statement.kind, Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Set);
        let asks = statement.asks & Asks::CONNECTION_ID;
        let is_own = runs && !statement.asks.intersects(Asks::SERVER_IDS | Asks::PROCESSES) && !asks.is_empty();
        is_own.then(|| self.rewritten(text, asks, false, false)).flatten()
    }

    /// [`Session::rewritten`] of a text, or of the query of a CREATE TABLE … SELECT: it runs once, while the definition before
    /// it, such as a default, is used for each row of any session.
    pub(super) async fn rewritten_where_it_runs(
        &self,
        statement: &Statement,
        text: &[u8],
        asks: Asks,
        kept: bool,
        asks_gtid: bool,
    ) -> Option<Rewritten> {
        if statement.kind != Kind::Definition {
            return self.rewritten_long(text, asks, kept, asks_gtid).await;
        }
        let (definition, query) = text.split_at(sql::rewrite::query_of_table(text, &self.belief.facts().dialect)?);
        let rewritten = self.rewritten_long(query, asks, kept, asks_gtid).await?;
        // The names of its columns are those of the table.
        (!rewritten.renames).then(|| Rewritten { text: [definition, &rewritten.text].concat(), renames: false })
    }

    /// [`Session::rewritten`] of a text that may be long.
    async fn rewritten_long(&self, text: &[u8], asks: Asks, kept: bool, asks_gtid: bool) -> Option<Rewritten> {
        if text.len() <= LONG_TEXT_BYTES {
            return self.rewritten(text, asks, kept, asks_gtid);
        }
        let put_in = self.own_values(text, asks, kept, asks_gtid)?;
        self.put_into_long_text(put_in, text).await
    }

    /// The text with what only Sqluice knows put in: the id that the client knows its connection by, and what the last
    /// statement left, when the connection that ran it may serve another session by now. `kept` says that the session keeps one,
    /// `asks_gtid` that `@@last_gtid` is put in.
    pub(in crate::session) fn rewritten(
        &self,
        text: &[u8],
        asks: Asks,
        kept: bool,
        asks_gtid: bool,
    ) -> Option<Rewritten> {
        self.own_values(text, asks, kept, asks_gtid)?.put_into(text, &self.belief.facts().dialect)
    }

    fn own_values(&self, text: &[u8], asks: Asks, kept: bool, asks_gtid: bool) -> Option<PutIn> {
        let asks_variables = asks.contains(Asks::SYSTEM_VARIABLES);
        let asks_tracked = asks_variables && crate::session::tracking::is_named_in(text);
        let packet_max = if asks_variables { self.belief.packet_limit_to_show(text) } else { None };
        if !asks_tracked
            && packet_max.is_none()
            && !asks_gtid
            && !asks.intersects(Asks::CONNECTION_ID | Asks::ROW_COUNT | Asks::FOUND_ROWS)
        {
            return None;
        }
        let tracked = self.belief.tracking.variables_as_shown(self.belief.is_mariadb());
        let last_gtid = asks_gtid.then(|| self.belief.past.last_gtid.as_deref().unwrap_or_default().to_owned());
        let mut known: Vec<OwnValue<'static>> = packet_max.map(OwnValue::PacketMax).into_iter().collect();
        // Compared with what a server lists, its own id is the right one.
        if asks.contains(Asks::CONNECTION_ID) && !asks.contains(Asks::SERVER_IDS) {
            known.push(OwnValue::ConnectionId(self.own_id()));
        }
        // A connection that is kept knows better, unless it was asked something since, the session was counted elsewhere, or
        // more of its past may have to go ahead of the statement.
        let elsewhere = !kept || asks.intersects(Asks::DIAGNOSTICS | Asks::LAST_INSERT_ID);
        if asks.contains(Asks::ROW_COUNT) && (elsewhere || self.belief.past.row_count_is_here) {
            known.push(OwnValue::RowCount(self.belief.past.row_count));
        }
        let sure = !kept || !self.belief.past.found_rows_unsure;
        if asks.contains(Asks::FOUND_ROWS) && sure && (elsewhere || self.belief.past.found_rows_are_here) {
            known.push(OwnValue::FoundRows(self.belief.past.found_rows.unwrap_or(0)));
        }
        Some(PutIn { tracked: tracked.to_string(), last_gtid, known })
    }
}

impl Belief {
    /// Whether a text may read `@@last_gtid`: MariaDB's connections know that of whichever session committed there last.
    pub(in crate::session) fn asks_last_gtid(&self, asks: Asks, text: &[u8]) -> bool {
        const NAME: &[u8] = b"last_gtid";
        asks.contains(Asks::SYSTEM_VARIABLES)
            && self.is_mariadb()
            && text.windows(NAME.len()).any(|window| window.eq_ignore_ascii_case(NAME))
    }
}
