//! `[cluster.NAME.promotion]` and `[cluster.NAME.replication]`.

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, Word, count, live, millis, seconds};
use crate::{Lease, PromotionRule, ReplicationTls, Unwritable};

/// `promotion` of a cluster
pub static PROMOTION: Section = Section {
    key: "promotion",
    form: Form::Single,
    doc: "Settings of failover and switchover: the choice of the new primary, the steps, and the old primary.",
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
    "After a promotion Sqluice promotes no server automatically for this time, unless an operator acknowledges. \
     Commands ignore it.",
);
/// `attempts_max`
pub static ATTEMPTS_MAX: Setting = count(
    "attempts_max",
    5,
    1,
    1_000,
    "After this number of failed attempts in a row Sqluice tries nothing until an operator acknowledges.",
);
/// `drain_ms`
pub static DRAIN: Setting = millis(
    "drain_ms",
    30_000,
    100,
    3_600_000,
    "Longest wait for a server to apply the data that it has received, before its promotion.",
);
/// `in_flight_ms`
pub static IN_FLIGHT: Setting = millis(
    "in_flight_ms",
    1_000,
    0,
    600_000,
    "Longest wait of a switchover for running statements and open transactions. Sqluice interrupts the rest.",
);
/// `look_timeout_ms`
pub static LOOK_TIMEOUT: Setting = millis(
    "look_timeout_ms",
    500,
    50,
    60_000,
    "Time limit of the last check of each server before Sqluice acts. A dead primary without a reply takes all of it.",
);
/// `step_timeout_ms`
pub static STEP_TIMEOUT: Setting = millis("step_timeout_ms", 2_000, 100, 600_000, "Time limit of every other step.");
/// `max_lag_ms` of the promotion
pub static PROMOTION_MAX_LAG: Setting = millis(
    "max_lag_ms",
    30_000,
    100,
    86_400_000,
    "Sqluice does not promote a server whose lag was longer than this when the primary was lost.",
);
/// `preferred_within_s`
pub static PREFERRED_WITHIN: Setting = seconds(
    "preferred_within_s",
    60,
    0,
    86_400,
    "For this time after an automatic failover, Sqluice moves the role by a switchover to a server with a better \
     `promotion` rule: one that took part and has caught up. 0: the role stays.",
);
/// `semi_sync_required`
pub static SEMI_SYNC_REQUIRED: Setting = live(
    "semi_sync_required",
    Kind::Flag { default: false },
    "Sqluice promotes automatically only with proof that no confirmed write is lost: semi-synchronous replication \
     was on and had not fallen back, and Sqluice reaches enough of the replicas that acknowledge.",
);
/// `unwritable`
pub static UNWRITABLE: Setting = live(
    "unwritable",
    Kind::Choice {
        default: Some(Unwritable::Advise.word()),
        words: &[
            Word::new(Unwritable::Advise.word(), "it stays the primary, and the diagnosis names the problem"),
            Word::new(
                Unwritable::Failover.word(),
                "with failover = \"auto\" and semi_sync_required, Sqluice replaces it after ten seconds without a \
                 write",
            ),
        ],
    },
    "The reaction to a primary that replies and cannot write, because its disk is full or hangs. An overloaded \
     server, a lock or a missing acknowledgement is not such a case.",
);
/// `majority_required`
pub static MAJORITY_REQUIRED: Setting = live(
    "majority_required",
    Kind::Flag { default: true },
    "Sqluice promotes automatically only while it reaches more than half of all servers; of two servers one is enough.",
);
/// `rejoin`
pub static REJOIN: Setting = live(
    "rejoin",
    Kind::Flag { default: true },
    "With failover = \"auto\", Sqluice attaches a server that comes back as a replica, if the server has no data \
     that the primary lacks.",
);
/// `events`
pub static EVENTS: Setting = live(
    "events",
    Kind::Flag { default: true },
    "Events of the servers move with the primary: Sqluice disables those that ran on the old one and enables them on \
     the new one. It needs the privilege EVENT and the one to name any definer. Without them a promotion continues, \
     and the journal has a note.",
);
/// `event_scheduler`
pub static EVENT_SCHEDULER: Setting = live(
    "event_scheduler",
    Kind::Flag { default: true },
    "With events = true: Sqluice switches `event_scheduler` on on a new primary if it was on on the old one (`SET \
     GLOBAL`, which needs SUPER on MariaDB). If it cannot, events do not run, and the journal has a note.",
);
/// `lease`
pub static LEASE: Setting = live(
    "lease",
    Kind::Choice {
        default: Some(Lease::Off.word()),
        words: &[
            Word::new(Lease::Off.word(), "this is the only Sqluice process that changes the cluster"),
            Word::new(
                Lease::Majority.word(),
                "the process that holds locks on more than half of all servers acts; of two servers, on both",
            ),
            Word::new(Lease::Etcd.word(), "the process that holds a key in etcd acts"),
        ],
    },
    "The agreement of several Sqluice processes in front of the same servers on the one that acts.",
);
/// `lease_s`
pub static LEASE_TIME: Setting = seconds(
    "lease_s",
    5,
    1,
    600,
    "Time for which a lease is valid after its last renewal. The holder renews it with every probe interval. etcd \
     accepts no less than one and a half of its election timeouts: two seconds by default.",
);
/// `hook_before`
pub static HOOK_BEFORE: Setting = live(
    "hook_before",
    Kind::Command,
    "A program and its arguments. Sqluice runs it, without a shell, before it changes anything. If it does not end \
     with 0 in time, Sqluice changes nothing. docs/guides/failover.md lists its environment variables.",
);
/// `hook_after`
pub static HOOK_AFTER: Setting = live(
    "hook_after",
    Kind::Command,
    "The same, run after the new primary takes writes. If it fails, Sqluice logs that and undoes nothing.",
);
/// `hook_timeout_ms`
pub static HOOK_TIMEOUT: Setting = millis(
    "hook_timeout_ms",
    10_000,
    100,
    600_000,
    "Sqluice kills a hook that runs for longer; the hook has then \
         failed.",
);
/// `journal`
pub static JOURNAL: Setting = live(
    "journal",
    Kind::Path,
    "A file to which Sqluice appends each decision and step as a line of JSON, on the disk before the next one. \
     Without it Sqluice keeps the last 1,000 in memory. Beside it, with `.state` after its name, is the state that \
     survives a restart: cool-down, epoch, maintenance and drain.",
)
.example("\"/var/lib/sqluice/main.journal\"");

