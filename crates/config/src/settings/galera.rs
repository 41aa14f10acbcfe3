//! `galera` of a cluster.

use super::{Form, Kind, Section, Setting, Word, live};
use crate::{Donors, Writers};

/// `galera`
pub static GALERA: Section = Section {
    key: "galera",
    form: Form::Single,
    doc: "Galera groups and Percona XtraDB Cluster (`kind = \"galera\"`); see [Galera](../guides/galera.md).",
    settings: &[&WRITERS, &DONORS],
    sections: &[],
};

/// `writers`
pub static WRITERS: Setting = live(
    "writers",
    Kind::Choice {
        default: Some(Writers::One.word()),
        words: &[
            Word::new(
                Writers::One.word(),
                "one: the first by `promotion` and name. After its loss another one takes over and stays the writer, \
                 even if the first returns",
            ),
            Word::new(Writers::All.word(), "all that are synced and writable; each session stays with one of them"),
        ],
    },
    "The members that take writes.",
);
/// `donors`
pub static DONORS: Setting = live(
    "donors",
    Kind::Choice {
        default: Some(Donors::Avoid.word()),
        words: &[
            Word::new(Donors::Avoid.word(), "they serve only if no synced member of their segment does"),
            Word::new(Donors::Use.word(), "they serve like all others"),
        ],
    },
    "The use of members that are donors or desynced, and so may lag.",
);
