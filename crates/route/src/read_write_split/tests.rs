use super::*;
use sql::{Dialect, Encoding, Family, Modes, NoFunctions};

const FREE: Facts = Facts {
    pinned: false,
    split: Split::Auto,
    autocommit: true,
    reads_only: false,
    will_pin: false,
    consistency: Consistency::Session,
    has_primary: true,
    in_system_schema: false,
    may_write: None,
    cache: CachePromise::None,
};

fn routed(facts: Facts, text: &str) -> (Target, &'static str) {
    let route = ruled(facts, None, text);
    (route.target, route.reason.word())
}

fn ruled(facts: Facts, rule: Option<&Directive>, text: &str) -> Demand {
    let dialect =
        Dialect { family: Family::MariaDb, version: 101_119, modes: Modes::empty(), encoding: Encoding::AsciiSafe };
    demand(&facts, &sql::classify(text.as_bytes(), &dialect, &NoFunctions), rule)
}

#[test]
fn what_follows_a_set_in_its_text_keeps_it_on_the_primary() {
    assert_eq!(routed(FREE, "SET @a = 1").0, Target::Reader);
    assert_eq!(routed(FREE, "SET @a = 1; UPDATE t SET a = 1").0, Target::Primary);
}

#[test]
fn reads_go_to_readers_and_all_else_to_the_primary() {
    assert_eq!(routed(FREE, "SELECT 1"), (Target::Reader, "read"));
    assert_eq!(routed(FREE, "SELECT * FROM t FOR UPDATE"), (Target::Primary, "locking_read"));
    assert_eq!(routed(FREE, "INSERT INTO t VALUES (1)"), (Target::Primary, "writes"));
    assert_eq!(routed(FREE, "BEGIN"), (Target::Primary, "transaction"));
    assert_eq!(routed(FREE, "START TRANSACTION READ ONLY"), (Target::Reader, "read_only_transaction"));
    assert_eq!(routed(FREE, "UPDATE t SET a = 1; START TRANSACTION READ ONLY"), (Target::Primary, "transaction"));
    assert_eq!(routed(FREE, "SET NAMES utf8mb4"), (Target::Reader, "session_change"));
    assert_eq!(routed(FREE, "USE shop"), (Target::Primary, "session_change"));
    assert_eq!(routed(FREE, "SELECT my_function()"), (Target::Primary, "unknown_function"));
    assert_eq!(routed(FREE, "FROBNICATE"), (Target::Primary, "unknown_statement"));
}

#[test]
fn what_pins_begins_on_the_primary() {
    for text in [
        "SET @x = NOW()",
        "SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO'",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET ROLE NONE",
        "SET insert_id = 7",
        "SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1",
        "SELECT 1 INTO @x",
    ] {
        assert_eq!(routed(FREE, text).0, Target::Primary, "{text}");
    }
    assert_eq!(routed(FREE, "SET sql_mode = CONCAT(@@sql_mode, ',ANSI')").0, Target::Primary);
    assert_eq!(routed(FREE, "SET sql_mode = DEFAULT").0, Target::Primary);
    assert_eq!(routed(FREE, "SET sql_mode = 'ANSI'").0, Target::Reader);
    assert_eq!(routed(FREE, "SET @x = 5").0, Target::Reader);
    assert_eq!(routed(Facts { will_pin: true, ..FREE }, "SELECT 1"), (Target::Primary, "will_pin"));
}

#[test]
fn a_pin_beats_a_hint_and_a_hint_beats_what_is_configured() {
    let pinned = Facts { pinned: true, split: Split::Replica, ..FREE };
    assert_eq!(routed(pinned, "/* sqluice: primary */ SELECT 1"), (Target::Pinned, "pinned"));
    let replica = Facts { split: Split::Replica, ..FREE };
    assert_eq!(routed(replica, "/* sqluice: primary */ SELECT 1"), (Target::Primary, "hint"));
    assert_eq!(routed(replica, "INSERT INTO t VALUES (1)"), (Target::Reader, "configured"));
    let primary = Facts { split: Split::Primary, ..FREE };
    assert_eq!(routed(primary, "/* sqluice: replica */ SELECT 1"), (Target::Reader, "hint"));
    assert_eq!(routed(FREE, "/* sqluice: replica */ DELETE FROM t"), (Target::Primary, "writes"));
    assert_eq!(routed(FREE, "/* sqluice: server=db2 */ SELECT 1"), (Target::Named("db2".into()), "hint"));
}

fn rule(target: Option<RuleTarget>, consistency: Option<Consistency>) -> Directive {
    Directive { target, consistency, max_lag: None }
}

