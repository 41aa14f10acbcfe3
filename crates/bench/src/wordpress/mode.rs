//! The ways to the database that take turns.

use lab::{REPL_PASSWORD, REPL_USER};

use super::Plan;
use crate::contender::{Build, Kind, Running, Setup};
use crate::watch::KEY;
use crate::world::{DATABASE, World};

/// How old an answer may be.
const TTL_MS: u32 = 60_000;

/// A way from PHP to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Without Sqluice.
    Direct,
    /// Through Sqluice, without its cache.
    Through,
    /// All of the blog's statements may be cached for a while.
    Ttl,
    /// The same, and what is written around Sqluice ends answers, too.
    Follow,
}

impl Mode {
    pub(super) const ALL: [Mode; 4] = [Mode::Direct, Mode::Through, Mode::Ttl, Mode::Follow];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Through => "through",
            Mode::Ttl => "cache, ttl",
            Mode::Follow => "cache, follow",
        }
    }

    pub(super) fn caches(self) -> bool {
        self.rule().is_some()
    }

    /// The rule of the cache.
    fn rule(self) -> Option<String> {
        let rule = format!("[[rule]]\nname = \"blog\"\nschema = \"{DATABASE}\"\ncache = \"on\"\n");
        match self {
            Mode::Direct | Mode::Through => None,
            Mode::Ttl => Some(format!("{rule}cache_ttl_ms = {TTL_MS}\n")),
            Mode::Follow => Some(format!(
                "{rule}cache_freshness = \"follow\"\n\
                 [cluster.main.replication]\nuser = \"{REPL_USER}\"\npassword = \"{REPL_PASSWORD}\"\n"
            )),
        }
    }

    /// Starts Sqluice, where this way leads through it.
    ///
    /// # Errors
    /// It does not serve.
    pub(super) fn start(self, plan: &Plan, world: &World) -> anyhow::Result<Option<Running>> {
        if self == Mode::Direct {
            return Ok(None);
        }
        let setup = Setup {
            workers: plan.workers,
            server_connections: None,
            tls: false,
            files: plan.files,
            rules: 0,
            cache: None,
            more: self.rule().unwrap_or_default(),
            can_be_watched: false,
        };
        let mut build: Build = plan.build.clone();
        build.settings.push(("admin.key".to_owned(), format!("\"{KEY}\"")));
        Running::start(&Kind::Sqluice(build), world, &setup).map(Some)
    }
}
