//! `[cache.tier]`

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, count, live, millis, seconds, tls};
use crate::ServerTlsMode;

/// `[cache.tier]`
pub static TIER: Section = Section {
    key: "tier",
    form: Form::Single,
    doc: "A Valkey or Redis server in which several Sqluice processes find each other's answers, and through which they hear of each other's \
          writes (docs/guides/cache-tier.md). All Sqluice processes in front of the same servers name the same one. All of this takes effect with a restart. At most one of `password`, \
          `password_file` and `password_env` is given.",
    settings: &[
        &ADDRESS,
        &USER,
        &PASSWORD,
        &PASSWORD_FILE,
        &PASSWORD_ENV,
        &DATABASE,
        &PREFIX,
        &NAME,
        &LEASE,
        &TIMEOUT,
        &CONNECT_TIMEOUT,
        &FORGET,
        &TRUST,
    ],
    sections: &[&TIER_TLS],
};

/// `address`
pub static ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: false },
    "Where it listens: host and port, or the path of a socket. Without it there is no shared tier. It is one server, Valkey or Redis 5 or later, \
     no node of a cluster.",
)
.example("\"10.0.0.9:6379\"")
.restart();
/// `user`
pub static USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 128 },
    "The ACL user; without it the password is that of the user `default`. It may use all keys that begin with `prefix`, and run `INFO`, `TIME`, \
     `SCRIPT LOAD`, `EVALSHA` and commands for hashes, sorted sets and strings.",
)
.example("\"sqluice\"")
.restart();
/// `password`
pub static PASSWORD: Setting = live("password", Kind::Secret, "The password itself.").example("\"…\"").restart();
/// `database`
pub static DATABASE: Setting = count("database", 0, 0, 1_000_000, "The number of the database there.").restart();
/// `prefix`
pub static PREFIX: Setting = live(
    "prefix",
    Kind::Text { default: Some("sqluice"), max: 128 },
    "What all keys begin with. Groups of Sqluice processes that share a tier but no servers have different ones: whoever has the same prefix \
     and the same names of clusters shares answers.",
)
.restart();
/// `name`
pub static NAME: Setting = live(
    "name",
    Kind::Text { default: None, max: 128 },
    "The name of this process among the members. Give one if it stays the same over restarts **and no other process has it**: then a process \
     that died is replaced as soon as it is back, and nobody waits for `forget_s`. Without it each process has a new name.",
)
.example("\"proxy-1\"")
.restart();
/// `lease_ms`
pub static LEASE: Setting = millis(
    "lease_ms",
    1_000,
    200,
    4_000,
    "How long the others may count on this process after its last word, which it gives four times as often. When the tier is lost, a write \
     waits so long at most; when a process is lost, the others ask servers from then on.",
)
.restart();
/// `timeout_ms`
pub static TIMEOUT: Setting = millis(
    "timeout_ms",
    20,
    1,
    150,
    "A statement waits so long at most for the tier's answer; then a server answers it, and nobody asks the tier until it has caught up.",
)
.restart();
/// `connect_timeout_ms`
pub static CONNECT_TIMEOUT: Setting = millis(
    "connect_timeout_ms",
    1_000,
    10,
    60_000,
    "Connecting and logging in may take so long. No statement waits for that.",
)
.restart();
/// `forget_s`
pub static FORGET: Setting = seconds(
    "forget_s",
    30,
    5,
    86_400,
    "A member that has said nothing for so long is not waited for any more; until then servers answer. What it writes after that without \
     reaching the tier is seen through the others when `cache_ttl_ms` is over.",
)
.restart();
/// `trust_ms`
pub static TRUST: Setting = millis(
    "trust_ms",
    0,
    0,
    60_000,
    "For so long after the tier has said that an answer in a process's own memory is good, that process gives it without asking again. What others \
     write is seen so much later at most; what was written through the same process is seen at once, as ever.",
)
.restart();

/// `tls` of the tier
pub static TIER_TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS towards the tier.",
    settings: &tls::settings(&TIER_TLS_MODE),
    sections: &[],
};

/// `mode` of the tier's `tls`
pub static TIER_TLS_MODE: Setting = live(
    "mode",
    Kind::Choice {
        default: Some(ServerTlsMode::Disabled.word()),
        words: &[tls::DISABLED, tls::REQUIRED, tls::VERIFY_CA, tls::VERIFY_IDENTITY],
    },
    "Whether the connection to the tier is encrypted, and how strictly its certificate is checked.",
)
.restart();
