//! The effects of a statement on the session, by its text.

use std::sync::Arc;

use facts::catalog::Catalog;
use sql::{Effect, Kind, LockKind, Statement, Value};
use wire::errno::{ER_PARSE_ERROR, ER_SP_DOES_NOT_EXIST};

use crate::error::Refusal;
use crate::session::belief::Belief;
use crate::session::diagnostics::variables::moves_to;
use crate::session::query::{Query, QueryText};
use crate::session::relay::{Outcome, StateChange};
use crate::session::{Doubt, Held, Session, tracking};
use route::Pin;
use route::state::{OF_SCHEMA, has_default};

/// Words of a statement that defines code, or moves it: a table takes its triggers along when it is renamed.
const CODE: [&[u8]; 7] = [b"function", b"procedure", b"package", b"view", b"trigger", b"sequence", b"rename"];

impl Session {
    /// Pins that the statement begins and ends, and the state that it sets.
    pub(super) fn learn_effects(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        effects: &[Effect],
        outcome: &Outcome,
        succeeded: bool,
    ) {
        self.belief.pins.put(Pin::FoundRows, false);
        if effects.is_empty() {
            return;
        }
        let tracked = |name: &str| {
            outcome.changes.iter().any(|change| matches!(change, StateChange::Variable(set, _) if set == name))
        };
        let schema = self.belief.state.schema().map(str::to_owned);
        if !succeeded {
            self.belief.note_assignments(effects, outcome);
        }
        // Of a text that failed, the parts before have done what they say.
        let in_part = !succeeded && (query.statement.parts > 1 || assigns_one_by_one(&query.statement));
        for (at, effect) in effects.iter().enumerate() {
            let spares = |refusal: &Refusal| refusal.code == ER_SP_DOES_NOT_EXIST && query.statement.kind == Kind::Call;
            if !(matches!(effect, Effect::Leaves(_)) && outcome.error.as_ref().is_some_and(spares)) {
                self.belief.pins.note(effect, schema.as_deref(), succeeded || in_part && pins_from_now_on(effect));
            }
            if let Effect::GlobalVariable { .. } = effect {
                // Sessions that begin from now on begin with it.
                self.here.cluster.shared.published.request_defaults_refresh();
            }
            if in_part {
                self.belief.doubt_effect(held, effect, &tracked);
            }
            if !succeeded {
                continue;
            }
            let state = Arc::make_mut(&mut self.belief.state);
            match effect {
                Effect::LockTables(LockKind::Tables) => self.belief.tracking.note_locks(true),
                Effect::UnlockTables(LockKind::Tables) => self.belief.tracking.note_locks(false),
                Effect::Variable { name, value } if moves_to(name, value) => self.belief.pins.put(Pin::Opaque, true),
                Effect::Variable { name, .. } if tracking::is_tracking_variable(name) => {
                    self.belief.learn_tracking(effect, &self.here.cluster.catalog());
                }
                // The tracker reported the last value.
                Effect::Variable { name, value: Value::Default }
                    if effects[at + 1..]
                        .iter()
                        .any(|later| matches!(later, Effect::Variable { name: again, .. } if again == name)) => {}
                Effect::Variable { name, value } => {
                    self.learn_variable(held, (name, value), tracked(name), outcome);
                }
                Effect::Names { .. } | Effect::CharacterSet(_) => self.learn_charset(effect),
                Effect::UserVariable { name, value: Value::Literal(literal) }
                    if !self.belief.pins.is_user_variable_unknown(name) =>
                {
                    state.set_user_variable(name, literal);
                }
                Effect::FlushUserVariables => self.belief.forget_user_variables(held),
                Effect::UserVariable { name, .. } => {
                    // It stays the session's: NULL with a type is not what a session before has left.
                    if state.has_user_variable(name) {
                        held.lease.origin.once_set.retain(|known| known != name);
                    }
                    state.remove_user_variable(name);
                }
                _ => {}
            }
        }
    }

    /// A statement has set a variable.
    fn learn_variable(&mut self, held: &mut Held, (name, value): (&str, &Value), tracked: bool, outcome: &Outcome) {
        self.belief.learn_variable(held, name, value, tracked, outcome);
        let defaults_are_known = || self.here.cluster.shared.published.defaults_are_known();
        if *value == Value::Default && has_default(name) && !defaults_are_known() {
            // It may have got another default than the catalog's.
            self.belief.past.doubt_variable(name);
        }
    }