/// `replication` of a cluster
pub static REPLICATION: Section = Section {
    key: "replication",
    form: Form::Single,
    doc: "The login of a server at its source if it has no replication channel yet, such as an old primary that \
         becomes a replica. A server with a channel keeps its user, password and TLS. Give at most one of \
         `password`, `password_file` and `password_env`.",
    settings: &[&REPLICATION_USER, &REPLICATION_PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &REPLICATION_TLS],
    sections: &[],
};

/// `user` of the replication
pub static REPLICATION_USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 96 },
    "A user with the privilege REPLICATION SLAVE. Without it Sqluice cannot attach a server that has no channel.",
)
.example("\"repl\"");
/// `password` of the replication
pub static REPLICATION_PASSWORD: Setting =
    live("password", Kind::Secret, "The password. Servers accept at most 32 characters.").example("\"…\"");
/// `tls` of the replication
pub static REPLICATION_TLS: Setting = live(
    "tls",
    Kind::Choice {
        default: Some(ReplicationTls::Auto.word()),
        words: &[
            Word::new(ReplicationTls::Auto.word(), "if all servers of the cluster offer it"),
            Word::new(ReplicationTls::On.word(), "always"),
            Word::new(ReplicationTls::Off.word(), "never"),
        ],
    },
    "Encryption of the connection to the source. The servers do not check the certificate: that needs files on them.",
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
    "Whether the server may become the primary. Data comes first: Sqluice promotes the server that has received most.",
);
