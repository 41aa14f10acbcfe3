//! The names that a lane puts into scripts.

use crate::script::Action;

/// The names that a lane gives to schemas, accounts and roles.
const NAMES: [&str; 8] = ["{a}", "{b}", "{lib}", "{admin}", "{u1}", "{u2}", "{r1}", "{r2}"];

/// Puts the lane's names in.
pub(crate) fn fill_text(text: &str, lane: usize) -> String {
    NAMES.iter().fold(text.to_owned(), |text, name| text.replace(name, &filled(name, lane)))
}

fn filled(name: &str, lane: usize) -> String {
    format!("c{lane}_{}", name.trim_matches(['{', '}']))
}

pub(super) fn fill(bytes: &[u8], lane: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        match NAMES.iter().find(|name| rest.starts_with(name.as_bytes())) {
            Some(name) => {
                out.extend_from_slice(filled(name, lane).as_bytes());
                rest = &rest[name.len()..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

pub(super) fn fill_action(action: &Action, lane: usize) -> Action {
    match action {
        Action::Query(sql) => Action::Query(fill(sql, lane)),
        Action::Prepare(name, sql) => Action::Prepare(name.clone(), fill(sql, lane)),
        Action::InitDb(schema) => Action::InitDb(fill(schema, lane)),
        Action::ChangeUser(schema, account) => {
            Action::ChangeUser(schema.as_deref().map(|schema| fill_text(schema, lane)), *account)
        }
        other => other.clone(),
    }
}
