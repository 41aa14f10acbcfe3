//! `etcd` of a cluster.

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, Word, live, tls};
use crate::ServerTlsMode;

/// `etcd`
pub static ETCD: Section = Section {
    key: "etcd",
    form: Form::Single,
    doc: "The etcd that keeps the lease, with `promotion.lease = \"etcd\"`; see \
         [failover](../guides/failover.md#several-sqluice-processes). Version 3.4 or later; Sqluice uses its JSON \
         gateway. Give at most one of `password`, `password_file` and `password_env`.",
    settings: &[&ENDPOINTS, &ETCD_USER, &ETCD_PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &PREFIX],
    sections: &[&ETCD_TLS],
};

/// `endpoints`
pub static ENDPOINTS: Setting = live(
    "endpoints",
    Kind::Addresses,
    "Host and port of etcd's members, without a scheme. If a member does not reply, Sqluice tries the next one.",
)
.example("[\"10.0.0.11:2379\", \"10.0.0.12:2379\", \"10.0.0.13:2379\"]");
/// `user` of etcd
pub static ETCD_USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 128 },
    "The user, if authentication is on in etcd. It needs to read and write keys below `prefix`.",
)
.example("\"sqluice\"");
/// `password` of etcd
pub static ETCD_PASSWORD: Setting = live("password", Kind::Secret, "The password.").example("\"…\"");
/// `prefix`
pub static PREFIX: Setting = live(
    "prefix",
    Kind::Text { default: Some("/sqluice"), max: 256 },
    "The beginning of the key, which is `PREFIX/CLUSTER/holder`. All Sqluice processes of a cluster need the same \
     prefix.",
);

/// `tls` of etcd
pub static ETCD_TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS between Sqluice and etcd.",
    settings: &tls::settings(&ETCD_TLS_MODE),
    sections: &[],
};

/// `mode` of etcd's `tls`
pub static ETCD_TLS_MODE: Setting = live(
    "mode",
    Kind::Choice {
        default: Some(ServerTlsMode::VerifyIdentity.word()),
        words: &[
            Word::new(ServerTlsMode::Disabled.word(), "never, for an etcd that listens on http://"),
            tls::REQUIRED,
            tls::VERIFY_CA,
            tls::VERIFY_IDENTITY,
        ],
    },
    "Encryption of connections to etcd, and the check of its certificate.",
);
