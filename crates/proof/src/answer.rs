//! The reply to a write that was found in a log: what the server would have said, or nothing where that is not certain.

use sql::{Given, RowChange, Verb};
use wire::parameters::Value;

use crate::changed::Changed;

/// The known facts about the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// In their order.
    pub columns: Vec<Column>,
    /// A foreign key of it refers to itself: rows may be changed of which the reply tells nothing.
    pub refers_to_itself: bool,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// AUTO_INCREMENT.
    pub counts: bool,
    /// Left out where no columns are named.
    pub is_invisible: bool,
    /// It is in the primary key.
    pub is_key: bool,
    /// A whole number.
    pub is_int: bool,
}

/// The words and numbers of an OK packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows changed.
    pub affected: u64,
    /// The AUTO_INCREMENT value.
    pub insert_id: u64,
    /// The server has made it: LAST_INSERT_ID() gives it.
    pub made_id: bool,
    /// Rows that an UPDATE found.
    pub matched: Option<u64>,
    /// The text.
    pub info: String,
}

/// A write of which all is known that its reply depends on.
#[derive(Clone, Copy, Debug)]
pub struct ProvenWrite<'a> {
    /// The change that its text describes.
    pub change: &'a RowChange,
    /// Its parameters.
    pub values: &'a [Value<'a>],
    /// Its table.
    pub columns: &'a Columns,
    /// The change that the log shows.
    pub changed: &'a Changed,
    /// The client wants to hear how many rows an UPDATE found, not how many it changed.
    pub counts_found: bool,
}

impl Columns {
    /// The AUTO_INCREMENT column.
    pub fn counter(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.counts)
    }

    fn is_key(&self, name: &str) -> bool {
        let mut keys = self.columns.iter().filter(|column| column.is_key);
        let key = keys.next().filter(|column| column.is_int && column.name.eq_ignore_ascii_case(name));
        key.is_some() && keys.next().is_none()
    }
}

