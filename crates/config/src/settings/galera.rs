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
                "one, the first by `promotion` and name; when it is lost another one takes over and stays, whoever returns",
            ),
            Word::new(Writers::All.word(), "all that are synced and writable; each session keeps to one of them"),
        ],
    },
    "Which members take writes.",
);
/// `donors`
pub static DONORS: Setting = live(
    "donors",
    Kind::Choice {
        default: Some(Donors::Avoid.word()),
        words: &[
            Word::new(Donors::Avoid.word(), "they serve only while no synced member of their segment does"),
            Word::new(Donors::Use.word(), "they serve like any other"),
        ],
    },
    "What members do that hand their state to another one or are desynced, and so may fall behind.",
);
