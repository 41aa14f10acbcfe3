//! States, their differences, and what follows from them.

use super::*;

fn state(variables: &[(&str, &str)]) -> StateMap {
    let mut state = StateMap::default();
    for (name, value) in variables {
        state.set_variable(name, value);
    }
    state
}

#[test]
fn equal_maps_have_equal_fingerprints_whatever_the_way_there() {
    let a = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00")]);
    let mut b = state(&[("time_zone", "SYSTEM"), ("autocommit", "OFF"), ("sql_mode", "ANSI")]);
    assert_ne!(a.fingerprint(), b.fingerprint());
    b.remove_variable("autocommit");
    b.set_variable("time_zone", "+02:00");
    assert_eq!((&a, a.fingerprint()), (&b, b.fingerprint()));
    b.set_schema(Some("shop"));
    assert_ne!(a.fingerprint(), b.fingerprint());
    b.set_schema(None);
    assert_eq!(a, b);
}

#[test]
fn a_difference_tells_whether_a_server_may_refuse_it() {
    let with = |name: &str| {
        let mut state = StateMap::default();
        state.set_variable(name, "1");
        state
    };
    for (name, may) in [
        ("autocommit", false),
        ("sql_safe_updates", false),
        ("wait_timeout", false),
        ("binlog_row_image", true),
        ("sql_mode", true),
        ("time_zone", true),
    ] {
        let (plain, set) = (StateMap::default(), with(name));
        assert_eq!(plain.difference(&set).may_be_refused, may, "{name}");
        assert_eq!(set.difference(&plain).may_be_refused, may, "{name} back");
    }
    let mut user = StateMap::default();
    user.set_user_variable("binlog_row_image", "1");
    assert!(!StateMap::default().difference(&user).may_be_refused);
}

#[test]
fn a_difference_sets_what_differs_and_defaults_what_is_gone() {
    let mut from = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00"), ("wait_timeout", "100")]);
    from.set_user_variable("old", "1");
    let mut to = state(&[("time_zone", "+03:00"), ("wait_timeout", "100")]);
    to.set_user_variable("x", "'a'");
    to.set_schema(Some("shop"));
    let difference = from.difference(&to);
    assert_eq!(difference.set, "SET sql_mode=DEFAULT,time_zone='+03:00'");
    assert_eq!(difference.set_user, "SET @`old`=X'',@`old`=NULL,@`x`='a'");
    assert_eq!(difference.schema.as_deref(), Some("shop"));
    assert!(to.difference(&to).is_empty());
    assert_eq!(StateMap::default().difference(&state(&[("a", "1"), ("b", "x")])).set, "SET a=1,b='x'");
    assert_eq!(state(&[("a", "1"), ("b", "x")]).difference(&StateMap::default()).set, "SET a=DEFAULT,b=DEFAULT");
    let checks = state(&[("unique_checks", "OFF")]);
    assert_eq!(checks.difference(&StateMap::default()).set, "SET unique_checks=@@global.unique_checks");
}

#[test]
fn a_user_variable_that_is_null_keeps_its_type() {
    let mut state = StateMap::default();
    state.set_user_variable("x", "NULL");
    assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=X'',@`x`=NULL");
    state.set_user_variable("x", "1.5");
    state.set_user_variable("x", "NULL");
    state.set_user_variable("x", "NULL");
    assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=1.5,@`x`=NULL");
    state.set_user_variable("x", "2");
    assert_eq!(StateMap::default().difference(&state).set_user, "SET @`x`=2");
}

#[test]
fn charset_and_collation_of_the_connection_are_one_thing() {
    let mut session = state(&[("collation_connection", "utf8mb4_bin")]);
    session.set_variable("character_set_connection", "latin1");
    assert_eq!(session.entries.len(), 1);
    let difference = state(&[("collation_connection", "utf8mb4_bin")]).difference(&session);
    assert_eq!(difference.set, "SET character_set_connection='latin1'");
}

#[test]
fn statements_are_prepared_in_their_own_context_and_nothing_else_of_it() {
    let mut now = state(&[("sql_mode", "ANSI"), ("time_zone", "+02:00")]);
    now.set_schema(Some("shop"));
    let then = state(&[("collation_connection", "latin1_bin"), ("gtid_seq_no", "5")]);
    let there = now.to_prepare_as_in(&then);
    assert_eq!(there.prepare_context(), then.prepare_context());
    assert_eq!((there.variable("time_zone"), there.variable("gtid_seq_no")), (Some("+02:00"), None));
    assert!(then.needs_reset(&there) && !there.needs_reset(&now));
}

