//! One routing rule, as typed values and in words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Consistency, Pipelines};
use crate::Network;

words! {
    /// The kind of statements that a rule matches.
    RuleAccess {
        /// It only reads.
        Read = "read",
        /// Anything else.
        Write = "write",
    }
}

words! {
    /// The effect of writes outside this process on cached results.
    CacheFreshness {
        /// They are given until their time is over.
        Ttl = "ttl",
        /// The servers' log tells, and ends them.
        Follow = "follow",
    }
}

words! {
    /// Whether the result cache answers.
    CacheMode {
        /// It does.
        On = "on",
        /// It only counts what it would have saved.
        Advise = "advise",
        /// It does not.
        Off = "off",
    }
}

words! {
    /// Whether a query becomes an event.
    LogMode {
        /// It does.
        On = "on",
        /// It does not.
        Off = "off",
    }
}

/// `[[rule]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name; no two rules have the same.
    pub name: Arc<str>,
    /// Whether it counts.
    pub enabled: bool,
    /// The matchers; at least one is given.
    pub matchers: Matchers,
    /// Where the statement goes.
    pub route: Option<RuleRoute>,
    /// The writes that a read is sure to see.
    pub consistency: Option<Consistency>,
    /// How far a replica may be behind the primary to take the read.
    pub max_lag: Option<Duration>,
    /// The use of the result cache.
    pub cache: Option<RuleCache>,
    /// Whether the read shares a connection with those of other sessions.
    pub pipelines: Option<Pipelines>,
    /// The statement is refused with this text.
    pub refuse: Option<Arc<str>>,
    /// Whether the query becomes an event.
    pub log: Option<RuleLog>,
}

/// `log` of a rule, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLog {
    /// Whether the query becomes an event.
    pub mode: LogMode,
    /// Of one session in so many.
    pub sample: u32,
}

/// `cache` of a rule, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCache {
    /// Whether it answers.
    pub mode: CacheMode,
    /// The way to learn of writes outside this process.
    pub freshness: CacheFreshness,
    /// How old an answer may be.
    pub ttl: Duration,
    /// How much older while a server is asked anew.
    pub stale: Duration,
    /// Users share answers.
    pub shared: bool,
    /// So do processes.
    pub tier: bool,
}

/// The conditions of a rule; `None` is anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Matchers {
    /// The listener's name.
    pub listener: Option<Arc<str>>,
    /// The cluster's name.
    pub cluster: Option<Arc<str>>,
    /// The user's name.
    pub user: Option<Arc<str>>,
    /// The session's schema.
    pub schema: Option<Arc<str>>,
    /// Where the client is.
    pub client: Option<Network>,
    /// The hash of the statement's digest.
    pub digest: Option<u64>,
    /// A regular expression for the digest's text.
    pub digest_regex: Option<Arc<str>>,
    /// A regular expression for the statement as it was sent.
    pub text_regex: Option<Arc<str>>,
    /// The effect of the statement.
    pub access: Option<RuleAccess>,
    /// A table that the statement names, as `SCHEMA.TABLE` or `TABLE`.
    pub table: Option<Arc<str>>,
    /// The comment that the statement begins with, without its marks and the space around it.
    pub comment: Option<Arc<str>>,
}

/// How many kinds of matchers there are.
pub(crate) const MATCHERS: u32 = 11;

/// Where a rule sends statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRoute {
    /// To the primary.
    Primary,
    /// Reads to replicas.
    Replica,
    /// As without a rule, and as if the split were "auto".
    Auto,
    /// Reads to the server of this name.
    Server(Arc<str>),
}

impl RuleRoute {
    /// The words that may stand, but for servers.
    pub(crate) const WORDS: [&'static str; 3] = ["primary", "replica", "auto"];

    /// Reads `primary`, `replica`, `auto` or `server:NAME`.
    pub(crate) fn parse(text: &str) -> Option<RuleRoute> {
        match text {
            "primary" => Some(RuleRoute::Primary),
            "replica" => Some(RuleRoute::Replica),
            "auto" => Some(RuleRoute::Auto),
            _ => {
                text.strip_prefix("server:").filter(|name| !name.is_empty()).map(|name| RuleRoute::Server(name.into()))
            }
        }
    }
}

impl fmt::Display for RuleRoute {
    /// As it stands in the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleRoute::Primary => f.write_str("primary"),
            RuleRoute::Replica => f.write_str("replica"),
            RuleRoute::Auto => f.write_str("auto"),
            RuleRoute::Server(name) => write!(f, "server:{name}"),
        }
    }
}

impl Matchers {
    /// Which kinds are given, one bit for each.
    pub(crate) fn given(&self) -> u32 {
        let kinds = [
            self.listener.is_some(),
            self.cluster.is_some(),
            self.user.is_some(),
            self.schema.is_some(),
            self.client.is_some(),
            self.digest.is_some(),
            self.digest_regex.is_some(),
            self.text_regex.is_some(),
            self.access.is_some(),
            self.table.is_some(),
            self.comment.is_some(),
        ];
        debug_assert_eq!(kinds.len(), MATCHERS as usize);
        kinds.iter().enumerate().map(|(bit, given)| u32::from(*given) << bit).sum()
    }

