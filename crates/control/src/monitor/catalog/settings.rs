//! Triggers and functions that set session variables, as their bodies tell.

use std::collections::HashSet;

/// Variables of sessions that no list of the servers has, or that no connection is brought to.
const ALSO_OF_SESSIONS: [&str; 14] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "identity",
    "insert_id",
    "last_insert_id",
    "max_error_count",
    "profiling",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "sql_log_bin",
    "timestamp",
];

/// The names of variables that a session may set, by those that servers list.
pub(super) fn names_of(listed: &[String]) -> HashSet<String> {
    listed.iter().cloned().chain(ALSO_OF_SESSIONS.map(str::to_owned)).collect()
}

/// Whether a function may set one of these session variables. A column of that name that is compared counts, too: a wrong guess only
/// sends a read to the primary.
pub(super) fn sets_session(body: &str, variables: &HashSet<String>) -> bool {
    let body = body.to_lowercase();
    let is_in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let (mut rest, mut before) = (&*body, "");
    while let Some(start) = rest.find(is_in_word) {
        let at = body.len() - rest.len() + start;
        let word = &body[at..][..body[at..].find(|c| !is_in_word(c)).unwrap_or(body.len() - at)];
        rest = &body[at + word.len()..];
        let sets_some = matches!(word, "names" | "character" | "charset" | "session" | "local" | "role");
        let tracks = word.starts_with("session_track_");
        let is_assigned = || {
            let behind = rest.trim_start_matches('`').trim_start();
            behind.starts_with('=') || behind.starts_with(":=")
        };
        if before == "set" && sets_some
            || (tracks || variables.contains(word)) && is_assigned() && is_of_session(&body[..at], word)
        {
            return true;
        }
        before = word;
    }
    false
}

/// Whether a name behind this part of a body is that of a session variable, and not of a user variable, a column or a local variable.
fn is_of_session(ahead: &str, name: &str) -> bool {
    let ahead = ahead.trim_end_matches('`');
    if ahead.ends_with("@@") || ["@@session.", "@@local."].iter().any(|scope| ahead.ends_with(scope)) {
        return true;
    }
    let is_declared = || ahead.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').any(|word| word == name);
    !(ahead.ends_with(['@', '.']) || ahead.contains("declare") && is_declared())
}

/// Whether the last word of this part of a body may be a session variable: it is no column of NEW, no user variable, and no local one,
/// which was declared before.
fn assigns_setting(before: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '`' | '"');
    let before = before.trim_end();
    let (ahead, name) = before.split_at(before.trim_end_matches(is_of_name).len());
    let is_declared = || ahead.split(|c| !is_of_name(c)).any(|word| word == name);
    !name.is_empty() && (ahead.ends_with("@@") || !ahead.ends_with(['@', '.']) && !is_declared())
}

/// Whether a trigger may set a session variable: all bodies that SET anything but a column of NEW. One with a comma may set more behind
/// that column. Words in strings and comments count. In MariaDB's Oracle mode an assignment goes without SET.
pub(super) fn sets_settings(body: &str) -> bool {
    let body = body.to_lowercase();
    if body.match_indices(":=").any(|(at, _)| assigns_setting(&body[..at])) {
        return true;
    }
    let is_in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
    body.match_indices("set").any(|(at, set)| {
        let (before, behind) = (&body[..at], &body[at + set.len()..]);
        let is_word = !is_in_word(before.chars().next_back()) && !is_in_word(behind.chars().next());
        is_word && (body.contains(',') || !behind.trim_start().starts_with("new."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_set_session_variables_are_found() {
        let variables = names_of(&["time_zone".to_owned(), "sort_buffer_size".to_owned()]);
        for body in [
            "BEGIN SET time_zone = '+03:00'; RETURN 1; END",
            "BEGIN DECLARE x INT; SET x = 1, `time_zone` := '+03:00'; RETURN x; END",
            "BEGIN SET SESSION lc_time_names = 'de_DE'; RETURN 1; END",
            "BEGIN SET @@sort_buffer_size = 1; RETURN 1; END",
            "BEGIN SET @@session.insert_id=1; RETURN 1; END",
            "BEGIN SET NAMES latin1; RETURN 1; END",
            "BEGIN SET session_track_schema = 1; RETURN 1; END",
            "BEGIN time_zone := '+03:00'; RETURN 1; END",
        ] {
            assert!(sets_session(body, &variables), "{body}");
        }
        for body in [
            "RETURN CONVERT_TZ(x, @@time_zone, 'UTC')",
            "BEGIN DECLARE time_zone TEXT; SET time_zone = 'x'; RETURN time_zone; END",
            "BEGIN SET @time_zone = 1; RETURN 1; END",
            "BEGIN DECLARE t TIMESTAMP; SET t = NOW(); RETURN t; END",
            "RETURN (SELECT COUNT(*) FROM u WHERE u.time_zone = 'x')",
        ] {
            assert!(!sets_session(body, &variables), "{body}");
        }
    }

    #[test]
    fn triggers_that_set_session_variables_are_found() {
        for body in [
            "SET time_zone = '+03:00'",
            "BEGIN SET NEW.a = 1, SESSION lc_time_names = 'de_DE'; END",
            "SET @@time_zone = '+03:00'",
            "BEGIN SET @x = 1; set sql_mode = ''; END",
            "SET@@session.time_zone='+03:00'",
            "SET`time_zone`='+03:00'",
            "SET NEW.a = ';', time_zone = '+03:00'",
            "BEGIN time_zone := '+03:00'; END",
            "BEGIN `time_zone`:= '+03:00'; END",
            "BEGIN @x := 1; @@time_zone := '+03:00'; END",
        ] {
            assert!(sets_settings(body), "{body}");
        }
        for body in [
            "SET NEW.a = 1",
            "BEGIN SET NEW.a = 1; SET\nNEW.b = 2; END",
            "INSERT INTO t VALUES ('offset')",
            "SELECT @x := 1",
            "DECLARE x INT; BEGIN x := 1; NEW.a := x; :NEW.b := x; END",
        ] {
            assert!(!sets_settings(body), "{body}");
        }
    }
}