impl ProvenWrite<'_> {
    /// The OK that the server sent or would have sent; `None` if that is not certain.
    pub fn answer(&self) -> Option<Answer> {
        let (change, changed) = (self.change, self.changed);
        if changed.is_unclear || !changed.committed || change.returns_rows || self.columns.columns.is_empty() {
            return None;
        }
        match change.verb {
            Verb::Insert => self.insert(),
            Verb::Replace => self.replace(),
            _ if changed.is_statement || self.columns.refers_to_itself => None,
            Verb::Update => self.update(),
            Verb::Delete => {
                let counted = changed.deleted > 0 && (changed.inserted, changed.updated) == (0, 0);
                counted.then(|| Answer { affected: changed.deleted, ..Answer::default() })
            }
        }
    }

    fn insert(&self) -> Option<Answer> {
        let (change, changed) = (self.change, self.changed);
        let listed = change.rows.as_ref().map(|rows| rows.len() as u64);
        let only_inserted = (changed.updated, changed.deleted) == (0, 0);
        let is_plain = !change.ignores && !change.updates_duplicates;
        let count = match listed {
            Some(count) if changed.is_statement && is_plain => count,
            Some(count) if !changed.is_statement && only_inserted && changed.inserted == count => count,
            // One row that was there already. The reported id then depends on more than the row.
            Some(1) if !changed.is_statement && change.updates_duplicates && !change.ignores => {
                let updated = (changed.inserted, changed.updated, changed.deleted) == (0, 1, 0);
                let reported = updated && self.columns.counter().is_none();
                return reported.then(|| Answer { affected: 2, ..Answer::default() });
            }
            None if !changed.is_statement && only_inserted && is_plain => changed.inserted,
            _ => return None,
        };
        let (insert_id, made_id) = self.id()?;
        let info = match listed {
            Some(1) => String::new(),
            _ => format!("Records: {count}  Duplicates: 0  Warnings: 0"),
        };
        Some(Answer { affected: count, insert_id, made_id, matched: None, info })
    }

    fn replace(&self) -> Option<Answer> {
        let changed = self.changed;
        let count = self.change.rows.as_ref()?.len() as u64;
        // A row that was there already, just as it is, is not in the log.
        if changed.is_statement || changed.inserted.checked_add(changed.updated)? > count {
            return None;
        }
        let (insert_id, made_id) = self.id()?;
        if made_id && changed.inserted != count {
            return None;
        }
        let replaced = changed.deleted.checked_add(changed.updated)?;
        let info = match count {
            1 => String::new(),
            _ => format!("Records: {count}  Duplicates: {replaced}  Warnings: 0"),
        };
        Some(Answer { affected: count.checked_add(replaced)?, insert_id, made_id, matched: None, info })
    }

    fn update(&self) -> Option<Answer> {
        let changed = self.changed;
        if changed.updated == 0 || (changed.inserted, changed.deleted) != (0, 0) {
            return None;
        }
        let is_number = |given: &Given| matches!(self.resolve(*given), Given::Number(_));
        let key = self.change.key.as_ref().filter(|(column, given)| self.columns.is_key(column) && is_number(given));
        let matched = (key.is_some() && changed.updated == 1).then_some(1);
        if self.counts_found && matched.is_none() {
            return None;
        }
        let info = matched.map_or_else(String::new, |_| "Rows matched: 1  Changed: 1  Warnings: 0".into());
        Some(Answer { affected: changed.updated, matched, info, ..Answer::default() })
    }

    /// The reported id, and whether the server has made it.
    fn id(&self) -> Option<(u64, bool)> {
        let Some(counter) = self.columns.counter() else { return Some((0, false)) };
        let changed = self.changed;
        let made = if changed.is_statement { changed.made_id } else { changed.first_id };
        let made = made.filter(|id| *id != 0).map(|id| (id, true));
        let place = match &self.change.columns {
            Some(names) => {
                let name = &self.columns.columns.get(counter)?.name;
                match names.iter().position(|named| named.eq_ignore_ascii_case(name)) {
                    Some(place) => place,
                    None => return made,
                }
            }
            None => self.columns.columns.iter().take(counter).filter(|column| !column.is_invisible).count(),
        };
        let rows = self.change.rows.as_ref()?;
        let given = |row: &Vec<Given>| match row.get(place) {
            Some(given) => self.resolve(*given),
            None if row.is_empty() => Given::Nothing,
            None => Given::Other,
        };
        match given(rows.first()?) {
            Given::Nothing => made,
            // Where all rows have an id of the client's own, the last one is reported.
            Given::Number(_) => {
                let all = rows.iter().all(|row| matches!(given(row), Given::Number(_)));
                match given(rows.last()?) {
                    Given::Number(last) if all => {
                        let signed = i64::try_from(last).map(i64::cast_unsigned);
                        signed.or_else(|_| u64::try_from(last)).ok().map(|id| (id, false))
                    }
                    _ => None,
                }
            }
            Given::Parameter(_) | Given::Other => None,
        }
    }

    /// With parameters' values in their place. Whether 0 makes an id, sql_mode says.
    fn resolve(&self, given: Given) -> Given {
        match given {
            Given::Number(0) => Given::Other,
            Given::Parameter(at) => match self.values.get(at) {
                Some(Value::Null) => Given::Nothing,
                Some(Value::Int(number)) if *number != 0 => Given::Number(*number),
                _ => Given::Other,
            },
            given => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::tests::DIALECT;

    fn table() -> Columns {
        let column = |name: &str| Column { name: name.into(), is_int: true, ..Column::default() };
        let id = Column { counts: true, is_key: true, ..column("id") };
        Columns { columns: vec![column("a"), id, column("b")], refers_to_itself: false }
    }

    fn rows(inserted: u64, updated: u64, deleted: u64) -> Changed {
        Changed { inserted, updated, deleted, first_id: Some(70), committed: true, ..Changed::default() }
    }

    fn answer_with(
        text: &str,
        values: &[Value<'_>],
        columns: &Columns,
        changed: &Changed,
        counts_found: bool,
    ) -> Option<Answer> {
        let change = sql::row_change(text.as_bytes(), &DIALECT)?;
        ProvenWrite { change: &change, values, columns, changed, counts_found }.answer()
    }

    fn answer(text: &str, changed: &Changed) -> Option<(u64, u64, bool, String)> {
        let values = [Value::Null, Value::Int(9), Value::Int(0)];
        let answer = answer_with(text, &values, &table(), changed, false)?;
        Some((answer.affected, answer.insert_id, answer.made_id, answer.info))
    }

    fn reported(affected: u64, id: u64, made: bool, info: &str) -> Option<(u64, u64, bool, String)> {
        Some((affected, id, made, info.into()))
    }

    #[test]
    fn inserts_tell_their_rows_and_the_first_id_made() {
        let two = "Records: 2  Duplicates: 0  Warnings: 0";
        assert_eq!(answer("INSERT INTO t (a) VALUES (1)", &rows(1, 0, 0)), reported(1, 70, true, ""));
        assert_eq!(answer("INSERT INTO t (a) VALUES (1), (2)", &rows(2, 0, 0)), reported(2, 70, true, two));
        assert_eq!(answer("INSERT INTO t VALUES (1, NULL, 2)", &rows(1, 0, 0)), reported(1, 70, true, ""));
        assert_eq!(answer("INSERT INTO t VALUES (1, ?, 2)", &rows(1, 0, 0)), reported(1, 70, true, ""));
        assert_eq!(answer("INSERT INTO t VALUES (?, ?, 2)", &rows(1, 0, 0)), reported(1, 9, false, ""));
        assert_eq!(answer("INSERT INTO t VALUES (?, 1, ?), (1, 5, 6)", &rows(2, 0, 0)), reported(2, 5, false, two));
        assert_eq!(answer("INSERT INTO t SET ID = -1", &rows(1, 0, 0)), reported(1, u64::MAX, false, ""));
        assert_eq!(answer("INSERT INTO t () VALUES ()", &rows(1, 0, 0)), reported(1, 70, true, ""));
        assert_eq!(answer("INSERT INTO t (a) SELECT 1", &rows(2, 0, 0)), reported(2, 70, true, two));
        let no_id = Columns { columns: vec![Column { name: "a".into(), ..Column::default() }], ..Columns::default() };
        let found = answer_with("INSERT INTO t VALUES (f(1))", &[], &no_id, &rows(1, 0, 0), true).unwrap();
        assert_eq!((found.affected, found.insert_id), (1, 0));
        let upsert = "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2";
        assert_eq!(answer_with(upsert, &[], &no_id, &rows(0, 1, 0), false).unwrap().affected, 2);
        assert_eq!(answer_with(upsert, &[], &no_id, &rows(1, 0, 0), false).unwrap().affected, 1);
    }

    #[test]
    fn a_statement_in_the_log_tells_its_id() {
        let changed = Changed { is_statement: true, made_id: Some(8), ..rows(0, 0, 0) };
        let two = "Records: 2  Duplicates: 0  Warnings: 0";
        assert_eq!(answer("INSERT INTO t (a) VALUES (1), (2)", &changed), reported(2, 8, true, two));
        assert_eq!(answer("INSERT INTO t (id) VALUES (5)", &changed), reported(1, 5, false, ""));
        for text in [
            "INSERT IGNORE INTO t (a) VALUES (1)",
            "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
            "INSERT INTO t (a) SELECT 1",
            "REPLACE INTO t (id) VALUES (1)",
            "UPDATE t SET a = 1 WHERE id = 1",
            "DELETE FROM t WHERE id = 1",
        ] {
            assert_eq!(answer(text, &changed), None, "{text}");
        }
    }

    #[test]
    fn replaces_count_what_they_replaced() {
        assert_eq!(answer("REPLACE INTO t (id) VALUES (5)", &rows(1, 0, 0)), reported(1, 5, false, ""));
        assert_eq!(answer("REPLACE INTO t (id) VALUES (5)", &rows(0, 1, 0)), reported(2, 5, false, ""));
        assert_eq!(answer("REPLACE INTO t (id) VALUES (5)", &rows(1, 0, 1)), reported(2, 5, false, ""));
        let words = "Records: 3  Duplicates: 1  Warnings: 0";
        assert_eq!(answer("REPLACE INTO t (id) VALUES (5), (6), (7)", &rows(1, 1, 0)), reported(4, 7, false, words));
        assert_eq!(answer("REPLACE INTO t (a) VALUES (5)", &rows(0, 1, 0)), None);
    }

    #[test]
    fn updates_and_deletes_tell_what_is_certain() {
        let one = "Rows matched: 1  Changed: 1  Warnings: 0";
        assert_eq!(answer("UPDATE t SET a = 1 WHERE id = 5", &rows(0, 1, 0)), reported(1, 0, false, one));
        assert_eq!(answer("UPDATE t SET a = 1 WHERE a > 5", &rows(0, 3, 0)), reported(3, 0, false, ""));
        assert_eq!(answer("DELETE FROM t", &rows(0, 0, 3)), reported(3, 0, false, ""));
        let found = |text: &str, updated| answer_with(text, &[], &table(), &rows(0, updated, 0), true);
        assert_eq!(found("UPDATE t SET a = 1 WHERE id = 5", 1).unwrap().matched, Some(1));
        assert_eq!(found("UPDATE t SET a = 1 WHERE a = 5", 1), None, "others may have matched");
    }

    #[test]
    fn what_is_not_certain_is_not_answered() {
        for (text, changed) in [
            ("INSERT INTO t (a) VALUES (1), (2)", rows(1, 0, 0)),
            ("INSERT IGNORE INTO t (a) VALUES (1), (2)", rows(1, 0, 0)),
            ("INSERT INTO t VALUES (1, 0, 2)", rows(1, 0, 0)),
            ("INSERT INTO t VALUES (1, ?, 2), (1, 5, 3), (1, ?, 4)", Changed { first_id: None, ..rows(3, 0, 0) }),
            ("INSERT INTO t VALUES (1, 5, 3), (1, NULL, 4)", rows(2, 0, 0)),
            ("INSERT INTO t VALUES (1, f(1), 2)", rows(1, 0, 0)),
            ("INSERT INTO t SELECT 1, 2, 3", rows(1, 0, 0)),
            ("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 1", rows(0, 1, 0)),
            ("INSERT INTO t (a) VALUES (1) RETURNING id", rows(1, 0, 0)),
            ("UPDATE t SET a = 1", rows(1, 1, 0)),
            ("DELETE FROM t", rows(0, 1, 0)),
            ("INSERT INTO t (a) VALUES (1)", Changed { committed: false, ..rows(1, 0, 0) }),
            ("INSERT INTO t (a) VALUES (1)", Changed { is_unclear: true, ..rows(1, 0, 0) }),
        ] {
            assert_eq!(answer(text, &changed), None, "{text}");
        }
        let itself = Columns { refers_to_itself: true, ..table() };
        assert_eq!(answer_with("DELETE FROM t", &[], &itself, &rows(0, 0, 2), false), None);
        assert_eq!(answer_with("INSERT INTO t (a) VALUES (1)", &[], &Columns::default(), &rows(1, 0, 0), false), None);
    }
}
