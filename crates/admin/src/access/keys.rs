//! The keys of the roles. A request shows a key, or the cookie of a login that did.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use axum::http::{HeaderMap, StatusCode, header};
use config::{AdminKeys, Secret};
use subtle::ConstantTimeEq;

use super::attempts::{Attempts, Pace};
use super::logins::{Login, Logins};

/// The rights of a key. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// No key: only logging in.
    Nobody,
    /// Reads.
    View,
    /// Ends sessions and statements, drains, sets maintenance and marks.
    Operate,
    /// Everything.
    Admin,
}

impl Role {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Nobody => "nobody",
            Role::View => "view",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }

    /// The role of this word; any other is nobody's.
    pub(crate) fn of_word(word: &str) -> Role {
        let all = [Role::View, Role::Operate, Role::Admin];
        all.into_iter().find(|role| role.word() == word).unwrap_or(Role::Nobody)
    }
}

/// The header that changes need when a cookie stands for the key. Other sites cannot send it.
pub(crate) const TOKEN_HEADER: &str = "x-sqluice-token";
const BEARER: &[u8] = b"Bearer ";
/// Wrong keys of one address in the login form: so many at once, then one in so many milliseconds.
const LOGIN_PACE: Pace = Pace { burst: 10, each_ms: 5_000 };
/// The same for keys in a header. Programs with an old key must not keep those with the right one out for long.
const HEADER_PACE: Pace = Pace { burst: 100, each_ms: 100 };

/// A refusal: its status and its words.
pub(crate) type Denied = (StatusCode, String);

/// The keys in effect, and the logins.
#[derive(Default)]
pub(crate) struct Access {
    keys: RwLock<AdminKeys>,
    logins: Mutex<Logins>,
    by_login: Attempts,
    by_header: Attempts,
    /// The port that the listener has: browsers keep cookies for a host, whatever the port.
    port: OnceLock<u16>,
}

impl Access {
    /// Says where the listener is.
    pub(crate) fn set_port(&self, port: u16) {
        // It is set once, at the start.
        let _ = self.port.set(port);
    }

    /// Takes new keys. A login by a key that is no longer in effect ends.
    pub(crate) fn set_keys(&self, keys: AdminKeys) {
        let mut own = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let changed = |role: Role| key_of(&own, role) != key_of(&keys, role);
        self.logins().retain(|login| !changed(login.role));
        *own = keys;
    }

    fn logins(&self) -> MutexGuard<'_, Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the cookie.
    pub(crate) fn cookie_name(&self) -> String {
        format!("sqluice_{}", self.port.get().copied().unwrap_or_default())
    }

    /// The role of this key. All keys are compared, and each in the same time.
    fn role_of(&self, shown: &[u8]) -> Option<Role> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for role in [Role::View, Role::Operate, Role::Admin] {
            let same = key_of(&keys, role).is_some_and(|key| bool::from(key.expose().ct_eq(shown)));
            found = if same { Some(role) } else { found };
        }
        found
    }

    fn is_closed(&self) -> bool {
        *self.keys.read().unwrap_or_else(PoisonError::into_inner) == AdminKeys::default()
    }

    /// Logs in by a key.
    ///
    /// # Errors
    /// The key is wrong, or this address showed too many wrong ones.
    pub(crate) fn log_in(&self, key: &[u8], peer: Option<IpAddr>, now: Instant) -> Result<Login, Denied> {
        let role = self.role_in_time(key, &self.by_login, (LOGIN_PACE, peer), now)?;
        self.logins().add(role, now).map_err(|words| (StatusCode::INTERNAL_SERVER_ERROR, words))
    }

    /// Ends the login of this request, if there is one.
    pub(crate) fn log_out(&self, headers: &HeaderMap) {
        if let Some(cookie) = self.cookie(headers) {
            self.logins().remove(&cookie);
        }
    }

    /// The login of this request.
    pub(crate) fn login(&self, headers: &HeaderMap, now: Instant) -> Option<Login> {
        self.logins().find(&self.cookie(headers)?, now)
    }

    /// The role of a request. With a cookie, a change must show the login's token, too.
    ///
    /// # Errors
    /// It shows no key and no login, or wrong ones; or the API is closed.
    pub(crate) fn role(
        &self,
        headers: &HeaderMap,
        is_change: bool,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Result<Role, Denied> {
        if self.is_closed() {
            return Err((StatusCode::FORBIDDEN, "the API is closed: the configuration has no admin.key".to_owned()));
        }
        if let Some(shown) = headers.get(header::AUTHORIZATION) {
            let shown = match shown.as_bytes().split_at_checked(BEARER.len()) {
                Some((scheme, shown)) if scheme.eq_ignore_ascii_case(BEARER) => shown,
                _ => return Err((StatusCode::UNAUTHORIZED, "show the key, as Authorization: Bearer KEY".to_owned())),
            };
            return self.role_in_time(shown, &self.by_header, (HEADER_PACE, peer), now);
        }
        let Some(login) = self.login(headers, now) else {
            let words = match self.cookie(headers) {
                Some(_) => "this login has ended; log in again",
                None => "show the key, as Authorization: Bearer KEY",
            };
            return Err((StatusCode::UNAUTHORIZED, words.to_owned()));
        };
        let token = headers.get(TOKEN_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
        if is_change && !bool::from(login.token.as_bytes().ct_eq(token)) {
            return Err((StatusCode::FORBIDDEN, format!("a change by cookie needs the login's {TOKEN_HEADER}")));
        }
        Ok(login.role)
    }

    fn role_in_time(
        &self,
        shown: &[u8],
        attempts: &Attempts,
        (pace, peer): (Pace, Option<IpAddr>),
        now: Instant,
    ) -> Result<Role, Denied> {
        if self.is_closed() {
            return Err((StatusCode::FORBIDDEN, "the API is closed: the configuration has no admin.key".to_owned()));
        }
        // Before the key is looked at: a refusal says nothing of it.
        if !attempts.may_try(peer, pace, now) {
            let words = "too many wrong keys from your address; wait a few seconds".to_owned();
            return Err((StatusCode::TOO_MANY_REQUESTS, words));
        }
        self.role_of(shown).ok_or_else(|| {
            attempts.failed(peer, pace, now);
            (StatusCode::UNAUTHORIZED, "this is not the key".to_owned())
        })
    }

    fn cookie(&self, headers: &HeaderMap) -> Option<String> {
        let name = self.cookie_name();
        let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
    }
}

fn key_of(keys: &AdminKeys, role: Role) -> Option<&Secret> {
    match role {
        Role::Nobody => None,
        Role::View => keys.view.as_ref(),
        Role::Operate => keys.operate.as_ref(),
        Role::Admin => keys.admin.as_ref(),
    }
}

#[cfg(test)]
mod tests;
