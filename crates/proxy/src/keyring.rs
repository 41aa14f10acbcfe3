//! The clients' proofs of their passwords: needed to log in to servers for them.
//!
//! No account is copied. A native login proves SHA1(password), which is enough for servers that use the same plugin. A
//! `caching_sha2_password` login gives the password itself once, over TLS or encrypted with RSA; it is tried on a server,
//! remembered in memory only, and afterwards the fast path is answered from here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use facts::accounts::Verifier;
use wire::auth::{Credential, caching_sha2};

/// Users that are remembered; beyond that the whole memory starts anew, and users prove their passwords once more.
const USERS_MAX: usize = 100_000;
/// Users whose tries are remembered; beyond that all are forgotten.
const TRYING_MAX: usize = 10_000;
/// Tries are forgotten after so long without another one.
const TRIES_FORGET: Duration = Duration::from_secs(60);
/// Passwords that may be tried on a server one after the other before tries are spread in time.
const TRIES_FREE: u32 = 5;
/// Time between tries then.
const TRY_INTERVAL: Duration = Duration::from_secs(1);

/// The proofs of one cluster's users.
#[derive(Debug, Default)]
pub struct Keyring {
    users: Mutex<HashMap<Arc<str>, UserSecrets>>,
    /// Passwords that were tried, of users who need not exist: nothing of them stays.
    tries: Mutex<HashMap<Arc<str>, Tries>>,
}

#[derive(Debug)]
struct Tries {
    failures: u32,
    last: Instant,
}

#[derive(Debug, Default)]
struct UserSecrets {
    credential: Option<Arc<Credential>>,
    /// SHA256(SHA256(password)), when the password is known.
    sha2_stage2: Option<[u8; 32]>,
    /// An account's hash that the password fits, and one that it does not: checking them again takes milliseconds.
    fits: Option<Verifier>,
    misfits: Option<Verifier>,
}

/// Whether a password that is remembered is an account's.
#[derive(Debug, PartialEq, Eq)]
pub enum PasswordCheck {
    /// It is.
    Yes(Arc<Credential>),
    /// It is not, or none is remembered.
    No,
    /// The password must be checked, and the result reported by [`Keyring::checked`].
    Unchecked(Arc<Credential>),
}

impl Keyring {
    fn users(&self) -> MutexGuard<'_, HashMap<Arc<str>, UserSecrets>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tries(&self) -> MutexGuard<'_, HashMap<Arc<str>, Tries>> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash that the fast path of `caching_sha2_password` is checked against.
    pub fn sha2_stage2(&self, user: &str) -> Option<[u8; 32]> {
        self.users().get(user)?.sha2_stage2
    }

    /// The credential of a user, if it is known.
    pub fn credential(&self, user: &str) -> Option<Arc<Credential>> {
        self.users().get(user)?.credential.clone()
    }

    /// The user proved this: gives it back in the one copy that all of the user's sessions share.
    pub fn remember(&self, user: &Arc<str>, credential: Credential) -> Arc<Credential> {
        self.tries().remove(user);
        let mut users = self.users();
        if users.len() >= USERS_MAX && !users.contains_key(user) {
            users.clear();
        }
        let entry = users.entry(user.clone()).or_default();
        if let Some(known) = &entry.credential
            && **known == credential
        {
            return known.clone();
        }
        entry.sha2_stage2 = match &credential {
            Credential::Password(password) => Some(caching_sha2::stage2(&caching_sha2::stage1(password))),
            _ => None,
        };
        let credential = Arc::new(credential);
        entry.credential = Some(credential.clone());
        (entry.fits, entry.misfits) = (None, None);
        credential
    }

    /// Whether the remembered password is that of an account with these verifiers.
    pub fn knows(&self, user: &str, verifiers: &[Verifier]) -> PasswordCheck {
        let users = self.users();
        let Some(entry) = users.get(user) else { return PasswordCheck::No };
        let Some(credential) = entry.credential.clone().filter(|known| known.cleartext().is_some()) else {
            return PasswordCheck::No;
        };
        let among = |checked: &Option<Verifier>| checked.as_ref().is_some_and(|one| verifiers.contains(one));
        match (among(&entry.fits), among(&entry.misfits)) {
            (true, _) => PasswordCheck::Yes(credential),
            (false, true) => PasswordCheck::No,
            (false, false) => PasswordCheck::Unchecked(credential),
        }
    }

