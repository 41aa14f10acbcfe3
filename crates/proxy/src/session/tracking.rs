//! Session tracking as the client asked for it, whatever Sqluice uses towards servers.
//!
//! Sqluice has its backend connections report every change. A client that negotiated session tracking must get the reports of
//! the server's own defaults, or of its own SET of a `session_track_…` variable, and nothing else.

mod late;
mod names;
mod parts;
mod reports;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use facts::catalog::Catalog;
use route::state::StateMap;
use sql::{Asks, Effect, Kind, Statement, Value};
use wire::reply::{Ok, STATEMENT_NUMBER};

use late::Late;
use names::Names;
pub use parts::Parts;
use parts::Step;
use reports::{Explicit, Held};

/// The reports that the client wants. Its choice for reports of transactions is part of its state and not here: its backend
/// connections have the very setting that it made, so their reports are for it, but for those that Sqluice makes report more
/// ([`ClientTracking::hide`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTracking {
    variables: Names,
    schema: bool,
    state: bool,
    gtids: Gtids,
    /// The reports of transactions that it wants, where its connection gives more than it has asked for.
    transactions: Option<Transactions>,
    /// The transaction that a statement began, as last reported.
    explicit: Cell<Explicit>,
    /// The thing that the session holds, as far as announcements without a report depend on it.
    held: Cell<Held>,
    /// The session has locked tables. MySQL's reports forget that when a table is opened anew.
    locked: Cell<bool>,
    /// The reports that it has still to hear.
    late: RefCell<Option<Box<Late>>>,
}

/// `session_track_transaction_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    Off,
    /// MySQL's OFF: it tells of BEGIN and the end of such a transaction all the same (seen with 9.7).
    Explicit,
    State,
    Characteristics,
}

impl Transactions {
    /// A client's own setting.
    pub fn of(value: Option<&str>) -> Transactions {
        match value.unwrap_or_default().trim_matches('\'').to_ascii_uppercase().as_str() {
            "1" | "STATE" => Transactions::State,
            "2" | "CHARACTERISTICS" => Transactions::Characteristics,
            _ => Transactions::Off,
        }
    }

    /// As SHOW VARIABLES has it.
    pub fn as_listed(self) -> &'static str {
        match self {
            Transactions::Off | Transactions::Explicit => "OFF",
            Transactions::State => "STATE",
            Transactions::Characteristics => "CHARACTERISTICS",
        }
    }
}

/// `session_track_gtids` (MySQL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gtids {
    Off,
    Own,
    All,
}

const DEFAULT_VARIABLES: &str =
    "autocommit,character_set_client,character_set_connection,character_set_results,time_zone";

/// The variable that sets the connections' reports of transactions.
pub const TRANSACTION_INFO: &str = "session_track_transaction_info";

/// Whether a variable controls the reports of the session, and is not simply part of the session's state.
pub fn is_tracking_variable(name: &str) -> bool {
    name.starts_with("session_track_") && name != TRANSACTION_INFO
}

/// Whether a text may read the list of tracked variables, which on a backend connection is Sqluice's own.
pub fn is_named_in(text: &[u8]) -> bool {
    const LIST: &[u8] = b"session_track_system_variables";
    text.windows(LIST.len()).any(|window| window.eq_ignore_ascii_case(LIST))
}

/// The changes that a client wants to hear of behind one statement.
#[derive(Clone, Copy, Debug)]
pub struct Hearing<'a> {
    /// The reports that it asked for before the statement.
    pub tracking: &'a ClientTracking,
    /// The session's state before the statement.
    pub state: &'a StateMap,
    /// The statement's effects.
    pub effects: &'a [Effect],
    /// The announcements that it may make without a report; of a text of several only its parts tell them.
    step: Step,
    /// The statements of a text of several, where they matter.
    pub parts: Option<&'a Parts>,
    /// It changes no schema and runs no code that could.
    pub stays: bool,
    /// It changes nothing that a server announces, whatever runs in its place.
    pub is_silent: bool,
}

