//! Why a session must keep its backend connection, and until when.

mod note;

use std::collections::{BTreeMap, BTreeSet};

use sql::{Leaves, LockKind};

macro_rules! pins {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// One reason for keeping a backend connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Pin {
            $($(#[$doc])* $name,)*
        }

        impl Pin {
            /// Every reason, in the order of [`Pin::WORDS`].
            pub const ALL: &'static [Pin] = &[$(Pin::$name),*];
            /// The words that users meet in metrics and in the session list.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
        }
    };
}

pins! {
    /// A transaction is open.
    Transaction = "transaction",
    /// SET TRANSACTION (or SET insert_id) waits for the statement that uses it up: see [`OneUse`].
    NextStatement = "next_statement",
    /// A temporary table exists.
    TemporaryTable = "temporary_table",
    /// GET_LOCK() was called.
    UserLock = "user_lock",
    /// LOCK TABLES, FLUSH TABLES WITH READ LOCK, LOCK INSTANCE, BACKUP STAGE, BACKUP LOCK.
    LockTables = "lock_tables",
    /// HANDLER … OPEN.
    Handler = "handler",
    /// A cursor is open.
    Cursor = "cursor",
    /// Parts of a parameter were sent ahead of the execution.
    LongData = "long_data",
    /// XA START.
    Xa = "xa",
    /// PREPARE … FROM: the statement lives on the connection.
    PreparedText = "prepared_text",
    /// A user variable has a value that only the server knows.
    UserVariable = "user_variable",
    /// SQL_CALC_FOUND_ROWS: FOUND_ROWS() is likely to follow.
    FoundRows = "found_rows",
    /// SHOW STATUS or FLUSH STATUS: the session counts what its connection does.
    StatusCounters = "status_counters",
    /// profiling or optimizer_trace was on: the connection keeps their lists, also when they are off again.
    Tracing = "tracing",
    /// SET ROLE and the like: no variable shows it.
    Role = "role",
    /// The session changed in a way that nothing shows.
    Opaque = "opaque",
    /// COM_REGISTER_SLAVE: the client replicates.
    Replication = "replication",
    /// The user's password has expired: the connection is good for changing it, and afterwards no other could be opened.
    ExpiredPassword = "expired_password",
    /// SAVEPOINT with `autocommit = 0` before anything has opened the transaction: no status flag shows it.
    Savepoint = "savepoint",
    /// NEXTVAL() was called, or LASTVAL() asked for: the connection remembers what each sequence gave it last.
    Sequence = "sequence",
    /// BINLOG: the connection replays events until it is closed.
    BinlogEvents = "binlog_events",
}

/// State that a server keeps until a statement uses it up; [`Pin::NextStatement`] holds while there is some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OneUse {
    /// SET TRANSACTION without SESSION or GLOBAL: the characteristics of the next transaction.
    Characteristics = 1,
    /// SET insert_id: the next AUTO_INCREMENT value.
    InsertId = 2,
}

/// Stands among the user locks for those whose names are not known; no name that is kept has such a character.
const UNKNOWN_LOCK: &str = "\0";
/// More user locks than this are not asked for: they stay on their connection.
const USER_LOCKS_ASKED_MAX: usize = 16;

/// Stands among the user variables for those whose names are not known; no name has such a character.
const HIDDEN_VARIABLES: &str = "\0";

/// All reasons of one session. Unpinned sessions hold no memory for this.
#[derive(Debug, Default)]
pub struct Pins {
    set: u32,
    /// Bits of [`OneUse`].
    one_use: u8,
    /// Code ran whose text is not known: a SET ROLE may have been in it.
    ran_unread: bool,
    details: Option<Box<Details>>,
}

/// The causes that are counted by name, so that a pin ends with the last of them.
#[derive(Debug, Default)]
struct Details {
    temporary_tables: BTreeSet<String>,
    user_locks: BTreeSet<String>,
    /// Whether the user locks are still held has to be asked.
    user_locks_unsure: bool,
    /// All user locks were released, and none was taken since.
    user_locks_released: bool,
    locks: Vec<LockKind>,
    handlers: BTreeSet<String>,
    prepared: BTreeMap<String, PreparedText>,
    user_variables: BTreeSet<String>,
    cursors: BTreeSet<u32>,
    long_data: BTreeSet<u32>,
}

