//! `[cluster.NAME.promotion]` and `[cluster.NAME.replication]`.

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, Word, count, live, millis, seconds};
use crate::{Lease, PromotionRule, ReplicationTls, Unwritable};

/// `promotion` of a cluster
pub static PROMOTION: Section = Section {
    key: "promotion",
    form: Form::Single,
    doc: "How a new primary is chosen and made, by failover or by switchover, and what happens to the old one.",
    settings: &[
        &COOLDOWN,
        &ATTEMPTS_MAX,
        &DRAIN,
        &IN_FLIGHT,
        &LOOK_TIMEOUT,
        &STEP_TIMEOUT,
        &PROMOTION_MAX_LAG,
        &PREFERRED_WITHIN,
        &SEMI_SYNC_REQUIRED,
        &UNWRITABLE,
        &MAJORITY_REQUIRED,
        &REJOIN,
        &EVENTS,
        &EVENT_SCHEDULER,
        &LEASE,
        &LEASE_TIME,
        &HOOK_BEFORE,
        &HOOK_AFTER,
        &HOOK_TIMEOUT,
        &JOURNAL,
    ],
    sections: &[],
};

/// `cooldown_s`
pub static COOLDOWN: Setting = seconds(
    "cooldown_s",
    300,
    0,
    86_400,
    "After a promotion nothing is promoted automatically for this long, unless an operator acknowledges. Commands are not \
     bound by it.",
);
/// `attempts_max`
pub static ATTEMPTS_MAX: Setting = count(
    "attempts_max",
    5,
    1,
    1_000,
    "After so many failed attempts in a row nothing is tried again until an operator acknowledges.",
);
/// `drain_ms`
pub static DRAIN: Setting = millis(
    "drain_ms",
    30_000,
    100,
    3_600_000,
    "Longest wait for a server to apply what it has received before it is promoted.",
);
/// `in_flight_ms`
pub static IN_FLIGHT: Setting = millis(
    "in_flight_ms",
    1_000,
    0,
    600_000,
    "Longest wait at a switchover for running statements and open transactions. What is left is cut.",
);
/// `look_timeout_ms`
pub static LOOK_TIMEOUT: Setting = millis(
    "look_timeout_ms",
    500,
    50,
    60_000,
    "Time limit of the look at each server just before acting. A dead primary that does not answer costs all of it.",
);
/// `step_timeout_ms`
pub static STEP_TIMEOUT: Setting = millis("step_timeout_ms", 2_000, 100, 600_000, "Time limit of every other step.");
/// `max_lag_ms` of the promotion
pub static PROMOTION_MAX_LAG: Setting = millis(
    "max_lag_ms",
    30_000,
    100,
    86_400_000,
    "A server that was further behind when the primary was lost is not promoted.",
);
/// `preferred_within_s`
pub static PREFERRED_WITHIN: Setting = seconds(
    "preferred_within_s",
    60,
    0,
    86_400,
    "For so long after an automatic failover to the server that had the data, the role moves on by a switchover to one with a better \
     `promotion` rule that took part, once that has caught up. 0: it stays where it is.",
);
/// `semi_sync_required`
pub static SEMI_SYNC_REQUIRED: Setting = live(
    "semi_sync_required",
    Kind::Flag { default: false },
    "Promote automatically only with proof that no acknowledged write is lost: semi-synchronous replication was on, without \
     a fallback, and enough of the replicas that acknowledge are reached.",
);
/// `unwritable`
pub static UNWRITABLE: Setting = live(
    "unwritable",
    Kind::Choice {
        default: Some(Unwritable::Advise.word()),
        words: &[
            Word::new(Unwritable::Advise.word(), "it stays the primary, and the diagnosis tells what is wrong"),
            Word::new(
                Unwritable::Failover.word(),
                "with failover = \"auto\" and semi_sync_required it is replaced when nothing was written for ten seconds",
            ),
        ],
    },
    "What becomes of a primary that answers and cannot write, since its disk is full or hangs. An overloaded one, a lock and a missing \
     acknowledgement never count as that.",
);
/// `majority_required`
pub static MAJORITY_REQUIRED: Setting = live(
    "majority_required",
    Kind::Flag { default: true },
    "Promote automatically only while more than half of all servers are reached; of two servers one is enough.",
);
/// `rejoin`
pub static REJOIN: Setting = live(
    "rejoin",
    Kind::Flag { default: true },
    "With failover = \"auto\", attach a server that comes back as a replica if it has nothing that the primary lacks.",
);
/// `events`
pub static EVENTS: Setting = live(
    "events",
    Kind::Flag { default: true },
    "Events of the servers move with the primary: those that ran on the old one are disabled there and enabled on the new one. It needs the \
     right EVENT and that of naming any definer; without them a promotion goes on and the journal tells.",
);
/// `event_scheduler`
pub static EVENT_SCHEDULER: Setting = live(
    "event_scheduler",
    Kind::Flag { default: true },
    "With events = true: `event_scheduler` is switched on on a new primary if it was on on the old one (`SET GLOBAL`, which on MariaDB needs the \
     right SUPER). Where it cannot be, events do not run and the journal tells.",
);
/// `lease`
pub static LEASE: Setting = live(
    "lease",
    Kind::Choice {
        default: Some(Lease::Off.word()),
        words: &[
            Word::new(Lease::Off.word(), "this is the only Sqluice that changes the cluster"),
            Word::new(
                Lease::Majority.word(),
                "only the one acts that holds locks on more than half of all servers; of two servers that is both",
            ),
            Word::new(Lease::Etcd.word(), "only the one acts that holds a key in etcd"),
        ],
    },
    "How several Sqluice processes that watch the same servers agree on which of them acts.",
);
/// `lease_s`
pub static LEASE_TIME: Setting = seconds(
    "lease_s",
    5,
    1,
    600,
    "How long the lease lasts after its last renewal. The holder renews it with every probe interval. etcd takes no less than \
     one and a half of its election timeouts: two seconds by default.",
);
/// `hook_before`
pub static HOOK_BEFORE: Setting = live(
    "hook_before",
    Kind::Command,
    "A program and its arguments, run without a shell before anything is changed. Unless it ends with 0 in time, nothing is. \
     docs/guides/failover.md lists the environment variables that it gets.",
);
/// `hook_after`
pub static HOOK_AFTER: Setting = live(
    "hook_after",
    Kind::Command,
    "The same, run when the new primary takes writes. Its failure is told and undoes nothing.",
);
/// `hook_timeout_ms`
pub static HOOK_TIMEOUT: Setting =
    millis("hook_timeout_ms", 10_000, 100, 600_000, "A hook that runs for longer is killed and has failed.");