impl<'a> Hearing<'a> {
    /// The changes that a client with these reports, in this state, wants to hear of behind a statement, which is sent as a text or
    /// is executed: that happens in the schema in which it was prepared.
    pub fn behind(
        tracking: &'a ClientTracking,
        state: &'a StateMap,
        (statement, is_text): (&'a Statement, bool),
    ) -> Hearing<'a> {
        let step = if statement.parts == 1 { Step::of(statement) } else { Step::default() };
        let runs_nothing = matches!(statement.kind, Kind::Set | Kind::Transaction | Kind::Lock | Kind::Xa);
        let stays = is_text && runs_nothing && statement.parts == 1 && !statement.asks.contains(Asks::STORED_FUNCTIONS);
        let is_silent = statement.kind == Kind::Diagnostics && statement.parts == 1;
        Hearing { tracking, state, effects: &statement.effects, step, parts: None, stays, is_silent }
    }

    /// The schema that the session is in, before the statement and behind it; empty is none.
    pub fn unmoved_schema(&self) -> Option<&'a str> {
        self.stays.then(|| self.state.schema().unwrap_or_default())
    }

    /// Whether the server announces changes with this OK packet, at the end of rows or without any, and lists none. It
    /// belongs to the reply of this number, from 1 on; a comment behind the last `;` has one as well, and announces nothing.
    /// `tracking` has the reports that the client wants to hear by now.
    pub fn announces(
        &self,
        (reply, ok, opened): (usize, &Ok<'_>, &dyn Fn() -> bool),
        tracking: &ClientTracking,
        mariadb: bool,
    ) -> bool {
        let part = self.parts.and_then(|parts| parts.part(reply));
        // All replies of a CALL are its own.
        let own = if reply <= 1 || self.step.passes() { self.step } else { Step::default() };
        let step = part.map_or(own, |part| part.step);
        let set_before = part.and_then(|part| part.transactions);
        let transactions = || set_before.unwrap_or_else(|| Transactions::of(self.state.variable(TRANSACTION_INFO)));
        let before = self.parts.filter(|_| reply > 1).map_or(self.tracking, |parts| parts.tracking(reply - 1));
        let new_table = (!mariadb).then(|| step.note_new_table(tracking, ok.status));
        step.announces(&transactions, before, tracking, mariadb, ok.status)
            || step.holds_on(&transactions, tracking)
            || step.passes_transaction(&transactions, tracking, (ok, opened), mariadb)
            || step.passed_within(&transactions, ok, mariadb)
            || new_table.is_some_and(|new_table| new_table.is_announced(&transactions))
    }

    /// Whether the announcement of this statement depends on its rows: administration of tables says there whether it has opened one.
    #[inline]
    pub fn reads_rows(&self, kind: Kind) -> bool {
        kind == Kind::Administration && self.step.rebuilds() && self.state.tells_transactions()
    }

    /// Whether the statement of this reply turns on the reports of transactions, which begin with that of none.
    pub fn turns_on_transactions(&self, reply: usize) -> bool {
        let step = self.parts.and_then(|parts| parts.part(reply)).map_or(self.step, |part| part.step);
        let set_before = self.parts.and_then(|parts| parts.part(reply.checked_sub(1)?)?.transactions);
        step.turns_on(&|| set_before.unwrap_or_else(|| Transactions::of(self.state.variable(TRANSACTION_INFO))))
    }

    /// Whether a status flag of a result may be about a change that the client wants to hear of, where the result has no room to
    /// say which: about all changes, transactions, or a variable that the statement sets while it runs.
    pub fn is_of_any(&self) -> bool {
        let wants = |name: &str| self.tracking.wants(name.as_bytes());
        let passes = |effect: &Effect| matches!(effect, Effect::WhileRunning { name } if wants(name));
        self.tracking.state || wants("*") || self.effects.iter().any(passes) || self.state.tells_transactions()
    }
}