#[test]
fn a_pin_and_a_hint_beat_a_rule_and_a_rule_beats_the_split() {
    let replica = rule(Some(RuleTarget::Replica), None);
    let by = |facts: Facts, rule: &Directive, text: &str| {
        let route = ruled(facts, Some(rule), text);
        (route.target, route.reason.word())
    };
    let primary_only = Facts { split: Split::Primary, ..FREE };
    assert_eq!(by(primary_only, &replica, "SELECT 1"), (Target::Reader, "rule"));
    assert_eq!(by(Facts { pinned: true, ..FREE }, &replica, "SELECT 1"), (Target::Pinned, "pinned"));
    assert_eq!(by(FREE, &replica, "/* sqluice: primary */ SELECT 1"), (Target::Primary, "hint"));
    let primary = rule(Some(RuleTarget::Primary), None);
    assert_eq!(by(FREE, &primary, "SELECT 1"), (Target::Primary, "rule"));
    assert_eq!(by(FREE, &primary, "/* sqluice: replica */ SELECT 1"), (Target::Reader, "hint"));
    // A hint that says nothing for this statement leaves it to the rule.
    assert_eq!(by(FREE, &primary, "/* sqluice: replica */ DELETE FROM t"), (Target::Primary, "rule"));
    let server = rule(Some(RuleTarget::Server("db3".into())), None);
    assert_eq!(by(FREE, &server, "SELECT 1"), (Target::Named("db3".into()), "rule"));
    let auto = rule(Some(RuleTarget::Auto), None);
    assert_eq!(by(primary_only, &auto, "SELECT 1"), (Target::Reader, "read"));
    assert_eq!(by(Facts { split: Split::Replica, ..FREE }, &auto, "DELETE FROM t"), (Target::Primary, "writes"));
}

#[test]
fn a_rule_leads_no_write_away_from_the_primary() {
    for target in [RuleTarget::Replica, RuleTarget::Server("db3".into())] {
        let rule = rule(Some(target), None);
        for text in [
            "DELETE FROM t",
            "BEGIN",
            "SELECT * FROM t FOR UPDATE",
            "SELECT f()",
            "SELECT SQL_CALC_FOUND_ROWS 1",
            "CREATE TABLE t (n INT)",
        ] {
            assert_eq!(ruled(FREE, Some(&rule), text).target, Target::Primary, "{text}");
        }
        for facts in [Facts { autocommit: false, ..FREE }, Facts { will_pin: true, ..FREE }] {
            assert_eq!(ruled(facts, Some(&rule), "SELECT 1").target, Target::Primary, "{facts:?}");
        }
        assert_ne!(ruled(FREE, Some(&rule), "SELECT @@port").target, Target::Primary);
    }
}

#[test]
fn consistency_is_the_hints_then_the_rules_then_the_sessions() {
    use Consistency::{Cluster, None as Nothing, Session};
    let seen = |of_session: Consistency, rule: Option<&Directive>, text: &str| {
        ruled(Facts { consistency: of_session, ..FREE }, rule, text).consistency
    };
    let (own, all, none) = (rule(None, Some(Session)), rule(None, Some(Cluster)), rule(None, Some(Nothing)));
    for of_session in [Session, Cluster, Nothing] {
        assert_eq!(seen(of_session, None, "SELECT 1"), of_session);
        assert_eq!(seen(of_session, Some(&own), "SELECT 1"), Session);
        assert_eq!(seen(of_session, Some(&all), "SELECT 1"), Cluster);
        assert_eq!(seen(of_session, Some(&none), "SELECT 1"), Nothing);
        assert_eq!(seen(of_session, Some(&none), "/* sqluice: replica */ SELECT 1"), Nothing);
        assert_eq!(seen(of_session, Some(&all), "/* sqluice: consistency=none */ SELECT 1"), Nothing);
        assert_eq!(seen(of_session, Some(&all), "/* sqluice: consistency=session */ SELECT 1"), Session);
        assert_eq!(seen(of_session, Some(&none), "/* sqluice: consistency=cluster */ SELECT 1"), Cluster);
    }
}

#[test]
fn what_tells_of_one_server_is_the_primarys() {
    for text in ["SELECT @@port", "SHOW VARIABLES", "SELECT * FROM performance_schema.threads", "SHOW EVENTS"] {
        assert_eq!(routed(FREE, text), (Target::Primary, "server_state"), "{text}");
    }
    assert_eq!(routed(FREE, "/* sqluice: replica */ SELECT @@port"), (Target::Reader, "hint"));
    assert_eq!(routed(FREE, "SELECT * FROM information_schema.columns"), (Target::Reader, "read"));
    assert_eq!(routed(FREE, "SELECT @@port, f()").0, Target::Primary);
    assert_ne!(routed(FREE, "SELECT @@port, f()").1, "server_state", "a function that may write is more than a read");
}