#[test]
fn a_connection_whose_literals_are_wide_is_reset_before_it_gets_another_state() {
    let wide = state(&[("collation_connection", "utf16_general_ci"), ("time_zone", "SYSTEM")]);
    let other = state(&[("character_set_connection", "utf32"), ("time_zone", "SYSTEM")]);
    assert!(!wide.needs_reset(&wide) && !StateMap::default().needs_reset(&wide));
    let difference = wide.difference(&other);
    assert!(difference.reset && other.needs_reset(&StateMap::default()));
    assert_eq!(difference.set, "SET character_set_connection='utf32',time_zone='SYSTEM'");
    assert!(!state(&[("collation_connection", "utf8mb4_bin")]).needs_reset(&other));
}

#[test]
fn the_collation_of_literals_is_that_of_the_connection() {
    let mut catalog = Catalog::default();
    for (id, name, is_default) in [(8, "latin1_swedish_ci", true), (47, "latin1_bin", false)] {
        catalog.collations.insert(id, Collation { charset: "latin1".into(), name: name.into(), is_default });
    }
    let of = |name: &str, value: &str| state(&[(name, value)]).connection_collation(&catalog).map(str::to_owned);
    assert_eq!(of("character_set_connection", "latin1").as_deref(), Some("latin1_swedish_ci"));
    assert_eq!(of("collation_connection", "latin1_bin").as_deref(), Some("latin1_bin"));
    assert_eq!(of("time_zone", "SYSTEM"), None);
}

#[test]
fn choosing_a_schema_takes_its_character_set_away() {
    let mut from = state(&[("collation_database", "latin1_swedish_ci")]);
    let mut to = from.clone();
    from.set_schema(Some("a"));
    from.set_variable("collation_database", "latin1_swedish_ci");
    to.set_schema(Some("b"));
    to.set_variable("collation_database", "latin1_swedish_ci");
    assert_eq!(from.difference(&to).set, "SET collation_database='latin1_swedish_ci'");
}

#[test]
fn what_has_no_default_resets_the_connection() {
    let to = state(&[("sql_mode", "ANSI")]);
    for (name, value) in [("gtid_seq_no", "5"), ("require_row_format", "1")] {
        let difference = state(&[(name, value), ("sql_mode", "ANSI")]).difference(&to);
        assert!(difference.reset, "{name}");
        assert_eq!(difference.set, "SET sql_mode='ANSI'");
    }
}

#[test]
fn values_are_written_so_that_every_mode_reads_them_alike() {
    for (name, value, literal) in [
        ("wait_timeout", "100", "100"),
        ("max_statement_time", "1.500000", "1.500000"),
        ("time_zone", "-03:00", "'-03:00'"),
        ("sql_mode", "", "''"),
        ("character_set_results", "", "NULL"),
        ("enforce_storage_engine", "", "NULL"),
        ("innodb_tmpdir", "", "NULL"),
        ("default_regex_flags", "", "''"),
        ("system_versioning_asof", "DEFAULT", "DEFAULT"),
        ("alter_algorithm", "DEFAULT", "'DEFAULT'"),
        ("init_connect", "it's", "X'69742773'"),
        ("x", "1.2.3", "'1.2.3'"),
    ] {
        assert_eq!(assignment(name, value), format!("{name}={literal}"));
    }
}

#[test]
fn a_collation_for_results_is_set_by_its_name_before_what_it_sets_along() {
    let collation =
        |charset: &str, name: &str, is_default| Collation { charset: charset.into(), name: name.into(), is_default };
    let (plain, special) =
        (collation("utf8mb4", "utf8mb4_general_ci", true), collation("utf8mb4", "utf8mb4_unicode_ci", false));
    let mut to = state(&[("character_set_client", "latin1"), ("collation_connection", "latin1_swedish_ci")]);
    let mut from = to.clone();
    to.set_results_collation(&special);
    assert_eq!(
        from.difference(&to).set,
        "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci,character_set_client='latin1',\
         collation_connection='latin1_swedish_ci'"
    );
    assert_eq!(to.difference(&from).set, "SET character_set_results=DEFAULT");
    from.set_results_collation(&plain);
    assert_eq!(to.difference(&from).set, "SET character_set_results='utf8mb4'");
    assert!(to.difference(&to).is_empty());
    let mut alone = StateMap::default();
    alone.set_results_collation(&special);
    assert_eq!(
        StateMap::default().difference(&alone).set,
        "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci,character_set_client=DEFAULT,collation_connection=DEFAULT"
    );
}