/// The knowledge of a text that PREPARE named.
#[derive(Clone, Copy, Debug)]
struct PreparedText {
    /// The state that its execution may leave on the connection.
    leaves: Leaves,
    /// Its execution may announce characteristics of the next transaction.
    announces: bool,
    /// It is known to read only.
    reads: bool,
    /// It is a definition, perhaps of code.
    defines: bool,
}

impl Pins {
    /// No reason at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// Whether this reason holds.
    pub fn has(&self, pin: Pin) -> bool {
        self.set & (1 << pin as u8) != 0
    }

    /// The reasons that hold, as bits in the order of [`Pin::ALL`].
    pub fn bits(&self) -> u32 {
        self.set
    }

    /// The words of the reasons that hold.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + '_ {
        Pin::WORDS.iter().enumerate().filter(|(index, _)| self.set & (1 << index) != 0).map(|(_, word)| *word)
    }

    /// A reason begins or ends.
    #[inline]
    pub fn put(&mut self, pin: Pin, holds: bool) {
        if holds {
            self.set |= 1 << pin as u8;
        } else {
            self.set &= !(1 << pin as u8);
        }
    }

    /// State of one use waits, or was used up.
    pub fn one_use(&mut self, which: OneUse, waits: bool) {
        if waits {
            self.one_use |= which as u8;
        } else {
            self.one_use &= !(which as u8);
        }
        self.put(Pin::NextStatement, self.one_use != 0);
    }

    /// Whether this state of one use waits.
    pub fn awaits_use(&self, which: OneUse) -> bool {
        self.one_use & which as u8 != 0
    }

    /// Everything that was pinned is gone: the session was reset.
    pub fn clear(&mut self) {
        *self = Pins::default();
    }

    /// Code ran whose text is not known, and may have changed anything.
    pub fn ran_unread(&mut self) {
        self.put(Pin::Opaque, true);
        self.ran_unread = true;
    }

    /// Whether the connection may have another role than after its login.
    #[must_use]
    pub fn may_have_role(&self) -> bool {
        self.has(Pin::Role) || self.ran_unread
    }

    /// A cursor was opened or closed.
    pub fn cursor(&mut self, statement: u32, open: bool) {
        self.count(Pin::Cursor, |details| insert_or_remove(&mut details.cursors, statement, open));
    }

    /// Long data was sent for a statement, or was used up.
    pub fn long_data(&mut self, statement: u32, sent: bool) {
        self.count(Pin::LongData, |details| insert_or_remove(&mut details.long_data, statement, sent));
    }

    /// The user variables whose values are not known here.
    pub fn user_variables(&self) -> Vec<String> {
        let names = self.details.iter().flat_map(|details| &details.user_variables);
        names.filter(|name| *name != HIDDEN_VARIABLES).cloned().collect()
    }

    /// User variables may have been set whose very names are not known here, or have become known.
    pub fn hidden_user_variables(&mut self, hidden: bool) {
        self.count(Pin::UserVariable, |details| {
            insert_or_remove(&mut details.user_variables, HIDDEN_VARIABLES.into(), hidden)
        });
    }

    /// Whether only the server knows this user variable.
    pub fn is_user_variable_unknown(&self, name: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.user_variables.contains(name))
    }

    /// Whether the execution of a text that was prepared by this name may announce characteristics of the next transaction.
    pub fn text_may_announce(&self, name: &str) -> bool {
        let text = self.details.as_ref().and_then(|details| details.prepared.get(name));
        text.is_none_or(|text| text.announces)
    }

    /// Whether the text that was prepared by this name is known to read only.
    pub fn text_reads(&self, name: &str) -> bool {
        self.details.as_ref().and_then(|details| details.prepared.get(name)).is_some_and(|text| text.reads)
    }

    /// Whether the text that was prepared by this name is a definition.
    pub fn text_defines(&self, name: &str) -> bool {
        self.details.as_ref().and_then(|details| details.prepared.get(name)).is_some_and(|text| text.defines)
    }

    /// Whether a text was prepared whose execution may announce them.
    pub fn some_text_may_announce(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.prepared.values().any(|text| text.announces))
    }

    /// Whether user variables may have been set whose very names are not known here.
    pub fn has_hidden_user_variables(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.user_variables.contains(HIDDEN_VARIABLES))
    }

    /// The session has no user variables any more.
    pub fn no_user_variables(&mut self) {
        self.count(Pin::UserVariable, |details| {
            details.user_variables.clear();
            true
        });
    }

    /// A user variable's value became known.
    pub fn user_variable_known(&mut self, name: &str) {
        self.count(Pin::UserVariable, |details| {
            details.user_variables.remove(name);
            details.user_variables.is_empty()
        });
    }

    /// The user locks that may have been released, or not taken at all: the server knows. `None` when nothing is unsure, or
    /// asking cannot end the pin.
    pub fn unsure_user_locks(&self) -> Option<UnsureLocks> {
        let details = self.details.as_ref().filter(|details| details.user_locks_unsure)?;
        let nameless = details.user_locks.contains(UNKNOWN_LOCK);
        let asks = details.user_locks_released || !nameless && details.user_locks.len() <= USER_LOCKS_ASKED_MAX;
        asks.then(|| match details.user_locks_released {
            true => UnsureLocks::Released,
            false => UnsureLocks::Named(details.user_locks.iter().cloned().collect()),
        })
    }

    /// The server has reported which user locks are held.
    pub fn user_locks_are(&mut self, held: &[String]) {
        self.count(Pin::UserLock, |details| {
            (details.user_locks_unsure, details.user_locks_released) = (false, false);
            details.user_locks = held.iter().cloned().collect();
            details.user_locks.is_empty()
        });
    }

    /// Whether this statement has long data on the connection.
    pub fn has_long_data(&self, statement: u32) -> bool {
        self.details.as_ref().is_some_and(|details| details.long_data.contains(&statement))
    }

    /// Whether this statement has a cursor on the connection.
    pub fn has_cursor(&self, statement: u32) -> bool {
        self.details.as_ref().is_some_and(|details| details.cursors.contains(&statement))
    }

    /// Changes the causes of `pin`; `change` says whether none is left.
    fn count(&mut self, pin: Pin, change: impl FnOnce(&mut Details) -> bool) {
        let none_left = change(self.details.get_or_insert_default());
        self.put(pin, !none_left);
        if self.set == 0 {
            self.details = None;
        }
    }
}

