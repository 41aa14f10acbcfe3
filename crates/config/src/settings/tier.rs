//! `[cache.tier]`

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, count, live, millis, seconds, tls};
use crate::ServerTlsMode;

/// `[cache.tier]`
pub static TIER: Section = Section {
    key: "tier",
    form: Form::Single,
    doc: "A Valkey or Redis server in which several Sqluice processes share cached results, and through which they \
         report their writes (docs/guides/cache-tier.md). All Sqluice processes in front of the same servers name \
         the same one. Changes apply after a restart. Give at most one of `password`, `password_file` and \
         `password_env`.",
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
    "The address of the shared cache: host and port, or the path of a socket. Without it there is no shared cache. \
     It is a single server, Valkey or Redis 5 or later, not a node of a cluster.",
)
.example("\"10.0.0.9:6379\"")
.restart();
/// `user`
pub static USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 128 },
    "The ACL user; without it the password is that of the user `default`. It needs all keys that begin with \
     `prefix`, and `INFO`, `TIME`, `SCRIPT LOAD`, `EVALSHA` and commands for hashes, sorted sets and strings.",
)
.example("\"sqluice\"")
.restart();
/// `password`
pub static PASSWORD: Setting = live("password", Kind::Secret, "The password.").example("\"…\"").restart();
/// `database`
pub static DATABASE: Setting = count("database", 0, 0, 1_000_000, "The number of the database.").restart();
/// `prefix`
pub static PREFIX: Setting = live(
    "prefix",
    Kind::Text { default: Some("sqluice"), max: 128 },
    "The beginning of all keys. Groups of Sqluice processes with different servers need different ones: processes \
     with the same prefix and the same cluster names share results.",
)
.restart();
/// `name`
pub static NAME: Setting = live(
    "name",
    Kind::Text { default: None, max: 128 },
    "The name of this process among the members. Set it if it stays the same over restarts **and no other process \
     has it**: a restarted process then replaces itself at once, and no member waits for `forget_s`. Without it each \
     process has a new name.",
)
.example("\"proxy-1\"")
.restart();
/// `lease_ms`
pub static LEASE: Setting = millis(
    "lease_ms",
    1_000,
    200,
    4_000,
    "Time for which the others may rely on this process after its last report; it reports four times as often. If \
     the shared cache is lost, a write waits at most this long. If a process is lost, the others use servers after \
     this time.",
)
.restart();
/// `timeout_ms`
pub static TIMEOUT: Setting = millis(
    "timeout_ms",
    20,
    1,
    150,
    "Longest wait of a statement for the shared cache. After that a server answers it, and Sqluice does not use the \
     shared cache until it has caught up.",
)
.restart();
/// `connect_timeout_ms`
pub static CONNECT_TIMEOUT: Setting = millis(
    "connect_timeout_ms",
    1_000,
    10,
    60_000,
    "Longest time for connecting and logging in. No statement waits for that.",
)
.restart();
/// `forget_s`
pub static FORGET: Setting = seconds(
    "forget_s",
    30,
    5,
    86_400,
    "The members stop waiting for a member that was silent for this time; until then servers answer. If that member \
     still writes without reaching the shared cache, the others see its writes when `cache_ttl_ms` is over.",
)
.restart();
/// `trust_ms`
pub static TRUST: Setting = millis(
    "trust_ms",
    0,
    0,
    60_000,
    "Time for which a process may use a result from its own memory again after the shared cache has confirmed it. \
     Writes of other processes are visible up to this much later. Writes of the same process are visible at once.",
)
.restart();

/// `tls` of the tier
pub static TIER_TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS between Sqluice and the shared cache.",
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
    "Encryption of the connection to the shared cache, and the check of its certificate.",
)
.restart();
