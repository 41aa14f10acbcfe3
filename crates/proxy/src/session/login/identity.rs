//! The user that has logged in, and its limits.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};

use wire::handshake::Attributes;
use wire::{Capabilities, errno};

use super::super::Identity;
use super::super::prove::Proven;
use crate::error::Refusal;
use crate::pool::{Key, MEANINGFUL};
use crate::sessions::SessionHandle;
use crate::shared::{ListenerShared, Shared};
use crate::worker::{ClusterHere, Worker};

/// Most bytes of its client's connection attributes that a session keeps. Servers keep less: 512 bytes, unless they are configured
/// otherwise.
const ATTRIBUTES_KEPT_BYTES_MAX: usize = 4 * 1024;

/// Counts as one of a user's sessions, over all workers, while it lives.
#[derive(Debug)]
pub struct UserSession {
    shared: Arc<Shared>,
    user: Arc<str>,
}

impl UserSession {
    /// One of Sqluice's own, which no limit keeps out.
    pub(in crate::session) fn unlimited(shared: &Arc<Shared>, user: &Arc<str>) -> Option<UserSession> {
        UserSession::begin(shared, user, 0)
    }

    fn begin(shared: &Arc<Shared>, user: &Arc<str>, max: u32) -> Option<UserSession> {
        let mut users = shared.user_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = users.entry(user.clone()).or_insert(0);
        if max > 0 && *count >= max {
            return None;
        }
        *count += 1;
        Some(UserSession { shared: shared.clone(), user: user.clone() })
    }
}

impl Drop for UserSession {
    fn drop(&mut self) {
        let mut users = self.shared.user_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// The limits of a proven client, and the key of its backend connections.
pub(super) fn identify(
    worker: &Worker,
    cluster: &ClusterHere,
    listener: &ListenerShared,
    handle: &SessionHandle,
    proven: &Proven,
    (capabilities, collation): (Capabilities, u16),
) -> Result<Identity, Refusal> {
    let config = worker.shared.config.load();
    let settings = listener.settings.load();
    let own = config.users.get(&*proven.user);
    if let Some(only) = own.and_then(|own| own.cluster.as_ref()).filter(|only| *only != &cluster.shared.name) {
        let why = format_args!("user '{}' may use cluster '{only}' only ([user.NAME] cluster)", proven.user);
        return Err(Refusal::own(errno::ER_DBACCESS_DENIED_ERROR, b"42000", why));
    }
    if let Some(charset) = cluster.unreadable_charset(collation) {
        let message = format!("Variable 'character_set_client' can't be set to the value of '{charset}'");
        return Err(Refusal::like_server(errno::ER_WRONG_VALUE_FOR_VAR, b"42000", message));
    }
    let limits = [settings.max_sessions_per_user, own.map_or(0, |own| own.max_sessions)];
    let max = limits.into_iter().filter(|max| *max > 0).min().unwrap_or(0);
    let Some(session) = UserSession::begin(&worker.shared, &proven.user, max) else {
        let why = format_args!(
            "user '{}' has {max} sessions already (max_sessions_per_user or [user.NAME] max_sessions)",
            proven.user
        );
        return Err(Refusal::own(errno::ER_USER_LIMIT_REACHED, b"42000", why));
    };
    let cluster_settings = cluster.shared.settings.load();
    let pool = &cluster_settings.pool;
    let connections_max = crate::shared::limit_of(pool.max_connections_per_user, own.map(|own| own.max_connections));
    let mut meaningful = MEANINGFUL;
    meaningful.set(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS, proven.expired);
    let key = Key {
        user: proven.user.clone(),
        credential: proven.credential.clone(),
        capabilities: capabilities & meaningful,
        client: cluster_settings.announce.and_then(|_| handle.client_addr()),
        attributes: None,
    };
    let split = own.and_then(|own| own.split).unwrap_or(settings.split);
    let consistency = own.and_then(|own| own.consistency).unwrap_or(settings.consistency);
    Ok(Identity {
        user: proven.user.clone(),
        user_hash: route::state::user_hash(&cluster.shared.name, &proven.user),
        key: cluster.same_key(key),
        login: proven.login,
        attributes: None,
        collation,
        split,
        pipelines: own.and_then(|own| own.pipelines).unwrap_or(settings.pipelines),
        consistency,
        configured: consistency,
        policy_scope: Cell::default(),
        connections_max,
        _session: session,
    })
}

impl Identity {
    /// Keeps what the client said of itself.
    pub(super) fn describe(&mut self, attributes: &Attributes) {
        let kept = attributes.cut(ATTRIBUTES_KEPT_BYTES_MAX);
        self.attributes = (!kept.is_empty()).then(|| kept.packed().into());
    }

    /// From now on the session's connections tell the servers what the client said of itself.
    pub(in crate::session) fn show_attributes(&mut self) {
        if self.key.attributes != self.attributes {
            self.key = Arc::new(Key { attributes: self.attributes.clone(), ..Key::clone(&self.key) });
        }
    }
}