/// Which user locks the session may hold no more.
#[derive(Debug, PartialEq, Eq)]
pub enum UnsureLocks {
    /// Some of these, which are all.
    Named(Vec<String>),
    /// All of them.
    Released,
}

/// Gives whether the set is empty afterwards.
fn insert_or_remove<T: Ord>(set: &mut BTreeSet<T>, value: T, insert: bool) -> bool {
    if insert {
        set.insert(value);
    } else {
        set.remove(&value);
    }
    set.is_empty()
}

#[cfg(test)]
mod tests {
    use sql::{Effect, Value};

    use super::*;

    #[test]
    fn a_pin_ends_with_the_last_of_its_causes() {
        let mut pins = Pins::default();
        pins.note(&Effect::CreateTemporaryTable("a".into()), Some("shop"), true);
        pins.note(&Effect::CreateTemporaryTable("other.B".into()), Some("shop"), true);
        assert_eq!(pins.words().collect::<Vec<_>>(), ["temporary_table"]);
        pins.note(&Effect::DropTable { names: vec!["shop.a".into()], temporary: true }, None, true);
        pins.note(&Effect::DropTable { names: vec!["other.b".into()], temporary: true }, None, true);
        assert!(pins.has(Pin::TemporaryTable), "names that differ in case may be two tables");
        pins.note(&Effect::DropTable { names: vec!["`B`".into()], temporary: false }, Some("other"), true);
        assert!(pins.is_empty() && pins.details.is_none());
    }

