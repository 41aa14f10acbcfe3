//! `[[rule]]`

use std::time::Duration;

use super::{Form, Kind, Section, Setting, Unit, Word, live, millis, whole};
use crate::{CacheFreshness, CacheMode, Consistency, RuleAccess};

/// Most rules of a file.
pub const RULES_MAX: usize = 10_000;

/// Most bytes of a regular expression.
const REGEX_MAX: usize = 4_096;

/// Most bytes of a comment that a rule knows.
pub const COMMENT_MAX: usize = 256;

/// `[[rule]]`
pub static RULE: Section = Section {
    key: "rule",
    form: Form::List,
    doc: "A routing rule (docs/guides/rules.md): statements for which all of its matchers hold get its actions. The first rule that fits a \
          statement decides, in the order of the file. A rule needs at least one matcher (`listener` to `comment`) and one action \
          (`route`, `consistency`, `max_lag_ms`, `cache`, `refuse`). There may be 10,000 rules; the regular expressions of all of them may take 64 MiB, a \
          single one 1 MiB.",
    settings: &[
        &NAME,
        &ENABLED,
        &LISTENER,
        &CLUSTER,
        &USER,
        &SCHEMA,
        &CLIENT,
        &DIGEST,
        &DIGEST_REGEX,
        &TEXT_REGEX,
        &ACCESS,
        &TABLE,
        &COMMENT,
        &ROUTE,
        &CONSISTENCY,
        &MAX_LAG,
        &CACHE,
        &CACHE_FRESHNESS,
        &CACHE_TTL,
        &CACHE_STALE,
        &CACHE_SHARED,
        &CACHE_TIER,
        &REFUSE,
    ],
    sections: &[],
};

const fn text(key: &'static str, max: usize, doc: &'static str) -> Setting {
    live(key, Kind::Text { default: None, max }, doc)
}

/// `name`
pub static NAME: Setting = text(
    "name",
    64,
    "What it is called in errors, metrics and the API: letters, digits, `-` and `_`. No two are called alike.",
)
.required()
.example("\"reports\"");
/// `enabled`
pub static ENABLED: Setting =
    live("enabled", Kind::Flag { default: true }, "Whether it counts; one that does not is still checked.");
/// `listener`
pub static LISTENER: Setting =
    text("listener", 64, "Matcher: the listener that the client came in by.").example("\"app\"");
/// `cluster`
pub static CLUSTER: Setting = text("cluster", 64, "Matcher: the cluster of the session.").example("\"main\"");
/// `user`
pub static USER: Setting =
    text("user", 128, "Matcher: the user's name, as it is on the servers.").example("\"reports\"");
/// `schema`
pub static SCHEMA: Setting = text(
    "schema",
    256,
    "Matcher: the session's schema when the statement comes, as it was named; not schemas that the statement names.",
)
.example("\"shop\"");
/// `client`
pub static CLIENT: Setting = text(
    "client",
    64,
    "Matcher: the network of the client's address, such as 10.0.0.0/8. A client on a Unix socket is in none.",
)
.example("\"10.0.0.0/8\"");
/// `digest`
pub static DIGEST: Setting = text(
    "digest",
    16,
    "Matcher: the hash of the statement's digest, 16 hexadecimal digits as `GET /api/v1/digests` shows it.",
)
.example("\"8d3c0b6e51a7f924\"");
/// `digest_regex`
pub static DIGEST_REGEX: Setting = text(
    "digest_regex",
    REGEX_MAX,
    "Matcher: a regular expression that finds something in the statement's digest (its text without literals, of which the first 2 KiB count).",
)
.example("'^SELECT .* FROM orders '");
/// `text_regex`
pub static TEXT_REGEX: Setting = text(
    "text_regex",
    REGEX_MAX,
    "Matcher: a regular expression that finds something in the statement as it was sent, of which the first 64 KiB count. It is the only \
     matcher that is looked at for every statement; the outcome of the others is remembered.",
)
.example("'/\\* job=nightly \\*/'");

const ACCESS_WORDS: &[Word] = &[
    Word::new(RuleAccess::Read.word(), "it only reads"),
    Word::new(RuleAccess::Write.word(), "anything else, such as changes, SET, BEGIN and COMMIT"),
];

/// `access`
pub static ACCESS: Setting =
    live("access", Kind::Choice { default: None, words: ACCESS_WORDS }, "Matcher: what the statement does.")
        .example("\"read\"");
