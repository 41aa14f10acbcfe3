use std::cell::{Cell, OnceCell};

use super::*;
use crate::{Chain, WorkerChain};
use config::{LogMode, Rule};
use route::state::hash_of;

const CONFIG: &str = r#"
[cluster.main]
kind = "replication"
monitor = { user = "m", password = "p" }
servers.db1 = { address = "10.0.0.1:3306" }
[cluster.other]
kind = "standalone"
monitor = { user = "m", password = "p" }
servers.one = { address = "10.0.0.9:3306" }
[listener.app]
address = "0.0.0.0:3306"
cluster = "main"
[listener.else]
address = "0.0.0.0:3307"
cluster = "other"
"#;

fn rules(text: &str) -> Arc<[Rule]> {
    let text = format!("{CONFIG}{text}");
    config::parse("x.toml", &text, &config::MemorySource::default()).unwrap_or_else(|all| panic!("{all}")).config.rules
}

/// Rules as a worker has them.
struct Case {
    worker: WorkerChain,
    stats: stats::rules::RuleHits,
    searches: Counter,
    /// How often a text was looked at.
    texts_seen: Cell<u32>,
    digests_made: Cell<u32>,
    tables_read: Cell<u32>,
}

/// One statement, and who sends it.
#[derive(Clone, Copy)]
struct Sent<'a> {
    listener: &'a str,
    user: &'a str,
    client: &'a str,
    schema: Option<&'a str>,
    text: &'a str,
    reads: bool,
}

const ASK: Sent<'static> =
    Sent { listener: "app", user: "bob", client: "10.1.2.3", schema: Some("shop"), text: "SELECT 1", reads: true };

struct TestQuery<'a>(&'a Case, Sent<'a>, OnceCell<Option<sql::Tables>>);

impl Inspect for TestQuery<'_> {
    fn rule_session(&self) -> RuleSession<'_> {
        session_of(self.1)
    }

    fn parts(&self, see: &mut dyn FnMut(RuleStatement<'_>, &dyn Inspect) -> bool) {
        let texts: Vec<&str> = self.1.text.split(';').collect();
        for text in texts.iter().filter(|_| texts.len() > 1) {
            let part = Sent { text, ..self.1 };
            if see(statement_of(part), &TestQuery(self.0, part, OnceCell::new())) {
                return;
            }
        }
    }

    fn sent(&self) -> &[u8] {
        self.0.texts_seen.set(self.0.texts_seen.get() + 1);
        self.1.text.as_bytes()
    }

    fn digest(&self) -> String {
        self.0.digests_made.set(self.0.digests_made.get() + 1);
        sql::digest(self.1.text.as_bytes(), &dialect()).text
    }

    fn tables(&self) -> Option<&sql::Tables> {
        self.0.tables_read.set(self.0.tables_read.get() + 1);
        self.2.get_or_init(|| sql::tables(self.1.text.as_bytes(), &dialect()).ok()).as_ref()
    }

    fn mentions(&self, schema: Option<&str>, name: &str) -> bool {
        sql::text::mentions(self.1.text.as_bytes(), &dialect(), schema, name)
    }
}

fn dialect() -> sql::Dialect {
    sql::Dialect {
        family: sql::Family::MariaDb,
        version: 101_119,
        modes: sql::Modes::empty(),
        encoding: sql::Encoding::AsciiSafe,
    }
}

