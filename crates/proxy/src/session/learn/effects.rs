//! What the text of a statement says that it did to the session.

use std::sync::Arc;

use sql::{Effect, Kind, Value};
use wire::Status;

use crate::route::Pin;
use crate::session::relay::{Outcome, StateChange};
use crate::session::variables::MOVES;
use crate::session::work::Work;
use crate::session::{Held, Session, tracking};
use crate::state::OF_SCHEMA;

impl Session {
    /// Pins that the statement begins and ends, and the state that it sets.
    pub(super) fn learn_effects(
        &mut self,
        held: &mut Held,
        work: &Work,
        effects: &[Effect],
        outcome: &Outcome,
        succeeded: bool,
    ) {
        let free = outcome.status.is_some_and(|status| !status.contains(Status::IN_TRANSACTION));
        // SET TRANSACTION waits for the next transaction; a statement that could not begin one leaves it waiting.
        if free && !matches!(work.statement.kind, Kind::Set | Kind::Use | Kind::Show) {
            self.pins.put(Pin::NextStatement, false);
        }
        self.pins.put(Pin::FoundRows, false);
        if effects.is_empty() {
            return;
        }
        let tracked = |name: &str| {
            outcome.changes.iter().any(|change| matches!(change, StateChange::Variable(told, _) if told == name))
        };
        let schema = self.state.schema().map(str::to_owned);
        for (at, effect) in effects.iter().enumerate() {
            self.pins.note(effect, schema.as_deref(), succeeded);
            if let Effect::GlobalVariable { .. } = effect {
                // Sessions that begin from now on begin with it.
                self.cluster.shared.published.request_catalog_refresh();
            }
            if !succeeded {
                continue;
            }
            let state = Arc::make_mut(&mut self.state);
            match effect {
                Effect::Variable { name, .. } if MOVES.contains(&&**name) => self.pins.put(Pin::Opaque, true),
                // The server does not tell a list that does not name itself.
                Effect::Variable { name, .. } if tracking::is_wish(name) => {
                    if let Some(wish) = self.wish.after(std::slice::from_ref(effect), &self.cluster.catalog()) {
                        self.wish = wish;
                    }
                    // Other connections tell of this session's own transactions only.
                    if self.wish.all_gtids() {
                        self.pins.put(Pin::Opaque, true);
                    }
                }
                // What the tracker told is what came last.
                Effect::Variable { name, value: Value::Default }
                    if effects[at + 1..]
                        .iter()
                        .any(|later| matches!(later, Effect::Variable { name: again, .. } if again == name)) => {}
                Effect::Variable { name, value } => self.learn_variable(held, name, value, tracked(name), outcome),
                Effect::Names { charset, collation: Some(collation) } => {
                    let catalog = self.cluster.catalog();
                    let known = catalog.collation(charset.as_deref().unwrap_or_default(), collation);
                    state.set_variable("collation_connection", known.map_or(collation, |known| &known.name));
                    if let Some(known) = known {
                        state.set_results_collation(known);
                    }
                }
                // The tracker names the character set only, which by itself means the built-in default.
                Effect::Names { collation: None, .. } => {
                    let catalog = self.cluster.catalog();
                    let name = "character_set_collations";
                    let mapping = state.variable(name).or_else(|| catalog.globals.get(name).map(String::as_str));
                    let charset = state.variable("character_set_client");
                    if let (Some(mapping), Some(charset)) = (mapping, charset)
                        && let Some(known) = catalog.mapped_collation(mapping, charset)
                    {
                        state.set_variable("collation_connection", &known.name);
                        state.set_results_collation(known);
                    }
                }
                Effect::CharacterSet(_) => {
                    match state.variable(OF_SCHEMA[1]).map(str::to_owned) {
                        Some(own) => state.set_variable("collation_connection", &own),
                        None => {
                            // Until it has been asked for.
                            state.set_variable_literal("collation_connection", "@@collation_database");
                            self.past.doubt_variable("collation_connection");
                        }
                    }
                }
                Effect::UserVariable { name, value: Value::Literal(literal) } => state.set_user_variable(name, literal),
                Effect::UserVariable { name, .. } => state.remove_user_variable(name),
                _ => {}
            }
        }
    }
}
