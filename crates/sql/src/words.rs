//! Keywords and built-in functions, found by a hash table that is built at compile time.

mod table;
#[cfg(test)]
mod tests;

use crate::dialect::{Dialect, Family};
use crate::hash::{ends, word_hash};
use crate::lexer::is_identifier;
use bitflags::bitflags;
use table::WORDS;

bitflags! {
    /// The possible meanings of a word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flags: u8 {
        /// A built-in function, by name or by grammar.
        const FUNCTION = 1;
        /// A function only when `(` follows at once, unless IGNORE_SPACE is set.
        const ADJACENT = 1 << 1;
        /// May stand before `(` without being a call: a reserved word that the grammar has there.
        const BEFORE_PAREN = 1 << 2;
        /// A data type with a length that is not reserved: no call right after a name.
        const TYPE = 1 << 3;
        /// Written in upper case by digests: reserved words, and others that are rarely names.
        const KEYWORD = 1 << 4;
    }
}

/// The words that the classifier tells apart. [`W::Other`] is any other known word, [`W::None`] is no known word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum W {
    None,
    Other,
    Aggregate,
    All,
    Alter,
    Analyse,
    Analyze,
    As,
    Authors,
    Backup,
    Begin,
    Binlog,
    Cache,
    Call,
    Case,
    Chain,
    Change,
    Char,
    Character,
    Charset,
    Check,
    Checksum,
    Clone,
    Close,
    Collate,
    Collation,
    Columns,
    Commit,
    Connection,
    ConnectionId,
    Contributors,
    Count,
    Create,
    Cycle,
    Database,
    Databases,
    Deallocate,
    Default,
    Definer,
    Delayed,
    Delete,
    Desc,
    Describe,
    Distinct,
    Distinctrow,
    Do,
    Drop,
    Else,
    End,
    Engines,
    Errors,
    Event,
    Events,
    Except,
    Execute,
    Exists,
    Explain,
    Export,
    Extended,
    Fetch,
    Fields,
    Flush,
    For,
    Format,
    FoundRows,
    From,
    Full,
    Function,
    Get,
    GetLock,
    Global,
    Grant,
    Grants,
    Group,
    Handler,
    Hard,
    Having,
    Help,
    HighPriority,
    Id,
    If,
    Ignore,
    Immediate,
    Import,
    In,
    Index,
    Indexes,
    Insert,
    Install,
    Instance,
    Intersect,
    Into,
    Is,
    IsFreeLock,
    IsUsedLock,
    Isolation,
    Keys,
    Kill,
    LastInsertId,
    Lastval,
    Less,
    Level,
    Limit,
    Load,
    LoadFile,
    Local,
    Lock,
    Loop,
    LowPriority,
    Names,
    Next,
    Nextval,
    No,
    NoWriteToBinlog,
    Not,
    Offset,
    On,
    Only,
    Open,
    Optimize,
    Or,
    Order,
    Package,
    Partition,
    Partitions,
    Password,
    Prepare,
    Previous,
    Privileges,
    Procedure,
    Processlist,
    Profile,
    Profiles,
    PsCurrentThreadId,
    Purge,
    Query,
    Read,
    Recursive,
    Release,
    ReleaseAllLocks,
    ReleaseLock,
    Rename,
    Repair,
    Repeat,
    Replace,
    Reset,
    Resignal,
    Resource,
    Restart,
    Restrict,
    Returning,
    Revoke,
    Role,
    Rollback,
    Row,
    RowCount,
    Savepoint,
    Schema,
    Schemas,
    Select,
    Sequence,
    Server,
    ServerFunction,
    Session,
    Set,
    Setval,
    Share,
    Show,
    Shutdown,
    Signal,
    Snapshot,
    Soft,
    SqlBigResult,
    SqlBufferResult,
    SqlCache,
    SqlCalcFoundRows,
    SqlNoCache,
    SqlSmallResult,
    Start,
    Statement,
    Status,
    Stop,
    Storage,
    StraightJoin,
    Table,
    Tables,
    Tablespace,
    Temporary,
    Then,
    To,
    Transaction,
    Trigger,
    Triggers,
    Truncate,
    Uninstall,
    Union,
    Unlock,
    Update,
    Use,
    User,
    Using,
    Value,
    Values,
    Variables,
    View,
    Warnings,
    Where,
    While,
    Window,
    With,
    Work,
    Write,
    Xa,
}

