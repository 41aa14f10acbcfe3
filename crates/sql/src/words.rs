//! Keywords and built-in functions, found by a hash table that is built at compile time.

mod table;

use crate::statement::{Dialect, Family};
use bitflags::bitflags;
use table::WORDS;

bitflags! {
    /// What a word can be.
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

/// What is known of a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) text: &'static str,
    pub(crate) word: W,
    pub(crate) flags: Flags,
    since_mariadb: u32,
    since_mysql: u32,
}

impl Entry {
    pub(crate) const NONE: Entry =
        Entry { text: "", word: W::None, flags: Flags::empty(), since_mariadb: 0, since_mysql: 0 };

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
        entries[index] = Entry { text, word, flags: Flags::from_bits_truncate(flags), since_mariadb, since_mysql };
        index += 1;
    }
    entries
}

const fn slots() -> [u16; SLOTS] {
    let mut slots = [0u16; SLOTS];
    let mut index = 0;
    while index < WORDS.len() {
        let mut slot = hash(WORDS[index].0.as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u16 + 1;
        index += 1;
    }
    slots
}

/// Folds case by setting a bit: `_` and digits are folded too, which only costs a rare collision.
const fn hash(bytes: &[u8]) -> usize {
    let mut hash = bytes.len() as u32;
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ (bytes[index] | 0x20) as u32).wrapping_mul(0x0100_0193);
        index += 1;
    }
    ((hash >> 16) ^ hash) as usize % SLOTS
}

/// Finds a word, in any case; [`Entry::NONE`] when it is not known.
pub(crate) fn find(word: &[u8]) -> &'static Entry {
    if word.len() > LENGTH_MAX {
        return &Entry::NONE;
    }
    let mut slot = hash(word);
    while let Some(index) = TABLE[slot].checked_sub(1) {
        let entry = &ENTRIES[index as usize];
        if entry.text.as_bytes().eq_ignore_ascii_case(word) {
            return entry;
        }
        slot = (slot + 1) % SLOTS;
    }
    &Entry::NONE
}
