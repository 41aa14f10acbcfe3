//! From a script to one that asks again: what a cache could get wrong.

use std::collections::BTreeSet;

use crate::script::{Action, Script, Step, Value};

/// Reads that a script asks again later.
const ASKED_BEFORE_MAX: usize = 6;

impl Script {
    /// The same, but with each read asked twice, and behind all else one that some session has asked before: what a cache could get
    /// wrong. Sessions up to `keepers` have their tables for themselves: their locks would keep others waiting, and in their transactions
    /// they would keep others from changing a table.
    #[must_use]
    pub fn asked_again(&self, keepers: usize) -> Script {
        let mut steps = Vec::new();
        let mut before: Vec<&Action> = Vec::new();
        // Of a statement that is not there, errors would add up.
        let mut prepared = BTreeSet::new();
        for (at, step) in self.steps.iter().enumerate() {
            steps.push(step.clone());
            if step.session == 0 {
                continue;
            }
            match &step.action {
                Action::Prepare(name, sql) if reads(sql) => _ = prepared.insert((step.session, name)),
                Action::Prepare(name, _) | Action::Close(name) => _ = prepared.remove(&(step.session, name)),
                Action::Reset | Action::ChangeUser(..) | Action::Reconnect | Action::Quit | Action::Cut => {
                    prepared.retain(|(session, _)| *session != step.session);
                }
                _ => {}
            }
            let may_be_kept = match &step.action {
                Action::Query(sql) => reads(sql),
                Action::Execute { name, values, .. } => {
                    prepared.contains(&(step.session, name)) && !values.contains(&Value::Long)
                }
                _ => false,
            };
            if may_be_kept {
                steps.push(step.clone());
                if step.session > keepers && may_be_shared(&step.action) && !before.contains(&&step.action) {
                    before.insert(0, &step.action);
                    before.truncate(ASKED_BEFORE_MAX);
                }
            } else if step.session > keepers && matches!(step.action, Action::Query(_)) && !before.is_empty() {
                steps.push(Step { session: step.session, action: before[at % before.len()].clone() });
            }
        }
        Script { steps, ..self.clone() }
    }
}

/// A cache may keep what is answered, by its looks.
fn reads(sql: &[u8]) -> bool {
    let begins = |word: &str| sql.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()));
    ["SELECT", "(SELECT", "WITH"].into_iter().any(begins)
}

/// It reads tables and nothing of its session: any other one may ask it, and keeps no connection for it.
fn may_be_shared(action: &Action) -> bool {
    let Action::Query(sql) = action else { return false };
    let text = String::from_utf8_lossy(sql).to_ascii_uppercase();
    text.contains(" FROM {A}.") && !["@", "(", "FOR UPDATE", "LOCK IN", "INTO"].iter().any(|part| text.contains(part))
}