/// The known facts of a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// In lower case.
    pub(crate) text: &'static str,
    /// Of the text, for digests.
    pub(crate) hash: u64,
    /// [`key`] of the text.
    key: Key,
    pub(crate) word: W,
    pub(crate) flags: Flags,
    since_mariadb: u32,
    since_mysql: u32,
}

impl Entry {
    pub(crate) const NONE: Entry = Entry {
        text: "",
        hash: 0,
        key: key(b"", (0, 0)),
        word: W::None,
        flags: Flags::empty(),
        since_mariadb: 0,
        since_mysql: 0,
    };

    /// It stands for a value.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.text, "null" | "true" | "false" | "default")
    }

    /// Whether a server of this dialect has the word built in. Where it has not, a stored function may bear the name.
    pub(crate) fn is_built_in(&self, dialect: &Dialect) -> bool {
        let since = match dialect.family {
            Family::MariaDb => self.since_mariadb,
            Family::MySql => self.since_mysql,
        };
        dialect.version >= since
    }
}

const SLOTS: usize = 4096;
const LENGTH_MAX: usize = 40;

static ENTRIES: [Entry; WORDS.len()] = entries();
/// Index into [`ENTRIES`] plus one; zero is free. Collisions go to the next slot.
static TABLE: [u16; SLOTS] = slots();

const fn entries() -> [Entry; WORDS.len()] {
    let mut entries = [Entry::NONE; WORDS.len()];
    let mut index = 0;
    while index < WORDS.len() {
        let (text, word, flags, since_mariadb, since_mysql) = WORDS[index];
        assert!(text.len() <= LENGTH_MAX);
        let (key, flags) = (key_of(text), Flags::from_bits_truncate(flags));
        let hash = word_hash(text);
        entries[index] = Entry { text, hash, key, word, flags, since_mariadb, since_mysql };
        index += 1;
    }
    entries
}

const fn slots() -> [u16; SLOTS] {
    let mut slots = [0u16; SLOTS];
    let mut index = 0;
    while index < WORDS.len() {
        let mut slot = slot(key_of(WORDS[index].0));
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u16 + 1;
        index += 1;
    }
    slots
}

/// A word's first eight bytes and its last eight, case folded, and its length: all of a word of up to [`KEY_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    first: u64,
    last: u64,
    length: usize,
}

/// Bytes that a [`Key`] covers.
const KEY_BYTES: usize = 16;

/// Folds case by setting a bit. Among the bytes of bare words that makes only letters of either case equal: `_` becomes DEL,
/// which no bare word holds.
#[inline]
const fn key(word: &[u8], (first, last): (u64, u64)) -> Key {
    const FOLD: u64 = 0x2020_2020_2020_2020;
    Key { first: first | FOLD, last: last | FOLD, length: word.len() }
}

const fn key_of(text: &str) -> Key {
    key(text.as_bytes(), ends(text.as_bytes()))
}

/// Where the search for a key begins.
#[inline]
const fn slot(key: Key) -> usize {
    let mixed = (key.first ^ key.last.rotate_left(29)).wrapping_add(key.length as u64);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// Finds a bare word, in any case; [`Entry::NONE`] when it is not known.
#[inline(never)]
pub(crate) fn find(word: &[u8]) -> &'static Entry {
    let (first, last) = ends(word);
    find_by_ends(word, first, last)
}

/// The same for a word whose [`ends`] are known.
#[inline(always)]
pub(crate) fn find_by_ends(word: &[u8], first: u64, last: u64) -> &'static Entry {
    let key = key(word, (first, last));
    let mut slot = slot(key);
    while let Some(index) = TABLE[slot].checked_sub(1) {
        let entry = &ENTRIES[index as usize];
        if entry.key == key && (key.length <= KEY_BYTES || entry.text.as_bytes().eq_ignore_ascii_case(word)) {
            return entry;
        }
        slot = (slot + 1) % SLOTS;
    }
    &Entry::NONE
}

/// Finds a name that stood in quotes and so may hold any byte.
pub(crate) fn find_quoted(name: &[u8]) -> &'static Entry {
    if name.iter().all(|&byte| is_identifier(byte)) { find(name) } else { &Entry::NONE }
}