fn session_of(sent: Sent<'_>) -> RuleSession<'_> {
    RuleSession {
        listener: sent.listener,
        cluster: if sent.listener == "app" { "main" } else { "other" },
        user: sent.user,
        client: sent.client.parse().ok(),
    }
}

fn statement_of(sent: Sent<'_>) -> RuleStatement<'_> {
    let digest = if sent.text.is_empty() { 0 } else { sql::digest_hash(sent.text.as_bytes(), &dialect()) };
    RuleStatement { schema: sent.schema, schema_hash: hash_of(sent.schema), digest, reads: sent.reads }
}

impl Case {
    fn new(text: &str) -> Case {
        let case = Case {
            worker: WorkerChain::default(),
            stats: stats::rules::RuleHits::default(),
            searches: Counter::default(),
            texts_seen: Cell::default(),
            digests_made: Cell::default(),
            tables_read: Cell::default(),
        };
        case.take(text);
        case
    }

    fn take(&self, text: &str) {
        let set = RuleSet::new(&rules(text)).unwrap().map(Arc::new);
        let hits = self.stats.renew(set.as_ref().map(|set| set.names()).unwrap_or_default());
        self.worker.take(set, hits, &stats::cache::RuleCaches::default());
    }

    /// The verdict, and the rule whose actions are the plan.
    fn ask(&self, sent: Sent<'_>, may_refuse: bool) -> Option<(Verdict, Option<String>)> {
        let (chain, mut plan) = (self.worker.get()?, Plan::default());
        let scope = chain.scope(session_of(sent));
        let ask = RuleQuery { scope, statement: statement_of(sent), may_refuse, searches: &self.searches };
        let verdict = chain.ask(&ask, &TestQuery(self, sent, OnceCell::new()), &mut plan);
        Some((verdict, plan.rule().map(|action| action.name.to_string())))
    }

    /// The rule that decides.
    fn rule(&self, sent: Sent<'_>) -> Option<String> {
        self.ask(sent, true)?.1
    }

    /// The same twice: what is remembered says what was found.
    fn both(&self, ask: Sent<'_>) -> String {
        let found = self.rule(ask);
        assert_eq!(self.rule(ask), found);
        found.unwrap_or_default()
    }

    fn hits(&self) -> Vec<(String, u64)> {
        self.stats.get().iter().map(|(name, hits)| (name.to_owned(), hits)).collect()
    }
}

fn rule(name: &str, matchers: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{matchers}\nroute = \"primary\"\n")
}

#[test]
fn without_rules_there_is_nothing() {
    let case = Case::new("");
    assert!(case.worker.get().is_none());
    case.take(&rule("off", "user = \"bob\"\nenabled = false"));
    assert_eq!(case.rule(ASK), None);
}

#[test]
fn each_matcher_holds_or_not() {
    let hash = sql::digest_hash(b"SELECT 7", &dialect());
    let digest = format!("digest = \"{hash:016x}\"");
    for (matcher, fits, other) in [
        ("listener = \"app\"", ASK, Sent { listener: "else", ..ASK }),
        ("cluster = \"main\"", ASK, Sent { listener: "else", ..ASK }),
        ("user = \"bob\"", ASK, Sent { user: "Bob", ..ASK }),
        ("schema = \"shop\"", ASK, Sent { schema: Some("Shop"), ..ASK }),
        ("schema = \"shop\"", ASK, Sent { schema: None, ..ASK }),
        ("client = \"10.0.0.0/8\"", ASK, Sent { client: "11.0.0.1", ..ASK }),
        ("client = \"10.0.0.0/8\"", Sent { client: "::ffff:10.0.0.1", ..ASK }, Sent { client: "a socket", ..ASK }),
        (&digest, Sent { text: "select  42", ..ASK }, Sent { text: "SELECT 'a', 1", ..ASK }),
        ("digest_regex = \"^select [?]$\"", ASK, Sent { text: "SELECT 1, 2", ..ASK }),
        ("digest_regex = \".*\"", ASK, Sent { text: "", ..ASK }),
        (
            "text_regex = \"job=7\"",
            Sent { text: "SELECT 1 /* job=7 */", ..ASK },
            Sent { text: "SELECT 1 /* job=8 */", ..ASK },
        ),
        ("text_regex = \".*\"", ASK, Sent { text: "", ..ASK }),
        ("access = \"read\"", ASK, Sent { reads: false, ..ASK }),
        ("access = \"write\"", Sent { reads: false, ..ASK }, ASK),
    ] {
        let case = Case::new(&rule("r", matcher));
        assert_eq!(case.both(fits), "r", "{matcher}");
        assert_eq!(case.both(other), "", "{matcher}");
        assert_eq!(case.both(fits), "r", "{matcher}");
    }
}

#[test]
fn all_matchers_must_hold_and_the_first_rule_wins() {
    let case = Case::new(
        &[
            rule("off", "enabled = false\nuser = \"bob\""),
            rule("deep", "user = \"bob\"\nschema = \"shop\"\ndigest_regex = \"FROM t \"\naccess = \"read\""),
            rule("carol", "user = \"carol\""),
            rule("texts", "user = \"bob\"\ntext_regex = \"x\""),
            rule("shop", "schema = \"shop\""),
            rule("too-late", "listener = \"app\"\ntext_regex = \"x\""),
        ]
        .concat(),
    );
    assert_eq!(case.both(Sent { text: "SELECT a FROM t WHERE x = 1", ..ASK }), "deep");
    assert_eq!(case.both(Sent { text: "SELECT a FROM t WHERE x = 1", reads: false, ..ASK }), "texts");
    assert_eq!(case.both(Sent { text: "SELECT a FROM u WHERE x = 1", ..ASK }), "texts");
    assert_eq!(case.both(Sent { text: "SELECT a FROM u", ..ASK }), "shop");
    assert_eq!(case.both(Sent { user: "carol", text: "SELECT x", ..ASK }), "carol");
    assert_eq!(case.both(Sent { user: "dave", schema: None, text: "SELECT x", ..ASK }), "too-late");
    assert_eq!(case.both(Sent { user: "dave", schema: None, text: "SELECT y", ..ASK }), "");
    let hits = case.hits();
    assert_eq!(hits[0], ("off".into(), 0));
    assert_eq!(hits.iter().map(|(_, hits)| hits).sum::<u64>(), 12);
}

#[test]
fn what_was_found_is_remembered_for_all_that_no_rule_tells_apart() {
    let many: String =
        (1..1_000).map(|n| rule(&format!("r{n}"), &format!("digest_regex = \"FROM other_{n}$\""))).collect();
    let case = Case::new(&(many + &rule("last", "digest_regex = \"^SELECT . FROM t\"")));
    for n in 0..100 {
        let user = format!("user{n}");
        let text = format!("SELECT a FROM t WHERE id = {n}");
        assert_eq!(
            case.rule(Sent { text: &text, user: &user, schema: None, reads: n % 2 == 0, ..ASK }).as_deref(),
            Some("last")
        );
    }
    assert_eq!((case.searches.get(), case.digests_made.get(), case.texts_seen.get()), (1, 1, 0));
    assert_eq!(case.hits().last(), Some(&("last".into(), 100)));
    // Other rules: nothing of what was remembered counts, but the counts of rules that are still there.
    case.take(&rule("last", "digest_regex = \"^DELETE\""));
    assert_eq!(case.both(Sent { text: "SELECT a FROM t WHERE id = 1", ..ASK }), "");
    assert_eq!(case.both(Sent { text: "DELETE FROM t", ..ASK }), "last");
    assert_eq!(case.hits(), [("last".into(), 102)]);
}

#[test]
fn texts_are_looked_at_only_for_those_whom_a_rule_may_fit() {
    let case = Case::new(
        &[rule("bobs", "user = \"bob\"\ntext_regex = \"secret\""), rule("all", "access = \"read\"")].concat(),
    );
    for _ in 0..10 {
        assert_eq!(case.rule(Sent { user: "carol", text: "SELECT secret", ..ASK }).as_deref(), Some("all"));
    }
    assert_eq!(case.texts_seen.get(), 0);
    for _ in 0..10 {
        assert_eq!(case.rule(Sent { text: "SELECT secret", ..ASK }).as_deref(), Some("bobs"));
        assert_eq!(case.rule(Sent { text: "SELECT other", ..ASK }).as_deref(), Some("all"));
    }
    assert_eq!((case.texts_seen.get(), case.searches.get()), (20, 2));
    // A text is looked at up to a bound.
    let long = format!("SELECT '{}', secret", "x".repeat(TEXT_LOOKED_AT));
    assert_eq!(case.both(Sent { text: &long, ..ASK }), "all");
}

#[test]
fn a_scope_is_of_its_rules() {
    let case = Case::new(&rule("r", "client = \"10.0.0.0/8\""));
    let session =
        |client: &str| RuleSession { listener: "app", cluster: "main", user: "bob", client: client.parse().ok() };
    let chain = case.worker.get().unwrap();
    let scope = chain.scope(session("10.0.0.1"));
    assert!(chain.knows(scope) && !chain.knows(RuleScope::default()));
    assert_eq!(scope.hash, chain.scope(RuleSession { user: "carol", ..session("10.9.9.9") }).hash);
    assert_ne!(scope.hash, chain.scope(session("192.168.0.1")).hash);
    case.take(&rule("r", "user = \"bob\""));
    assert!(!case.worker.get().unwrap().knows(scope));
}

#[test]
fn a_table_is_found_by_name_and_read_once_for_a_digest() {
    let case = Case::new(&[rule("one", "table = \"shop.items\""), rule("any", "table = \"log\"")].concat());
    let within = |text, schema| case.both(Sent { text, schema, ..ASK });
    assert_eq!(within("SELECT a FROM items JOIN t USING (a) WHERE id = 1", Some("shop")), "one");
    assert_eq!(case.tables_read.get(), 1);
    assert_eq!(within("SELECT a FROM items JOIN t USING (a) WHERE id = 2", Some("shop")), "one");
    assert_eq!(case.tables_read.get(), 1, "another literal makes no difference");
    assert_eq!(within("SELECT a FROM items JOIN t USING (a) WHERE id = 1", Some("other")), "");
    assert_eq!(within("SELECT a FROM items", None), "");
    assert_eq!(within("UPDATE `shop`.`items` SET a = 1", None), "one");
    assert_eq!(within("SELECT 'items', items FROM t", Some("shop")), "");
    assert_eq!(within("SELECT 1 FROM x.log", Some("shop")), "any");
    assert_eq!(within("CALL log()", Some("shop")), "", "nobody knows what it names");
    assert_eq!(within("", Some("shop")), "");
}

#[test]
fn a_comment_decides_and_those_that_no_rule_asks_for_do_not_fill_the_memory() {
    let case = Case::new(&[rule("page", "comment = \" page: a \""), rule("rest", "access = \"read\"")].concat());
    let text = |text: &str| case.both(Sent { text, ..ASK });
    assert_eq!(text("/* page: a */ SELECT 1"), "page");
    assert_eq!(text("SELECT 1 /* page: a */"), "rest");
    let searches = case.searches.get();
    for n in 0..100 {
        assert_eq!(text(&format!("/* page: {n} */ SELECT 1")), "rest");
    }
    assert_eq!(case.searches.get(), searches);
}

#[test]
fn no_unreadable_statement_is_a_way_around_a_table_that_is_refused() {
    let refuse = "[[rule]]\nname = \"no\"\ntable = \"app.secrets\"\nrefuse = \"not here\"\n";
    let read = "[[rule]]\nname = \"there\"\ntable = \"secrets\"\nroute = \"primary\"\n";
    let case = Case::new(&[read, refuse].concat());
    let asked = |text, schema| case.ask(Sent { text, schema: Some(schema), ..ASK }, true);
    let refused = |text, schema| matches!(asked(text, schema), Some((Verdict::Refuse { .. }, _)));
    for text in [
        "HANDLER secrets OPEN",
        "HANDLER app.`secrets` OPEN AS h",
        "EXPLAIN SELECT * FROM secrets",
        "ANALYZE SELECT secrets.a FROM secrets",
        "SHOW CREATE TABLE app . secrets",
        "DESCRIBE secrets",
        "LOCK TABLES t READ, secrets READ",
        "CREATE VIEW v AS SELECT * FROM app.secrets",
        "USE app; SELECT * FROM secrets",
    ] {
        assert!(refused(text, "app"), "{text}");
        assert!(refused(text, "other"), "{text}");
    }
    for text in [
        "HANDLER t OPEN",
        "HANDLER other.secrets OPEN",
        "HANDLER secrets.t OPEN",
        "EXPLAIN SELECT 'secrets', \"secrets\", @secrets, secrets2 FROM t /* secrets */",
    ] {
        assert!(!refused(text, "app"), "{text}");
    }
    // A statement that can be read names the tables that it names, and rules that do not refuse do not guess.
    assert!(!refused("SELECT secrets FROM t", "app"));
    assert!(!refused("SELECT * FROM secrets", "other"));
    assert_eq!(asked("DESCRIBE secrets", "app").unwrap().1.as_deref(), Some("no"));
    assert_eq!(asked("SELECT * FROM secrets", "app").unwrap().1.as_deref(), Some("there"));
}

#[test]
fn a_rule_that_refuses_one_text_of_several_refuses_them_all() {
    let refuse = "[[rule]]\nname = \"no\"\ndigest_regex = \"^DROP\"\nrefuse = \"not here\"\n";
    let case = Case::new(&[rule("reads", "digest_regex = \"^SELECT\""), refuse.into()].concat());
    let refused = Verdict::Refuse { rule: "no".into(), text: "not here".into() };
    let ask = |text, may_refuse| case.ask(Sent { text, ..ASK }, may_refuse).unwrap();
    assert_eq!(ask("DROP TABLE t", true), (refused.clone(), Some("no".into())));
    assert_eq!(ask("SELECT 1", true), (Verdict::Pass, Some("reads".into())));
    assert_eq!(ask("SELECT 1;DROP TABLE t", true), (refused, Some("reads".into())));
    assert_eq!(case.hits(), [("reads".into(), 2), ("no".into(), 2)]);
    // A command that has no reply of its own cannot be refused; nor are its parts looked at.
    assert_eq!(ask("DROP TABLE t", false), (Verdict::Pass, Some("no".into())));
    assert_eq!(ask("SELECT 1;DROP TABLE t", false), (Verdict::Pass, Some("reads".into())));
}

#[test]
fn a_query_that_is_remembered_counts_when_it_is_used() {
    let case = Case::new(&rule("reads", "digest_regex = \"^SELECT\""));
    let chain: Rc<Chain> = case.worker.get().unwrap();
    let scope = chain.scope(session_of(ASK));
    assert!(chain.remembered(scope, statement_of(ASK), b"SELECT 1").is_none());
    assert_eq!(case.rule(ASK).as_deref(), Some("reads"));
    let remembered = chain.remembered(scope, statement_of(ASK), b"SELECT 1").unwrap();
    assert_eq!(&*remembered.action().unwrap().name, "reads");
    assert_eq!(case.hits(), [("reads".into(), 1)]);
    remembered.count();
    assert_eq!(case.hits(), [("reads".into(), 2)]);
}

/// The choice about the log, twice: what is remembered says what was found.
fn logs(case: &Case, sent: Sent<'_>) -> Option<(LogMode, u32)> {
    let ask = || {
        let (chain, mut plan) = (case.worker.get().unwrap(), Plan::default());
        let scope = chain.scope(session_of(sent));
        let ask = RuleQuery { scope, statement: statement_of(sent), may_refuse: true, searches: &case.searches };
        chain.ask(&ask, &TestQuery(case, sent, OnceCell::new()), &mut plan);
        plan.log().map(|log| (log.mode, log.sample))
    };
    let found = ask();
    assert_eq!(ask(), found);
    found
}

#[test]
fn the_log_is_decided_on_its_own() {
    let log = |name: &str, matchers: &str, log: &str| format!("[[rule]]\nname = \"{name}\"\n{matchers}\n{log}\n");
    let case = Case::new(
        &[
            log("quiet", "digest_regex = \"^SELECT\"\nuser = \"bob\"", "log = \"off\""),
            rule("route", "user = \"bob\""),
            log("no", "digest_regex = \"^DROP\"", "refuse = \"no\"\nlog = \"on\""),
            log("some", "schema = \"shop\"", "log = \"on\"\nlog_sample = 10"),
        ]
        .concat(),
    );
    let set = RuleSet::new(&rules(&rule("r", "user = \"bob\""))).unwrap().unwrap();
    assert!(!set.logs());
    assert_eq!(logs(&case, ASK), Some((LogMode::Off, 1)));
    assert_eq!(logs(&case, Sent { text: "INSERT INTO t VALUES (1)", ..ASK }), Some((LogMode::On, 10)));
    assert_eq!(logs(&case, Sent { user: "carol", schema: None, ..ASK }), None);
    // A rule that decides both counts once; a rule about the log takes no query from the others.
    let drop = Sent { user: "carol", text: "DROP TABLE t", ..ASK };
    assert_eq!(logs(&case, drop), Some((LogMode::On, 1)));
    let hits: Vec<u64> = case.hits().into_iter().map(|(_, hits)| hits).collect();
    assert_eq!(hits, [2, 4, 2, 2]);
    assert_eq!(case.both(ASK), "route");
}

#[test]
fn rules_about_the_log_alone_leave_all_else_alone() {
    let case = Case::new("[[rule]]\nname = \"all\"\nuser = \"bob\"\nlog = \"on\"\n");
    assert_eq!(logs(&case, ASK), Some((LogMode::On, 1)));
    assert_eq!(case.ask(ASK, true), Some((Verdict::Pass, None)));
    let carol = Sent { user: "carol", ..ASK };
    assert_eq!((logs(&case, carol), case.hits()), (None, vec![("all".into(), 3)]));
    let chain = case.worker.get().unwrap();
    assert!(chain.remembered(chain.scope(session_of(ASK)), statement_of(ASK), b"SELECT 1").is_none());
}

#[test]
fn a_remembered_query_has_its_choice_about_the_log() {
    let case =
        Case::new(&(rule("reads", "access = \"read\"") + "[[rule]]\nname = \"l\"\nuser = \"bob\"\nlog = \"on\"\n"));
    let chain = case.worker.get().unwrap();
    case.rule(ASK);
    let remembered = chain.remembered(chain.scope(session_of(ASK)), statement_of(ASK), b"SELECT 1").unwrap();
    assert_eq!(remembered.log().map(|log| log.mode), Some(LogMode::On));
    remembered.count();
    assert_eq!(case.hits(), [("reads".into(), 2), ("l".into(), 2)]);
}
