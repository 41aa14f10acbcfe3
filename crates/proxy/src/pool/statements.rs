//! The statements that are prepared on one backend connection.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Most bytes of texts that are prepared on one backend connection, except for a longer single one.
const TEXTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The statements prepared on one backend connection, the least recently used going first.
#[derive(Debug, Default)]
pub struct ServerStatements {
    known: HashMap<StatementKey, PreparedHere, RandomState>,
    /// The length of their texts.
    bytes: usize,
    clock: u64,
    /// Server ids of statements to be closed with the next write.
    to_close: Vec<u32>,
    /// One of them has opened a cursor.
    some_opened_cursor: bool,
}

/// The same text prepares to the same statement only in the same context (schema, sql_mode, character set).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatementKey {
    /// The SQL text.
    pub text: Arc<[u8]>,
    /// [`route::state::StateMap::prepare_context`] at the time of preparing.
    pub context: u64,
}

#[derive(Debug)]
struct PreparedHere {
    id: u32,
    used: u64,
    /// How its parameters got the types that they have, once it was executed.
    typed: Option<TypedBy>,
    /// MySQL: it has opened a cursor. Executions that ask for none get no rows from it any more.
    opened_cursor: bool,
}

/// The types that an execution gave.
#[derive(Debug)]
struct TypedBy {
    session: u32,
    types: Box<[u8]>,
    /// The session had given others before.
    anew: bool,
}

/// The types that an execution's parameters must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypesWanted {
    /// Tells them from others.
    pub types: Box<[u8]>,
    /// The execution gives them by itself.
    pub gives: bool,
    /// The types behind it.
    pub behind: Box<[u8]>,
}

/// A statement that is prepared, for an execution whose parameters must have certain types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForTypes {
    /// With this id of the server's; they have them, or get them by the execution itself.
    Typed(u32),
    /// They have none: an execution that gives them must go ahead.
    Untyped(u32),
}

impl ServerStatements {
    /// The server's id of a statement, if it is prepared here.
    pub fn find(&mut self, key: &StatementKey) -> Option<u32> {
        self.clock += 1;
        let known = self.known.get_mut(key)?;
        known.used = self.clock;
        Some(known.id)
    }

    /// The same for an execution whose parameters must have these types, which it gives by itself or not, and have others
    /// behind it, perhaps. MySQL lets the
    /// first execution say of which type a parameter is whose place does not tell, and converts the values of later ones: one
    /// that another session has executed with other types is none for this session.
    pub fn find_for(&mut self, key: &StatementKey, session: u32, wanted: &TypesWanted) -> Option<ForTypes> {
        let id = self.find(key)?;
        let known = self.known.get_mut(key)?;
        let TypesWanted { types, gives, behind } = wanted;
        match &mut known.typed {
            None => {
                known.typed = Some(TypedBy { session, types: behind.clone(), anew: false });
                Some(if *gives { ForTypes::Typed(id) } else { ForTypes::Untyped(id) })
            }
            Some(by) if by.types == *types && types == behind && (!by.anew || by.session == session) => {
                Some(ForTypes::Typed(id))
            }
            Some(by) if by.session == session && (*gives || by.types == *types) => {
                *by = TypedBy { session, types: behind.clone(), anew: true };
                Some(ForTypes::Typed(id))
            }
            Some(_) => None,
        }
    }

    /// The statement was prepared; beyond `max` the least recently used one will be closed.
    pub fn insert(&mut self, key: StatementKey, id: u32, max: usize) {
        self.clock += 1;
        let bytes = key.text.len();
        match self.known.insert(key, PreparedHere { id, used: self.clock, typed: None, opened_cursor: false }) {
            Some(old) => self.to_close.push(old.id),
            None => self.bytes += bytes,
        }
        while self.known.len() > max.max(1) || self.bytes > TEXTS_BYTES_MAX && self.known.len() > 1 {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            let Some((key, known)) = oldest.and_then(|key| self.known.remove_entry(&key)) else { break };
            self.bytes -= key.text.len();
            self.to_close.push(known.id);
        }
    }

    /// Nobody executes it again, so it will be closed.
    pub fn retire(&mut self, key: &StatementKey) {
        if let Some(known) = self.known.remove(key) {
            self.bytes -= key.text.len();
            self.to_close.push(known.id);
        }
    }

    /// On MySQL, it has opened a cursor.
    pub fn opened_cursor(&mut self, key: &StatementKey) {
        if let Some(known) = self.known.get_mut(key) {
            (known.opened_cursor, self.some_opened_cursor) = (true, true);
        }
    }

    /// An execution that asks for no cursor comes: a statement that has opened one is none for it.
    #[inline]
    pub fn want_rows(&mut self, key: &StatementKey) {
        if self.some_opened_cursor && self.known.get(key).is_some_and(|known| known.opened_cursor) {
            self.retire(key);
        }
    }

    /// The server does not know it any more.
    pub fn forget(&mut self, key: &StatementKey) {
        if self.known.remove(key).is_some() {
            self.bytes -= key.text.len();
        }
    }

    /// All are gone: the connection was reset.
    pub fn clear(&mut self) {
        self.known.clear();
        self.bytes = 0;
        self.to_close.clear();
        self.some_opened_cursor = false;
    }