impl ClientTracking {
    /// The list of variables that the client wants to hear of, as the server shows it: MariaDB sorts it, and names each once.
    pub fn variables_as_shown(&self, mariadb: bool) -> Cow<'_, str> {
        self.variables.as_shown(mariadb)
    }

    /// The client's settings, as SHOW VARIABLES has them.
    pub fn as_listed(&self, mariadb: bool) -> Vec<(&'static str, String)> {
        let on = |is_on: bool| if is_on { "ON" } else { "OFF" };
        let gtids = match self.gtids {
            Gtids::Off => "OFF",
            Gtids::Own => "OWN_GTID",
            Gtids::All => "ALL_GTIDS",
        };
        vec![
            ("session_track_system_variables", self.variables_as_shown(mariadb).into_owned()),
            ("session_track_schema", on(self.schema).to_owned()),
            ("session_track_state_change", on(self.state).to_owned()),
            ("session_track_gtids", gtids.to_owned()),
        ]
    }

    /// The reports that the servers' global variables set.
    pub fn of_servers(catalog: &Catalog) -> ClientTracking {
        let global = |name: &str, default: &str| catalog.globals.get(name).map_or(default.to_owned(), Clone::clone);
        ClientTracking {
            variables: Names::new(global("session_track_system_variables", DEFAULT_VARIABLES)),
            schema: is_on(&global("session_track_schema", "ON")),
            state: is_on(&global("session_track_state_change", "OFF")),
            gtids: gtids(&global("session_track_gtids", "OFF")),
            transactions: None,
            explicit: Cell::default(),
            held: Cell::default(),
            locked: Cell::default(),
            late: RefCell::default(),
        }
    }

    /// The connection tells more of transactions than the client's own setting asks for, or no more than that.
    pub fn hide(&mut self, tells_more: bool, own: Option<&str>, mariadb: bool) {
        self.transactions = tells_more.then(|| match Transactions::of(own) {
            Transactions::Off if !mariadb => Transactions::Explicit,
            own => own,
        });
    }

    /// Some of what its connection tells of transactions is not for the client.
    #[inline]
    pub fn hides(&self) -> bool {
        self.transactions.is_some()
    }

    /// The client set a tracking variable. Gives whether it was one.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            // A client that adds to what it found has found Sqluice's own `*`, which it did not ask for.
            "session_track_system_variables" if value.starts_with("*,") => {
                self.variables = Names::new(format!("{DEFAULT_VARIABLES}{}", &value[1..]));
            }
            "session_track_system_variables" => self.variables = Names::new(value.to_owned()),
            "session_track_schema" => self.schema = is_on(value),
            "session_track_state_change" => self.state = is_on(value),
            "session_track_gtids" => self.gtids = gtids(value),
            _ => return false,
        }
        true
    }

    /// The last report was of a transaction that a statement has begun.
    fn in_explicit(&self) -> bool {
        self.explicit.get() != Explicit::None
    }

    /// The session is behind MySQL's CREATE TABLE … START TRANSACTION, where the server takes the end of the transaction only.
    pub fn in_transaction_of_new_table(&self) -> bool {
        self.held.get() == Held::Table
    }

    /// It wants to hear that anything has changed: a SET of a variable, too.
    pub fn hears_of_any(&self) -> bool {
        self.state
    }

    /// It hears something with each statement, one that changes nothing included.
    #[inline]
    pub fn hears_of_each_statement(&self) -> bool {
        self.state || self.wants(STATEMENT_NUMBER)
    }

    /// It wants more GTIDs than Sqluice itself asks servers for.
    pub fn all_gtids(&self) -> bool {
        self.gtids == Gtids::All
    }

    /// The client's choice once a statement with these effects has succeeded, if that is another one: it holds for the
    /// statement's own reply already.
    pub fn after(&self, effects: &[Effect], catalog: &Catalog) -> Option<ClientTracking> {
        let mut after = None;
        for effect in effects {
            if let Effect::Variable { name, .. } = effect
                && name == TRANSACTION_INFO
                && self.hides()
            {
                // From now on the connection has the client's own setting.
                after.get_or_insert_with(|| self.clone()).transactions = None;
            }
            if let Effect::Variable { name, value } = effect
                && is_tracking_variable(name)
            {
                let tracking: &mut ClientTracking = after.get_or_insert_with(|| self.clone());
                match value {
                    Value::Literal(literal) => tracking.set(name, literal.trim_matches('\'')),
                    Value::Default => tracking.set_default(name, catalog),
                    Value::Unknown => continue,
                };
            }
        }
        after
    }

    fn set_default(&mut self, name: &str, catalog: &Catalog) -> bool {
        let servers = ClientTracking::of_servers(catalog);
        match name {
            "session_track_system_variables" => self.variables = servers.variables,
            "session_track_schema" => self.schema = servers.schema,
            "session_track_state_change" => self.state = servers.state,
            "session_track_gtids" => self.gtids = servers.gtids,
            _ => return false,
        }
        true
    }
}

fn is_on(value: &str) -> bool {
    matches!(value.trim_matches('\'').to_ascii_uppercase().as_str(), "1" | "ON" | "TRUE")
}

fn gtids(value: &str) -> Gtids {
    match value.trim_matches('\'').to_ascii_uppercase().as_str() {
        "1" | "OWN_GTID" => Gtids::Own,
        "2" | "ALL_GTIDS" => Gtids::All,
        _ => Gtids::Off,
    }
}