    #[test]
    fn what_failed_pins_only_where_it_may_have_happened_all_the_same() {
        let mut pins = Pins::default();
        pins.note(&Effect::CreateTemporaryTable("a".into()), None, false);
        pins.note(&Effect::LockTables(LockKind::Tables), None, false);
        assert!(pins.is_empty());
        pins.note(&Effect::UserVariable { name: "x".into(), value: Value::Unknown }, None, false);
        pins.note(&Effect::TakeUserLock(None), None, false);
        assert_eq!(pins.words().collect::<Vec<_>>(), ["user_lock", "user_variable"]);
        pins.note(&Effect::UserVariable { name: "x".into(), value: Value::Literal("1".into()) }, None, true);
        pins.note(&Effect::ReleaseAllUserLocks { surely: true }, None, true);
        assert_eq!(pins.unsure_user_locks(), Some(UnsureLocks::Released));
        pins.user_locks_are(&[]);
        assert!(pins.is_empty());
    }

    #[test]
    fn state_of_one_use_waits_until_all_of_it_is_used_up() {
        let mut pins = Pins::default();
        pins.one_use(OneUse::Characteristics, true);
        pins.note(&Effect::Variable { name: "insert_id".into(), value: Value::Literal("7".into()) }, None, true);
        pins.one_use(OneUse::Characteristics, false);
        assert!(pins.has(Pin::NextStatement) && !pins.awaits_use(OneUse::Characteristics));
        pins.one_use(OneUse::InsertId, false);
        assert!(pins.is_empty());
    }

    #[test]
    fn a_user_lock_is_held_until_the_server_says_that_it_is_not() {
        let mut pins = Pins::default();
        let take = |name: &str| Effect::TakeUserLock(Some(name.into()));
        pins.note(&take("a"), None, true);
        pins.note(&take("a"), None, true);
        pins.note(&take("b"), None, true);
        assert_eq!(pins.unsure_user_locks(), Some(UnsureLocks::Named(vec!["a".into(), "b".into()])));
        pins.user_locks_are(&["a".into()]);
        assert_eq!(pins.unsure_user_locks(), None);
        pins.note(&Effect::ReleaseUserLock(Some("a".into())), None, true);
        assert!(pins.has(Pin::UserLock), "it may have been taken twice");
        pins.user_locks_are(&["a".into()]);
        pins.note(&Effect::Leaves(Leaves::USER_LOCKS), None, true);
        pins.note(&Effect::ReleaseAllUserLocks { surely: false }, None, true);
        assert_eq!(pins.unsure_user_locks(), None, "one has no name that could be asked for");
    }

    #[test]
    fn locks_of_each_kind_have_their_own_end() {
        let mut pins = Pins::default();
        pins.note(&Effect::LockTables(LockKind::Instance), None, true);
        pins.note(&Effect::LockTables(LockKind::Tables), None, true);
        pins.note(&Effect::UnlockTables(LockKind::Tables), None, true);
        assert!(pins.has(Pin::LockTables));
        pins.note(&Effect::UnlockTables(LockKind::Instance), None, true);
        assert!(pins.is_empty());
    }

    #[test]
    fn what_a_prepared_text_leaves_outlives_it() {
        let mut pins = Pins::default();
        let (name, leaves) = ("s".to_owned(), Leaves::SEQUENCES);
        pins.note(
            &Effect::PrepareText {
                name: name.clone(),
                text: None,
                leaves,
                announces: false,
                reads: true,
                defines: false,
            },
            None,
            true,
        );
        assert!(!pins.text_may_announce(&name) && pins.text_may_announce("other"));
        assert!(pins.text_reads(&name) && !pins.text_reads("other"));
        pins.note(&Effect::ExecuteText { name: name.clone() }, None, true);
        pins.note(&Effect::DeallocateText { name }, None, true);
        assert_eq!(pins.words().collect::<Vec<_>>(), ["sequence"]);
    }

    #[test]
    fn cursors_and_long_data_are_counted_per_statement() {
        let mut pins = Pins::default();
        pins.cursor(1, true);
        pins.cursor(2, true);
        pins.long_data(1, true);
        pins.cursor(1, false);
        assert!(pins.has(Pin::Cursor) && pins.has_long_data(1) && !pins.has_cursor(1));
        pins.cursor(2, false);
        pins.long_data(1, false);
        assert!(pins.is_empty());
    }

    #[test]
    fn every_pin_has_a_word() {
        assert_eq!(Pin::ALL.len(), Pin::WORDS.len());
        for (index, pin) in Pin::ALL.iter().enumerate() {
            assert_eq!(*pin as usize, index);
        }
    }
}