    /// SET NAMES and SET CHARACTER SET: their collation, which the tracker tells by its character set only.
    fn learn_charset(&mut self, effect: &Effect) {
        let catalog = self.here.cluster.catalog();
        let state = Arc::make_mut(&mut self.belief.state);
        match effect {
            Effect::Names { charset, collation: Some(collation) } => {
                let known = catalog.collation(charset.as_deref().unwrap_or_default(), collation);
                state.set_variable("collation_connection", known.map_or(collation, |known| &known.name));
                if let Some(known) = known {
                    state.set_results_collation(known);
                }
            }
            // A character set by itself means the built-in default.
            Effect::Names { collation: None, .. } => {
                let name = "character_set_collations";
                let mapping = state.variable_or_global(name, &catalog);
                let charset = state.variable("character_set_client");
                if let (Some(mapping), Some(charset)) = (mapping, charset)
                    && let Some(known) = catalog.mapped_collation(mapping, charset)
                {
                    state.set_variable("collation_connection", &known.name);
                    state.set_results_collation(known);
                }
            }
            Effect::CharacterSet(_) => match state.variable(OF_SCHEMA[1]).map(str::to_owned) {
                Some(own) => state.set_variable("collation_connection", &own),
                None => {
                    // Until it has been asked for.
                    state.set_variable_literal("collation_connection", "@@collation_database");
                    self.belief.past.doubt_variable("collation_connection");
                }
            },
            _ => {}
        }
    }
}

impl Belief {
    /// Whether EXECUTE runs a definition that PREPARE has named, perhaps of code.
    #[inline]
    pub(in crate::session) fn executes_definition(&self, query: &Query<'_>) -> bool {
        let defines = |effect: &Effect| matches!(effect, Effect::ExecuteText { name } if self.pins.text_defines(name));
        query.statement.kind == Kind::PreparedText && query.statement.effects.iter().any(defines)
    }

    /// The session has no user variables any more, nor has its connection.
    fn forget_user_variables(&mut self, held: &mut Held) {
        Arc::make_mut(&mut self.state).remove_user_variables();
        self.pins.no_user_variables();
        held.lease.origin.once_set.clear();
    }

    /// A statement with assignments was resolved, and may have been left undone: servers make its user variables there, NULL and with
    /// the type of the value, which the next session would find on the connection.
    pub(super) fn note_assignments(&mut self, effects: &[Effect], outcome: &Outcome) {
        if outcome.error.as_ref().is_some_and(|error| error.code == ER_PARSE_ERROR) {
            return;
        }
        let failed = outcome.error.is_some();
        for effect in effects {
            match effect {
                Effect::UserVariable { name, .. } => {
                    self.pins.note(&Effect::UserVariable { name: name.clone(), value: Value::Unknown }, None, true);
                }
                // The text's own assignments.
                Effect::PrepareText { text, .. } if failed && text.as_ref().is_none_or(|text| text.contains('@')) => {
                    self.pins.hidden_user_variables(true);
                }
                _ => {}
            }
        }
    }

    /// A statement has set what its session hears of changes. The server does not tell a list that does not name itself: one that
    /// comes from an expression is read back.
    fn learn_tracking(&mut self, effect: &Effect, catalog: &Catalog) {
        if let Some(tracking) = self.tracking.after(std::slice::from_ref(effect), catalog) {
            self.tracking = tracking;
        }
        if let Effect::Variable { name, value: Value::Unknown } = effect {
            self.past.doubt_variable(name);
        }
        // Other connections tell of this session's own transactions only.
        if self.tracking.all_gtids() {
            self.pins.put(Pin::Opaque, true);
        }
    }

    /// The effect of a text that failed: a part before may have made it.
    fn doubt_effect(&mut self, held: &mut Held, effect: &Effect, tracked: &impl Fn(&str) -> bool) {
        match effect {
            Effect::UserVariable { name, .. } => {
                let unknown = Effect::UserVariable { name: name.clone(), value: Value::Unknown };
                self.pins.note(&unknown, None, false);
            }
            Effect::Variable { name, .. } if matches!(&**name, "last_insert_id" | "identity") => {
                let own = self.past.doubt.is_some() || held.lease.origin.insert_id == Some(self.past.insert_id);
                self.past.doubt = Some(if own || tracked(name) { Doubt::Any } else { Doubt::Made });
            }
            // The server says: it is Sqluice's own list if the client's was not taken.
            Effect::Variable { name, .. } if name == "session_track_system_variables" => self.past.doubt_variable(name),
            // A timestamp goes on as the clock does, or stands: only the tracker shows which, and MariaDB's does not tell all.
            Effect::Variable { name, value }
                if (moves_to(name, value) || name == "timestamp") && (tracked(name) || self.is_mariadb()) =>
            {
                self.pins.put(Pin::Opaque, true);
            }
            // MySQL tells of each variable that was set, MariaDB does not. Only variables that exist can be asked for.
            Effect::Variable { name, .. }
                if self.is_mariadb()
                    && !tracked(name)
                    && !tracking::is_tracking_variable(name)
                    && has_default(name)
                    && self.catalog.globals.contains_key(&**name) =>
            {
                self.past.doubt_variable(name);
            }
            Effect::Names { .. } | Effect::CharacterSet(_) if tracked("character_set_client") => {
                self.past.doubt_variable("collation_connection");
            }
            _ => {}
        }
    }
}