#[test]
fn ignore_space_asked_for_at_login_is_a_mode_that_a_fix_up_brings_back() {
    let mut catalog = Catalog::default();
    catalog.globals.insert("sql_mode".into(), "ANSI".into());
    let plain = StateMap::after_login(&catalog, 0, None).ignoring_space(false, &catalog);
    let asked = StateMap::after_login(&catalog, 0, None).ignoring_space(true, &catalog);
    assert_eq!(plain.variable("sql_mode"), None);
    assert_eq!(plain.difference(&asked).set, "SET sql_mode='IGNORE_SPACE,ANSI'");
}

#[test]
fn the_charset_of_the_schema_comes_back_with_the_schema() {
    let plain = {
        let mut plain = StateMap::default();
        plain.set_schema(Some("shop"));
        plain
    };
    let mut own = plain.clone();
    own.set_variable("collation_database", "latin1_bin");
    assert_eq!(plain.difference(&own).set, "SET collation_database='latin1_bin'");
    let back = own.difference(&plain);
    assert_eq!((back.schema.as_deref(), back.set.as_str()), (Some("shop"), ""));
    own.set_schema(Some("shop"));
    assert_eq!(own, plain);
}

#[test]
fn a_schema_once_chosen_can_only_be_exchanged() {
    let (mut with, without) = (StateMap::default(), StateMap::default());
    with.set_schema(Some("shop"));
    assert!(without.can_become(&with) && with.can_become(&with) && !with.can_become(&without));
}

#[test]
fn a_default_that_a_server_refuses_goes_alone_if_the_server_names_it() {
    let mut began = Catalog::default();
    for (name, value) in [("sql_mode", "ANSI"), ("max_sort_length", "1024"), ("time_zone", "Europe/Berlin")] {
        began.globals.insert(name.into(), value.into());
        began.uneven.insert(name.into(), value.into());
    }
    let mut given = StateMap::of_session(&began, 0, None);
    given.set_variable("max_sort_length", "2000");
    let without = |refusal: &str| {
        let without = given.without_uneven(&began, &began, refusal)?;
        Some(["sql_mode", "max_sort_length", "time_zone"].map(|name| without.variable(name).map(str::to_owned)))
    };
    let known = |value: &str| Some(value.to_owned());
    let refused = "Unknown or incorrect time zone: 'Europe/Berlin'";
    assert_eq!(without(refused), Some([None, known("2000"), None]), "the message names no variable");
    let refused = "Variable 'sql_mode' can't be set to the value of 'ANSI'";
    assert_eq!(without(refused), Some([None, known("2000"), known("Europe/Berlin")]));
}

#[test]
fn a_session_keeps_what_it_began_with_when_servers_get_other_defaults() {
    let catalog = |mode: &str, uneven: bool| {
        let mut catalog = Catalog::default();
        catalog.globals.insert("sql_mode".into(), mode.into());
        if uneven {
            catalog.uneven.insert("sql_mode".into(), mode.into());
        }
        catalog
    };
    let (began, changed) = (catalog("ANSI", false), catalog("TRADITIONAL", true));
    let old = StateMap::of_session(&began, 0, None);
    assert_eq!((old.variable("sql_mode"), old.keep_beginning(&began, &began)), (None, None));
    let kept = old.keep_beginning(&began, &changed).unwrap();
    assert_eq!(kept.variable("sql_mode"), Some("ANSI"));
    assert_eq!(StateMap::of_session(&changed, 0, None).variable("sql_mode"), Some("TRADITIONAL"));
    let own = state(&[("sql_mode", "ORACLE")]);
    assert_eq!(own.keep_beginning(&began, &changed), None, "what the session set itself stays");
    assert_eq!(kept.without_uneven(&began, &changed, ""), Some(old.clone()));
    assert_eq!(old.without_uneven(&began, &changed, ""), None);
    assert_eq!(own.without_uneven(&began, &changed, "'sql_mode'"), None, "likewise");
    let fresh = StateMap::after_login(&changed, 0, None);
    assert_eq!(fresh.difference(&kept).set, "SET sql_mode='ANSI'");
}