    /// Only the kinds whose bit is set.
    pub(crate) fn only(&self, bits: u32) -> Matchers {
        fn keep<T: Clone>(bits: u32, bit: u32, value: &Option<T>) -> Option<T> {
            value.clone().filter(|_| bits >> bit & 1 == 1)
        }
        Matchers {
            listener: keep(bits, 0, &self.listener),
            cluster: keep(bits, 1, &self.cluster),
            user: keep(bits, 2, &self.user),
            schema: keep(bits, 3, &self.schema),
            client: keep(bits, 4, &self.client),
            digest: keep(bits, 5, &self.digest),
            digest_regex: keep(bits, 6, &self.digest_regex),
            text_regex: keep(bits, 7, &self.text_regex),
            access: keep(bits, 8, &self.access),
            table: keep(bits, 9, &self.table),
            comment: keep(bits, 10, &self.comment),
        }
    }

    /// Each matcher in words.
    pub fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |what: &str, value: Option<&dyn fmt::Display>| {
            words.extend(value.map(|value| format!("{what} {value}")));
        };
        fn shown<T: fmt::Display>(value: &Option<T>) -> Option<&dyn fmt::Display> {
            value.as_ref().map(|value| value as &dyn fmt::Display)
        }
        say("the listener is", shown(&self.listener));
        say("the cluster is", shown(&self.cluster));
        say("the user is", shown(&self.user));
        say("the schema is", shown(&self.schema));
        say("the client is in", shown(&self.client));
        let digest = self.digest.map(|hash| format!("{hash:016x}"));
        say("the digest's hash is", shown(&digest));
        say("the digest matches", shown(&self.digest_regex));
        say("the text matches", shown(&self.text_regex));
        say("the access is", shown(&self.access));
        say("it names the table", shown(&self.table));
        say("its first comment is", shown(&self.comment));
        words
    }
}

impl Rule {
    /// Whether it decides more than the log. One that does not leaves all the rest to the rules below it.
    pub fn decides_more_than_log(&self) -> bool {
        let Rule { route, consistency, max_lag, cache, refuse, log, .. } = self;
        let acts = route.is_some() || consistency.is_some() || max_lag.is_some() || cache.is_some() || refuse.is_some();
        // `max_lag_ms = 0` is an action that changes nothing.
        acts || log.is_none()
    }

    /// Its action, in words.
    pub fn action_in_words(&self) -> String {
        let route = self.route.as_ref().map(|route| format!("route {route}"));
        let consistency = self.consistency.map(|consistency| format!("consistency {consistency}"));
        let max_lag = self.max_lag.map(|max| format!("no more than {} ms behind", max.as_millis()));
        let cache = self.cache.map(|cache| {
            let shared = if cache.shared { ", shared" } else { "" };
            let tier = if cache.tier { ", in the tier" } else { "" };
            let stale = if cache.stale.is_zero() {
                String::new()
            } else {
                format!(" and {} ms stale", cache.stale.as_millis())
            };
            let followed = match cache.freshness {
                CacheFreshness::Ttl => "",
                CacheFreshness::Follow => ", followed",
            };
            format!("cache {} for {} ms{stale}{followed}{shared}{tier}", cache.mode, cache.ttl.as_millis())
        });
        let pipelines = self.pipelines.map(|pipelines| format!("pipelines {pipelines}"));
        let refuse = self.refuse.as_ref().map(|text| format!("refuse: {text}"));
        let log = self.log.map(|log| match log.sample {
            0 | 1 => format!("log {}", log.mode),
            sample => format!("log {} for one session in {sample}", log.mode),
        });
        [route, consistency, max_lag, cache, pipelines, refuse, log]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_reported_in_words() {
        let matchers = Matchers {
            user: Some("bob".into()),
            client: Some("10.0.0.0/8".parse().unwrap()),
            digest: Some(0xab),
            access: Some(RuleAccess::Read),
            ..Matchers::default()
        };
        assert_eq!(
            matchers.in_words(),
            [
                "the user is bob",
                "the client is in 10.0.0.0/8",
                "the digest's hash is 00000000000000ab",
                "the access is read"
            ]
        );
        assert_eq!(matchers.given(), 0b1_0011_0100);
        assert_eq!(matchers.only(matchers.given()), matchers);
        assert_eq!(matchers.only(0), Matchers::default());
        let rule = Rule {
            name: "r".into(),
            enabled: true,
            matchers,
            route: RuleRoute::parse("server:db2"),
            consistency: Some(Consistency::None),
            max_lag: Some(Duration::from_millis(300)),
            cache: Some(RuleCache {
                mode: CacheMode::On,
                freshness: CacheFreshness::Ttl,
                ttl: Duration::from_secs(2),
                stale: Duration::from_millis(5),
                shared: true,
                tier: true,
            }),
            pipelines: None,
            refuse: None,
            log: Some(RuleLog { mode: LogMode::On, sample: 10 }),
        };
        assert_eq!(
            rule.action_in_words(),
            "route server:db2, consistency none, no more than 300 ms behind, cache on for 2000 ms and 5 ms stale, shared, in the tier, log on for one session in 10"
        );
        assert_eq!((RuleRoute::parse("server:"), RuleRoute::parse("Primary")), (None, None));
    }
}