    /// The user's password was checked against one of an account's verifiers.
    pub fn checked(&self, user: &str, credential: &Arc<Credential>, verifier: &Verifier, fits: bool) {
        if let Some(entry) = self.users().get_mut(user)
            && entry.credential.as_ref().is_some_and(|known| known == credential)
        {
            *(if fits { &mut entry.fits } else { &mut entry.misfits }) = Some(verifier.clone());
        }
    }

    /// A server refused what was remembered, or a password that was tried.
    pub fn forget(&self, user: &str) {
        if let Some(entry) = self.users().get_mut(user) {
            entry.credential = None;
            entry.sha2_stage2 = None;
            (entry.fits, entry.misfits) = (None, None);
        }
    }

    /// Whether a password of this user may be tried on a server now. Wrong ones are limited to one a second, so that
    /// who guesses passwords here does not storm the servers.
    pub fn may_try(&self, user: &Arc<str>, now: Instant) -> bool {
        let mut all = self.tries();
        let Some(tries) = all.get_mut(user) else {
            if all.len() >= TRYING_MAX {
                all.clear();
            }
            all.insert(user.clone(), Tries { failures: 1, last: now });
            return true;
        };
        if tries.failures >= TRIES_FREE && now.saturating_duration_since(tries.last) < TRY_INTERVAL {
            return false;
        }
        (tries.failures, tries.last) = (tries.failures.saturating_add(1), now);
        true
    }

    /// Forgets tries that no longer matter.
    pub fn tidy(&self, now: Instant) {
        self.tries().retain(|_, tries| now.saturating_duration_since(tries.last) < TRIES_FORGET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_user_share_one_proof() {
        let (keyring, user) = (Keyring::default(), Arc::from("app"));
        let first = keyring.remember(&user, Credential::password("secret"));
        let again = keyring.remember(&user, Credential::password("secret"));
        assert!(Arc::ptr_eq(&first, &again));
        assert!(keyring.sha2_stage2("app").is_some());
        let changed = keyring.remember(&user, Credential::password("other"));
        assert!(!Arc::ptr_eq(&first, &changed));
        keyring.forget("app");
        assert_eq!((keyring.sha2_stage2("app"), keyring.credential("app")), (None, None));
    }

    #[test]
    fn a_password_is_good_for_the_accounts_that_it_was_checked_for() {
        let (keyring, user) = (Keyring::default(), Arc::from("app"));
        let (one, other) = (Verifier::Native([1; 20]), Verifier::Native([2; 20]));
        assert_eq!(keyring.knows("app", std::slice::from_ref(&one)), PasswordCheck::No);
        let known = keyring.remember(&user, Credential::password("secret"));
        assert_eq!(keyring.knows("app", std::slice::from_ref(&one)), PasswordCheck::Unchecked(known.clone()));
        keyring.checked("app", &known, &one, true);
        keyring.checked("app", &known, &other, false);
        assert_eq!(keyring.knows("app", &[other.clone(), one.clone()]), PasswordCheck::Yes(known.clone()));
        assert_eq!(keyring.knows("app", &[other]), PasswordCheck::No);
        let newer = keyring.remember(&user, Credential::password("newer"));
        keyring.checked("app", &known, &one, true);
        assert_eq!(keyring.knows("app", std::slice::from_ref(&one)), PasswordCheck::Unchecked(newer));
        keyring.remember(&user, Credential::Empty);
        keyring.forget("app");
        assert_eq!(keyring.knows("app", &[one]), PasswordCheck::No);
    }

    #[test]
    fn a_storm_of_wrong_passwords_reaches_servers_once_a_second() {
        let (keyring, user, now) = (Keyring::default(), Arc::from("app"), Instant::now());
        let tried = (0..1000).filter(|_| keyring.may_try(&user, now)).count();
        assert_eq!(tried, TRIES_FREE as usize);
        assert!(keyring.may_try(&user, now + TRY_INTERVAL));
        assert!(!keyring.may_try(&user, now + TRY_INTERVAL));
        keyring.remember(&user, Credential::password("right"));
        assert!(keyring.may_try(&user, now + TRY_INTERVAL));
    }

    #[test]
    fn nothing_of_a_refused_login_stays() {
        let (keyring, now) = (Keyring::default(), Instant::now());
        for number in 0..2 * TRYING_MAX {
            assert!(keyring.may_try(&number.to_string().into(), now));
        }
        assert!(keyring.tries().len() <= TRYING_MAX && keyring.users().is_empty());
        keyring.tidy(now + TRIES_FORGET);
        assert!(keyring.tries().is_empty());
    }
}
