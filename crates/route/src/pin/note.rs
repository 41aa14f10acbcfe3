//! The effects of statements that begin and end pins.

use sql::{Effect, Leaves, Value};

use super::{OneUse, Pin, Pins, PreparedText, UNKNOWN_LOCK, insert_or_remove};

impl Pins {
    /// Notes what a statement did. When it failed, only what may have happened all the same is noted.
    pub fn note(&mut self, effect: &Effect, schema: Option<&str>, succeeded: bool) {
        let qualified = |name: &str| qualify(name, schema);
        match effect {
            Effect::CreateTemporaryTable(name) if succeeded => {
                self.count(Pin::TemporaryTable, |details| {
                    insert_or_remove(&mut details.temporary_tables, qualified(name), true)
                });
            }
            Effect::DropTable { names, .. } if succeeded && self.has(Pin::TemporaryTable) => {
                self.count(Pin::TemporaryTable, |details| {
                    details.temporary_tables.retain(|table| !names.iter().any(|name| qualified(name) == *table));
                    details.temporary_tables.is_empty()
                });
            }
            Effect::LockTables(kind) if succeeded => self.count(Pin::LockTables, |details| {
                if !details.locks.contains(kind) {
                    details.locks.push(*kind);
                }
                false
            }),
            Effect::UnlockTables(kind) if succeeded && self.has(Pin::LockTables) => {
                self.count(Pin::LockTables, |details| {
                    details.locks.retain(|held| held != kind);
                    details.locks.is_empty()
                });
            }
            Effect::TakeUserLock(name) => self.take_user_lock(name.as_deref()),
            Effect::ReleaseUserLock(_) | Effect::ReleaseAllUserLocks { .. } if self.has(Pin::UserLock) => {
                let all = succeeded && matches!(effect, Effect::ReleaseAllUserLocks { surely: true });
                self.release_user_locks(all);
            }
            Effect::Leaves(leaves) => self.leaves(*leaves),
            Effect::OpenHandler(name) if succeeded => {
                self.count(Pin::Handler, |details| insert_or_remove(&mut details.handlers, handler(name), true));
            }
            Effect::CloseHandler(name) if succeeded && self.has(Pin::Handler) => {
                self.count(Pin::Handler, |details| insert_or_remove(&mut details.handlers, handler(name), false));
            }
            Effect::XaStart if succeeded => self.put(Pin::Xa, true),
            Effect::XaEnd { finished: true } if succeeded => self.put(Pin::Xa, false),
            Effect::PrepareText { name, leaves, announces, reads, defines, .. } if succeeded => {
                let text = PreparedText { leaves: *leaves, announces: *announces, reads: *reads, defines: *defines };
                self.text_prepared(name, text);
            }
            Effect::ExecuteText { name } => {
                let known = self.details.as_ref().and_then(|details| details.prepared.get(name));
                self.leaves(known.map(|text| text.leaves).unwrap_or_default());
            }
            Effect::DeallocateText { name } if succeeded && self.has(Pin::PreparedText) => {
                self.count(Pin::PreparedText, |details| {
                    details.prepared.remove(name);
                    details.prepared.is_empty()
                });
            }
            Effect::UserVariable { name, value: Value::Unknown } => self.user_variable_unknown(name),
            // NULL keeps the type of the value before.
            Effect::UserVariable { name, value: Value::Literal(literal) }
                if literal.eq_ignore_ascii_case("null") && self.is_user_variable_unknown(name) => {}
            Effect::UserVariable { name, .. } if succeeded && self.has(Pin::UserVariable) => {
                self.user_variable_known(name);
            }
            Effect::Variable { name, .. } if succeeded && name == "insert_id" => self.one_use(OneUse::InsertId, true),
            Effect::Role { .. } if succeeded => self.put(Pin::Role, true),
            Effect::CalcFoundRows if succeeded => self.put(Pin::FoundRows, true),
            Effect::CountsConnection if succeeded => self.put(Pin::StatusCounters, true),
            _ => {}
        }
    }

    fn text_prepared(&mut self, name: &str, text: PreparedText) {
        self.count(Pin::PreparedText, |details| {
            details.prepared.insert(name.to_owned(), text);
            false
        });
    }

    /// A routine, or a text that was prepared, may have left this.
    fn leaves(&mut self, leaves: Leaves) {
        if leaves.contains(Leaves::USER_LOCKS) {
            self.take_user_lock(None);
        }
        if leaves.contains(Leaves::SEQUENCES) {
            self.put(Pin::Sequence, true);
        }
        if leaves.contains(Leaves::UNREPORTED) {
            self.ran_unread();
        }
        if leaves.contains(Leaves::EVENTS) {
            self.put(Pin::BinlogEvents, true);
        }
        if leaves.contains(Leaves::TRACES) {
            self.put(Pin::Tracing, true);
        }
    }

    /// GET_LOCK() may have taken this lock; servers count how often.
    fn take_user_lock(&mut self, name: Option<&str>) {
        let name = name.unwrap_or(UNKNOWN_LOCK).to_owned();
        self.count(Pin::UserLock, |details| {
            (details.user_locks_unsure, details.user_locks_released) = (true, false);
            insert_or_remove(&mut details.user_locks, name, true)
        });
    }

    /// Some user lock, or `all` of them, may be held no more.
    fn release_user_locks(&mut self, all: bool) {
        self.count(Pin::UserLock, |details| {
            details.user_locks_unsure = true;
            details.user_locks_released |= all;
            false
        });
    }

    /// A user variable got a value that only the server knows.
    fn user_variable_unknown(&mut self, name: &str) {
        self.count(Pin::UserVariable, |details| insert_or_remove(&mut details.user_variables, name.to_owned(), true));
    }
}

/// The name by which a handler is closed: that of its table, without the schema, or its alias.
fn handler(name: &str) -> String {
    sql::text::fold(&name.rsplit('.').next().unwrap_or(name).replace('`', ""))
}

fn qualify(name: &str, schema: Option<&str>) -> String {
    let name = name.replace('`', "");
    match schema {
        Some(schema) if !name.contains('.') => format!("{schema}.{name}"),
        _ => name,
    }
}
