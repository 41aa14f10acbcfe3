//! Tests that cannot run because a program is missing: a line on a developer's machine, a failure in CI.

/// Set to `true` by CI.
const CI_VARIABLE: &str = "CI";

/// A test, or a part of one, is left out because something is missing on this machine.
///
/// With `CI=true` that is a failure: a skip must never count as a pass there.
///
/// # Panics
/// When the environment has `CI=true`.
pub fn skip(missing: &str) {
    let in_ci = std::env::var(CI_VARIABLE).is_ok_and(|value| value == "true");
    assert!(!in_ci, "{missing}; with CI=true nothing may be skipped");
    eprintln!("skipped: {missing}");
}
