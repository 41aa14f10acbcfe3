//! `etcd` of a cluster.

use super::cluster::{PASSWORD_ENV, PASSWORD_FILE};
use super::{Form, Kind, Section, Setting, Word, live, tls};
use crate::ServerTlsMode;

/// `etcd`
pub static ETCD: Section = Section {
    key: "etcd",
    form: Form::Single,
    doc: "The etcd that keeps the lease, with `promotion.lease = \"etcd\"`; see [failover](../guides/failover.md#several-sqluice-processes). It is \
          version 3.4 or later, asked through its JSON gateway. At most one of `password`, `password_file` and `password_env` \
          is given.",
    settings: &[&ENDPOINTS, &ETCD_USER, &ETCD_PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &PREFIX],
    sections: &[&ETCD_TLS],
};

/// `endpoints`
pub static ENDPOINTS: Setting = live(
    "endpoints",
    Kind::Addresses,
    "Host and port of etcd's members, without a scheme. When one does not answer the next one is asked.",
)
.example("[\"10.0.0.11:2379\", \"10.0.0.12:2379\", \"10.0.0.13:2379\"]");
/// `user` of etcd
pub static ETCD_USER: Setting = live(
    "user",
    Kind::Text { default: None, max: 128 },
    "The user, where etcd has authentication on. It may read and write what is below `prefix`.",
)
.example("\"sqluice\"");
/// `password` of etcd
pub static ETCD_PASSWORD: Setting = live("password", Kind::Secret, "The password itself.").example("\"…\"");
/// `prefix`
pub static PREFIX: Setting = live(
    "prefix",
    Kind::Text { default: Some("/sqluice"), max: 256 },
    "What the key begins with; it is `PREFIX/CLUSTER/holder`. All Sqluice processes of a cluster have the same one.",
);

/// `tls` of etcd
pub static ETCD_TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS towards etcd.",
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
    "Whether connections to etcd are encrypted, and how strictly certificates are checked.",
);