/// Whether a SET that failed may have assigned a part of its list: servers look at all values first, but work out those of
/// user variables one by one.
fn assigns_one_by_one(statement: &Statement) -> bool {
    let is_worked_out = |effect: &Effect| matches!(effect, Effect::UserVariable { value: Value::Unknown, .. });
    statement.kind == Kind::Set && statement.effects.len() > 1 && statement.effects.iter().any(is_worked_out)
}

/// Whether an effect begins a pin.
fn pins_from_now_on(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::CreateTemporaryTable(_)
            | Effect::LockTables(_)
            | Effect::OpenHandler(_)
            | Effect::XaStart
            | Effect::PrepareText { .. }
            | Effect::Role { .. }
            | Effect::CalcFoundRows
            | Effect::CountsConnection
    )
}

/// Whether a statement defines code that may leave state on its connection which no reply reports, itself or by the code that it
/// names. A trigger shows in no statement that fires it, a package's variables not in the code that calls its routines.
#[inline]
pub(in crate::session) fn defines_what_stays(query: &Query<'_>, catalog: &Catalog) -> bool {
    defines_code(query) && leaves_what_stays(query, catalog)
}

#[cold]
fn leaves_what_stays(query: &Query<'_>, catalog: &Catalog) -> bool {
    let Some(QueryText { bytes, dialect }) = query.text() else { return false };
    let leaves = || !sql::Leaves::of_body(&String::from_utf8_lossy(bytes)).is_empty();
    let has_packages =
        || !catalog.packages.is_empty() || memchr::memmem::find(&bytes.to_ascii_lowercase(), b"package").is_some();
    // Code that was defined just before is not known.
    let calls_unread = || !query.catalog_was_fresh && sql::may_call_stored(bytes, &dialect);
    leaves() || names_user_variable(bytes) || has_packages() || catalog.names_code_that_stays(bytes) || calls_unread()
}

/// Whether a definition may name a user variable. The account of its DEFINER stands ahead of the word for its kind.
fn names_user_variable(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let begin = CODE.iter().filter_map(|word| memchr::memmem::find(&lower, word)).min();
    sql::text::names_user_variable(&text[begin.unwrap_or(0)..])
}

/// Whether the catalog is to be read again behind a statement: it may define routines, views or triggers, or alter a schema.
#[inline]
pub(super) fn changes_catalog(query: &Query<'_>) -> bool {
    may_define(query) && with_definition(query, |text| has_code(text) || has_altered_schema(text))
}

/// Whether a statement may define routines, views or triggers.
#[inline]
fn defines_code(query: &Query<'_>) -> bool {
    may_define(query) && with_definition(query, has_code)
}

/// Whether a statement may change the default collation of a schema.
#[inline]
pub(in crate::session) fn alters_schema(query: &Query<'_>) -> bool {
    may_define(query) && with_definition(query, has_altered_schema)
}

#[inline]
fn may_define(query: &Query<'_>) -> bool {
    let statement = &*query.statement;
    // EXECUTE IMMEDIATE, too.
    matches!(statement.kind, Kind::Definition | Kind::PreparedText)
        || statement.parts > 1 && !statement.access.only_reads()
}

/// Asks of the text in lower case; one that is not known may define anything.
fn with_definition(query: &Query<'_>, ask: impl FnOnce(&[u8]) -> bool) -> bool {
    query.text().is_none_or(|text| ask(&text.bytes.to_ascii_lowercase()))
}

fn has_code(text: &[u8]) -> bool {
    const VERBS: [&[u8]; 4] = [b"create", b"alter", b"drop", b"rename"];
    CODE.iter().any(|word| has(text, word)) && VERBS.iter().any(|word| has(text, word))
}

fn has_altered_schema(text: &[u8]) -> bool {
    has(text, b"alter") && (has(text, b"database") || has(text, b"schema"))
}

fn has(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}
