//! Triggers that set session variables, as their bodies tell.

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