/// `journal`
pub static JOURNAL: Setting = live(
    "journal",
    Kind::Path,
    "A file to which each decision and step is appended as a line of JSON, on the disk before the next one. Without it the last \
     1,000 are kept in memory only. Beside it, with `.state` behind its name, is what outlives the process: cool-down, epoch, maintenance and drain.",
)
.example("\"/var/lib/sqluice/main.journal\"");

/// `replication` of a cluster
pub static REPLICATION: Section = Section {
    key: "replication",
    form: Form::Single,
    doc: "How a server logs in to its source when it has no replication channel yet, as an old primary that becomes a replica. \
          Servers that have one keep its user, password and TLS. At most one of `password`, `password_file` and `password_env` is given.",
    settings: &[&REPLICATION_USER, &REPLICATION_PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &REPLICATION_TLS],
    sections: &[],
};

/// `user` of the replication
pub static REPLICATION_USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 96 },
    "The user with the right REPLICATION SLAVE. Without it a server that has no channel cannot be attached.",
)
.example("\"repl\"");
/// `password` of the replication
pub static REPLICATION_PASSWORD: Setting =
    live("password", Kind::Secret, "The password itself. Servers take at most 32 characters.").example("\"…\"");
/// `tls` of the replication
pub static REPLICATION_TLS: Setting = live(
    "tls",
    Kind::Choice {
        default: Some(ReplicationTls::Auto.word()),
        words: &[
            Word::new(ReplicationTls::Auto.word(), "when all servers of the cluster offer it"),
            Word::new(ReplicationTls::On.word(), "always"),
            Word::new(ReplicationTls::Off.word(), "never"),
        ],
    },
    "Whether the connection to the source is encrypted. The certificate is not checked: that needs files on the servers.",
);

/// `promotion` of a server
pub static RULE: Setting = live(
    "promotion",
    Kind::Choice {
        default: Some(PromotionRule::Neutral.word()),
        words: &[
            Word::new(PromotionRule::Prefer.word(), "before others with the same data"),
            Word::new(PromotionRule::Neutral.word(), "like any other"),
            Word::new(PromotionRule::PreferNot.word(), "after others with the same data"),
            Word::new(PromotionRule::MustNot.word(), "never"),
        ],
    },
    "Whether the server may become the primary. Data comes first: the server that has received most is promoted.",
);