#[test]
fn without_autocommit_every_statement_belongs_to_a_transaction() {
    let off = Facts { autocommit: false, ..FREE };
    assert_eq!(routed(off, "SELECT 1"), (Target::Primary, "autocommit_off"));
    assert_eq!(routed(Facts { reads_only: true, ..off }, "SELECT 1"), (Target::Reader, "read_only_session"));
    assert_eq!(routed(Facts { reads_only: true, ..FREE }, "BEGIN"), (Target::Reader, "read_only_session"));
    assert_eq!(
        routed(Facts { reads_only: true, ..FREE }, "START TRANSACTION READ WRITE"),
        (Target::Primary, "transaction")
    );
}

#[test]
fn a_read_that_may_write_is_the_primarys() {
    for why in [Reason::WritingFunction, Reason::UnknownFunction] {
        let facts = Facts { may_write: Some(why), ..FREE };
        assert_eq!(routed(facts, "SELECT f(1)"), (Target::Primary, "unknown_function"), "as the text has it");
        assert_eq!(routed(facts, "SELECT a FROM v; SELECT 1"), (Target::Primary, why.word()));
        assert_eq!(routed(facts, "/* sqluice: replica */ SELECT 1"), (Target::Primary, why.word()));
        assert_eq!(routed(Facts { pinned: true, ..facts }, "SELECT 1"), (Target::Pinned, "pinned"));
        let named = ruled(facts, None, "/* sqluice: server=db2 */ SELECT 1");
        assert_eq!(named.target, Target::Named("db2".into()), "a client that names a server gets its answer");
    }
}

#[test]
fn tables_that_tell_of_one_server_are_read_on_the_primary_while_there_is_one() {
    let schema = Facts { in_system_schema: true, ..FREE };
    assert_eq!(routed(schema, "SELECT * FROM tables"), (Target::Primary, "server_state"));
    assert_eq!(routed(FREE, "SELECT @@hostname"), (Target::Primary, "server_state"));
    assert_eq!(routed(schema, "/* sqluice: replica */ SELECT * FROM tables"), (Target::Reader, "hint"));
    for facts in [schema, FREE] {
        let facts = Facts { has_primary: false, ..facts };
        assert_eq!(routed(facts, "SELECT @@hostname"), (Target::Reader, "server_state"));
    }
    assert_eq!(
        routed(Facts { has_primary: false, ..schema }, "SELECT * FROM tables"),
        (Target::Reader, "server_state")
    );
}

#[test]
fn a_promise_of_the_cache_holds_wherever_a_read_goes() {
    let promised = |cache, consistency, rule: Option<&Directive>, text: &str| {
        let found = ruled(Facts { cache, consistency, ..FREE }, rule, text);
        (found.target, found.reason.word(), found.consistency)
    };
    let (fill, by_rule, shared) = (CachePromise::Fill, CachePromise::Rule, CachePromise::SharedFill);
    let table = (Target::Reader, "read", Consistency::Table);
    for weaker in [Consistency::None, Consistency::Session] {
        assert_eq!(promised(fill, weaker, None, "SELECT 1"), table);
        assert_eq!(promised(by_rule, weaker, None, "SELECT 1"), table);
    }
    for cache in [fill, by_rule] {
        let all = promised(cache, Consistency::Cluster, None, "SELECT 1");
        assert_eq!(all.2, Consistency::Cluster, "it has more than the tables' writes");
    }
    let asks_for_less = rule(None, Some(Consistency::Session));
    let by = |cache, rule, text| promised(cache, Consistency::Session, rule, text).2;
    assert_eq!(by(by_rule, Some(&asks_for_less), "SELECT 1"), Consistency::Session);
    assert_eq!(by(by_rule, None, "/* sqluice: consistency=none */ SELECT 1"), Consistency::None);
    assert_eq!(by(fill, Some(&asks_for_less), "SELECT 1"), Consistency::Table, "it is kept for others, too");
    let to_primary = promised(shared, Consistency::Session, None, "SELECT 1");
    assert_eq!((to_primary.0, to_primary.1), (Target::Primary, "shared_fill"));
    assert_eq!(promised(shared, Consistency::Session, None, "/* sqluice: primary */ SELECT 1").1, "hint");
    for facts in [Facts { has_primary: false, ..FREE }, Facts { split: Split::Replica, ..FREE }] {
        for cache in [fill, by_rule, shared] {
            let found = ruled(Facts { cache, ..facts }, None, "SELECT 1");
            assert_eq!((found.target, found.consistency), (Target::Reader, Consistency::Session));
        }
    }
}