    /// Statements whose COM_STMT_CLOSE is due.
    pub fn take_closing(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.to_close)
    }

    /// Whether this one is prepared.
    pub fn has(&self, key: &StatementKey) -> bool {
        self.known.contains_key(key)
    }

    /// Whether one has this id of the server's.
    pub fn has_id(&self, id: u32) -> bool {
        self.known.values().any(|known| known.id == id)
    }

    /// How many are prepared.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// None is prepared.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_statement_is_closed_once() {
        let key = StatementKey { text: b"CREATE TABLE t (a INT)"[..].into(), context: 0 };
        let mut statements = ServerStatements::default();
        statements.insert(key.clone(), 3, 9);
        statements.retire(&key);
        statements.retire(&key);
        assert_eq!((statements.find(&key), statements.take_closing(), statements.bytes), (None, vec![3], 0));
    }

    #[test]
    fn a_statement_that_has_opened_a_cursor_is_none_for_executions_without() {
        let key = |text: &str| StatementKey { text: text.as_bytes().into(), context: 0 };
        let mut statements = ServerStatements::default();
        statements.insert(key("a"), 1, 9);
        statements.insert(key("b"), 2, 9);
        statements.want_rows(&key("a"));
        statements.opened_cursor(&key("a"));
        assert_eq!((statements.find(&key("a")), statements.take_closing()), (Some(1), vec![]), "fetches need it");
        statements.want_rows(&key("b"));
        statements.want_rows(&key("a"));
        assert_eq!((statements.find(&key("a")), statements.find(&key("b"))), (None, Some(2)));
        assert_eq!(statements.take_closing(), [1]);
        statements.insert(key("a"), 3, 9);
        statements.want_rows(&key("a"));
        assert_eq!(statements.find(&key("a")), Some(3), "a new one");
    }

    #[test]
    fn the_least_recently_used_statement_is_closed() {
        let key = |text: &str, context| StatementKey { text: text.as_bytes().into(), context };
        let mut statements = ServerStatements::default();
        statements.insert(key("a", 0), 1, 2);
        statements.insert(key("b", 0), 2, 2);
        assert_eq!(statements.find(&key("a", 0)), Some(1));
        assert_eq!(statements.find(&key("a", 1)), None, "another schema, another statement");
        statements.insert(key("c", 0), 3, 2);
        assert_eq!(statements.take_closing(), [2]);
        assert_eq!((statements.len(), statements.find(&key("b", 0))), (2, None));
        statements.insert(key("a", 0), 9, 2);
        assert_eq!(statements.take_closing(), [1], "prepared twice: the older one is of no use");
    }

    #[test]
    fn long_texts_are_closed_before_there_are_many() {
        let key = |text: u8| StatementKey { text: vec![text; TEXTS_BYTES_MAX / 2].into(), context: 0 };
        let mut statements = ServerStatements::default();
        statements.insert(key(0), 1, 200);
        statements.insert(key(1), 2, 200);
        assert_eq!((statements.len(), statements.take_closing().len()), (2, 0));
        statements.insert(key(2), 3, 200);
        assert_eq!((statements.len(), statements.take_closing()), (2, vec![1]));
        statements.forget(&key(1));
        statements.insert(key(3), 4, 200);
        assert_eq!((statements.len(), statements.take_closing().len()), (2, 0));
    }

    #[test]
    fn a_statement_is_not_shared_where_other_types_have_shaped_it() {
        let key = StatementKey { text: b"SELECT ?".as_slice().into(), context: 0 };
        let mut statements = ServerStatements::default();
        statements.insert(key.clone(), 1, 2);
        let wanted =
            |types: &[u8], gives, behind: &[u8]| TypesWanted { types: types.into(), gives, behind: behind.into() };
        let (int, text) = (&[3, 0][..], &[253, 0][..]);
        let [gives_int, gives_text] = [int, text].map(|types| wanted(types, true, types));
        let has_int = wanted(int, false, int);
        assert_eq!(statements.find_for(&key, 7, &gives_int), Some(ForTypes::Typed(1)));
        assert_eq!(statements.find_for(&key, 8, &gives_int), Some(ForTypes::Typed(1)), "the same types");
        assert_eq!(statements.find_for(&key, 8, &has_int), Some(ForTypes::Typed(1)), "they are there");
        assert_eq!(statements.find_for(&key, 8, &gives_text), None);
        assert_eq!(statements.find_for(&key, 8, &wanted(int, false, text)), None, "others go on with them");
        assert_eq!(
            statements.find_for(&key, 7, &gives_text),
            Some(ForTypes::Typed(1)),
            "what it was to this session before"
        );
        assert_eq!(statements.find_for(&key, 8, &gives_text), None);
        assert_eq!(statements.find_for(&key, 7, &has_int), None, "they are others now");
        statements.insert(key.clone(), 2, 2);
        assert_eq!(statements.find_for(&key, 7, &has_int), Some(ForTypes::Untyped(2)));
        assert_eq!(statements.find_for(&key, 7, &has_int), Some(ForTypes::Typed(2)));
        assert_eq!(statements.find_for(&key, 7, &wanted(int, false, text)), Some(ForTypes::Typed(2)));
        assert_eq!(statements.find_for(&key, 7, &has_int), None);
    }
}
