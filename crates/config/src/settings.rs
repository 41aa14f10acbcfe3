//! Every tunable, exactly once: key, kind, unit, default, bounds, when a change takes effect, and a sentence.
//!
//! [`ROOT`] is the tree of the file's tables. The reader takes defaults and bounds from here, `docs/reference/configuration.md`
//! and the sample that `sqluice init` writes are generated from here.

pub mod cache;
pub mod cluster;
pub mod etcd;
pub mod events;
pub mod failover;
pub mod galera;
pub mod history;
pub mod listener;
pub mod process;
pub mod replay;
pub mod rule;
pub mod tier;
pub mod tls;
pub mod user;
pub mod warm;

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// With the next reload (SIGHUP); sessions stay.
    Live,
    /// With the next start of the process.
    Restart,
}

/// The unit of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
}

/// A word that may stand in the file.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// The meaning.
    pub doc: &'static str,
}

impl Word {
    pub(crate) const fn new(word: &'static str, doc: &'static str) -> Self {
        Self { word, doc }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Whole {
        /// The unit.
        unit: Unit,
        /// Value when the key is absent.
        default: u64,
        /// Least.
        min: u64,
        /// Most.
        max: u64,
        /// The meaning of 0, if it has its own.
        zero: Option<&'static str>,
    },
    /// Bytes: a whole number, or a text like "64MiB".
    Size {
        /// Value when the key is absent.
        default: u64,
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// true or false.
    Flag {
        /// Value when the key is absent.
        default: bool,
    },
    /// One of some words.
    Choice {
        /// Value when the key is absent; none: it must be there, or its absence means something of its own.
        default: Option<&'static str>,
        /// The allowed words.
        words: &'static [Word],
    },
    /// Text.
    Text {
        /// Value when the key is absent; none: it must be there, or its absence means something of its own.
        default: Option<&'static str>,
        /// Most bytes.
        max: usize,
    },
    /// `host:port`, `[ipv6]:port` or `unix:/path`.
    Address {
        /// Whether port 0 (a free one) may stand.
        port_zero: bool,
    },
    /// A list of networks: `"10.0.0.0/8"`, `"::1"`. Empty when the key is absent.
    Networks,
    /// A list of `host:port` or `[ipv6]:port`. Empty when the key is absent.
    Addresses,
    /// A program and its arguments, as a list of texts. Empty when the key is absent.
    Command,
    /// A list of texts. Empty when the key is absent.
    Texts {
        /// Most of them.
        count: usize,
        /// Most bytes of each.
        max: usize,
    },
    /// A password, hash or the like: never shown.
    Secret,
    /// A file's path, relative to the configuration file.
    Path,
    /// The name of an environment variable.
    Variable,
}

/// One tunable.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key in its table.
    pub key: &'static str,
    /// The kind of the value.
    pub kind: Kind,
    /// When a change takes effect.
    pub apply: Apply,
    /// Whether it must be there.
    pub required: bool,
    /// The purpose.
    pub doc: &'static str,
    /// A value to show in the documentation where there is no default, as it stands in the file.
    pub example: &'static str,
}

/// How a table stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Once, as `[key]`.
    Single,
    /// It holds tables by a name that the operator chooses, as `[key.NAME]`.
    Named,
    /// Any number of times, as `[[key]]`; the order counts.
    List,
}

/// One table of the file.
#[derive(Debug)]
pub struct Section {
    /// Its key in the table above it.
    pub key: &'static str,
    /// How it stands in the file.
    pub form: Form,
    /// The purpose.
    pub doc: &'static str,
    /// Its values.
    pub settings: &'static [&'static Setting],
    /// The tables below it.
    pub sections: &'static [&'static Section],
}

/// The file.
pub static ROOT: Section = Section {
    key: "",
    form: Form::Single,
    doc: "",
    settings: &[],
    sections: &[
        &process::PROXY,
        &process::LOG,
        &process::ADMIN,
        &events::EVENTS,
        &history::HISTORY,
        &cache::CACHE,
        &cluster::CLUSTER,
        &listener::LISTENER,
        &user::USER,
        &rule::RULE,
        &warm::WARM,
    ],
};

const fn count(key: &'static str, default: u64, min: u64, max: u64, doc: &'static str) -> Setting {
    whole(key, Unit::Count, default, min, max, None, doc)
}

/// Like [`count`], where 0 has a meaning of its own besides the range from 1.
const fn limit(key: &'static str, default: u64, max: u64, zero: &'static str, doc: &'static str) -> Setting {
    whole(key, Unit::Count, default, 0, max, Some(zero), doc)
}

const fn millis(key: &'static str, default: u64, min: u64, max: u64, doc: &'static str) -> Setting {
    whole(key, Unit::Millis, default, min, max, None, doc)
}

const fn seconds(key: &'static str, default: u64, min: u64, max: u64, doc: &'static str) -> Setting {
    whole(key, Unit::Seconds, default, min, max, None, doc)
}

const fn whole(
    key: &'static str,
    unit: Unit,
    default: u64,
    min: u64,
    max: u64,
    zero: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    live(key, Kind::Whole { unit, default, min, max, zero }, doc)
}

const fn live(key: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting { key, kind, apply: Apply::Live, required: false, doc, example: "" }
}

impl Setting {
    const fn restart(mut self) -> Self {
        self.apply = Apply::Restart;
        self
    }

    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }
}