/// `table`
pub static TABLE: Setting = text(
    "table",
    256,
    "Matcher: a table or view that the statement names, to read or to write, as `SCHEMA.TABLE`, or as `TABLE` in whichever schema. Not tables \
     behind a view, and not a statement of which it is not known what it names.",
)
.example("\"shop.products\"");
/// `comment`
pub static COMMENT: Setting = text(
    "comment",
    COMMENT_MAX,
    "Matcher: the comment that the statement begins with, `/* … */`, is exactly this, but for space around it.",
)
.example("\"page: products\"");
/// `route`
pub static ROUTE: Setting = text(
    "route",
    80,
    "Action: `primary`, `replica`, `server:NAME` (a server of the cluster), or `auto`: as `split = \"auto\"` would have it. `replica` and \
     `server:NAME` hold for statements that only read and leave nothing open behind them; all others are routed as without the rule.",
)
.example("\"replica\"");

const CONSISTENCY_WORDS: &[Word] = &[
    Word::new(Consistency::Session.word(), "what its session has written"),
    Word::new(Consistency::Cluster.word(), "what any session of this process has written"),
    Word::new(Consistency::Table.word(), "what any session of this process has written to the tables that it names"),
    Word::new(Consistency::None.word(), "nothing in particular"),
];

/// `consistency`
pub static CONSISTENCY: Setting = live(
    "consistency",
    Kind::Choice { default: None, words: CONSISTENCY_WORDS },
    "Action: what a read is sure to see, whatever listener and user say.",
)
.example("\"none\"");

/// `max_lag_ms`
pub static MAX_LAG: Setting = whole(
    "max_lag_ms",
    Unit::Millis,
    0,
    0,
    86_400_000,
    Some("the cluster's `max_lag_ms` alone"),
    "Action: reads go to no replica that was further behind the primary when it was probed last. It makes the cluster's `max_lag_ms` \
     narrower, never wider; when no replica is near enough, the primary serves the read.",
)
.example("500");

const CACHE_WORDS: &[Word] = &[
    Word::new(CacheMode::On.word(), "the cache answers, if it may (docs/guides/cache.md)"),
    Word::new(CacheMode::Advise.word(), "servers answer; what the cache would have saved is counted"),
    Word::new(CacheMode::Off.word(), "servers answer, whatever a comment says"),
];

/// `cache`
pub static CACHE: Setting = live(
    "cache",
    Kind::Choice { default: None, words: CACHE_WORDS },
    "Action: whether reads are answered from the result cache. Statements that it cannot answer go to a server as ever, and the reason is \
     counted.",
)
.example("\"on\"");
const FRESHNESS_WORDS: &[Word] = &[
    Word::new(CacheFreshness::Ttl.word(), "they are seen `cache_ttl_ms` later at the latest"),
    Word::new(
        CacheFreshness::Follow.word(),
        "the primary's binary log is followed, and they end answers (docs/guides/cache.md); where the log cannot be followed, servers answer",
    ),
];

/// `cache_freshness`
pub static CACHE_FRESHNESS: Setting = live(
    "cache_freshness",
    Kind::Choice { default: Some(CacheFreshness::Ttl.word()), words: FRESHNESS_WORDS },
    "With `cache`: what becomes of answers when somebody writes around this process. Writes through it end answers at once.",
)
.example("\"follow\"");
/// `cache_ttl_ms`
pub static CACHE_TTL: Setting = millis(
    "cache_ttl_ms",
    1_000,
    1,
    86_400_000,
    "With `cache`: how old an answer may be. Writes through Sqluice end its life at once; this is for those that come to the servers in \
     other ways. With `cache_freshness = \"follow\"` an hour unless it is given.",
);
/// `cache_ttl_ms` where the log is followed and nothing is said.
pub(crate) const FOLLOWED_TTL: Duration = Duration::from_secs(3_600);
/// `cache_stale_ms`
pub static CACHE_STALE: Setting = millis(
    "cache_stale_ms",
    0,
    0,
    86_400_000,
    "With `cache`: for so much longer an answer is given while one session asks a server anew.",
);
/// `cache_shared`
pub static CACHE_SHARED: Setting = live(
    "cache_shared",
    Kind::Flag { default: false },
    "With `cache`: all users share answers. Without it those do who have the same rights, as far as that is sure. Share only what all users for whom the rule holds may \
     read: the servers are not asked for their rights.",
);
/// `cache_tier`
pub static CACHE_TIER: Setting = live(
    "cache_tier",
    Kind::Flag { default: false },
    "With `cache = \"on\"`: answers are shared with other Sqluice processes through `[cache.tier]`, and what is written through those ends them at \
     once, too. Each answer takes a question to the tier; while it cannot be asked, servers answer.",
);
/// `refuse`
pub static REFUSE: Setting = text(
    "refuse",
    400,
    "Action: the statement is not run; the client gets error 1644 (SQLSTATE 45000) with the rule's name and this text.",
)
.example("\"add a WHERE\"");
