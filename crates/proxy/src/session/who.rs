//! The client's identity, and the facts of its login. A login or COM_CHANGE_USER writes them; statements do not.

use std::cell::Cell;
use std::sync::Arc;

use config::{Consistency, Pipelines, Split};
use policy::rules::RuleScope;

use wire::handshake::Attributes;

use super::event::Numbers;
use super::login::UserSession;
use crate::login_log::cut;
use crate::pool::Key;
use crate::sessions::LoggedIn;
use crate::shared::ListenerShared;

/// Most characters of a program's name: a client may say anything.
const PROGRAM_CHARS_MAX: usize = 128;

/// The user that has logged in, and how.
#[derive(Debug)]
pub(super) struct Who {
    /// The user; COM_CHANGE_USER replaces it.
    pub identity: Identity,
    /// The facts of the login that COM_CHANGE_USER needs.
    pub login: LoginFacts,
    /// The client as events show it, once it has logged in; sessions that fill the cache have none.
    pub client: Option<Arc<events::Client>>,
    /// The numbers of its queries in events, which go on behind COM_CHANGE_USER.
    pub numbers: Cell<Numbers>,
}

impl Who {
    /// The login, as others may know it.
    pub fn shown(&self, listener: &ListenerShared) -> LoggedIn {
        let packed = self.identity.attributes.as_deref().unwrap_or_default();
        let attributes = Attributes::unpack(packed).unwrap_or_default();
        let program = attributes.iter().find(|(name, _)| *name == b"program_name");
        LoggedIn {
            key: self.identity.key.clone(),
            listener: listener.name.clone(),
            program: program.map(|(_, value)| cut(value, PROGRAM_CHARS_MAX).into()),
            tls: self.login.fingerprint.is_some(),
        }
    }
}

/// The facts of a client's login.
#[derive(Debug)]
pub(super) struct LoginFacts {
    /// The greeting's scramble.
    pub scramble: wire::auth::Scramble,
    /// Of the certificate that the client saw; `None` without TLS.
    pub fingerprint: Option<[u8; 32]>,
    /// The client named the native plugin at its login; COM_CHANGE_USER names what it likes best instead.
    pub speaks_native: bool,
    /// COM_CHANGE_USERs that were refused.
    pub refused_changes: u8,
}

/// The client's identity, and its meaning for the backend connections.
#[derive(Debug)]
pub(super) struct Identity {
    /// The user's name.
    pub user: Arc<str>,
    /// Of the name and the cluster.
    pub user_hash: u64,
    /// The backend connections that it can use.
    pub key: Arc<Key>,
    /// The number of its login: connections that logged in before it are not for it.
    pub login: u64,
    /// The client's connection attributes, packed.
    pub attributes: Option<Arc<[u8]>>,
    /// The collation that the client logged in with.
    pub collation: u16,
    /// How its statements are split.
    pub split: Split,
    /// Whether its reads share connections with those of other sessions.
    pub pipelines: Pipelines,
    /// The consistency of reads: as configured, or as the client has set it since.
    pub consistency: Consistency,
    /// The same as listener and user say.
    pub configured: Consistency,
    /// The session values that policy looks at.
    pub policy_scope: Cell<RuleScope>,
    /// Backend connections that the user may use at a time; 0 is no limit.
    pub connections_max: u32,
    /// Counts as one of the user's sessions.
    pub _session: UserSession,
}
