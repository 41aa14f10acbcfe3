//! Logins of the page: a cookie stands for a key.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

use super::keys::Role;

/// Logins at a time. One more ends the oldest.
const LOGINS_MAX: usize = 256;
/// The time after which a login ends.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Random bytes of a cookie and of a token.
const SECRET_BYTES: usize = 32;

/// One login. It has no `Debug`: both texts are secrets.
#[derive(Clone)]
pub(crate) struct Login {
    /// The role of its key.
    pub(crate) role: Role,
    /// The value of the cookie, which scripts do not see.
    pub(crate) cookie: String,
    /// The text that changes show, which other sites do not know.
    pub(crate) token: String,
    since: Instant,
}

/// The logins, the oldest first.
#[derive(Default)]
pub(super) struct Logins(Vec<Login>);

impl Logins {
    /// Adds one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn add(&mut self, role: Role, now: Instant) -> Result<Login, String> {
        let login = Login { role, cookie: secret()?, token: secret()?, since: now };
        self.0.retain(|login| login.lasts(now));
        if self.0.len() >= LOGINS_MAX {
            self.0.remove(0);
        }
        self.0.push(login.clone());
        Ok(login)
    }

    /// The login of this cookie. All are compared.
    pub(super) fn find(&self, cookie: &str, now: Instant) -> Option<Login> {
        let mut found = None;
        for login in &self.0 {
            let same = bool::from(login.cookie.as_bytes().ct_eq(cookie.as_bytes()));
            found = if same { Some(login) } else { found };
        }
        found.filter(|login| login.lasts(now)).cloned()
    }

    /// Ends the login of this cookie.
    pub(super) fn remove(&mut self, cookie: &str) {
        self.0.retain(|login| !bool::from(login.cookie.as_bytes().ct_eq(cookie.as_bytes())));
    }

    /// Keeps these only.
    pub(super) fn retain(&mut self, keep: impl FnMut(&Login) -> bool) {
        self.0.retain(keep);
    }
}

impl Login {
    fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < LIFE
    }
}

fn secret() -> Result<String, String> {
    let mut bytes = [0; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the system has no randomness".to_owned())?;
    let mut text = String::with_capacity(2 * SECRET_BYTES);
    for byte in bytes {
        // Writing into a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_login_more_ends_the_oldest_and_all_are_different() {
        let (mut logins, now) = (Logins::default(), Instant::now());
        let first = logins.add(Role::View, now).unwrap();
        let others: Vec<Login> = (1..LOGINS_MAX).map(|_| logins.add(Role::Admin, now).unwrap()).collect();
        assert_eq!(logins.find(&first.cookie, now).map(|login| login.role), Some(Role::View));
        logins.add(Role::View, now).unwrap();
        assert!(logins.find(&first.cookie, now).is_none());
        assert!(others.iter().all(|login| logins.find(&login.cookie, now).is_some()));
        let mut texts: Vec<&str> = others.iter().flat_map(|login| [&*login.cookie, &*login.token]).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 2 * others.len());
        assert!(texts.iter().all(|text| text.len() == 64));
    }
}
