//! The part of a session that belongs to its questions.

use std::sync::Arc;

use cache::Context;
use config::{CacheFreshness, CacheMode};
use facts::grants::Fingerprint;
use wire::Capabilities;

use super::super::Session;
use crate::pool::Key;
use policy::CacheRule;
use route::state::StateMap;

/// Capabilities that say how the connection came to be, and nothing of its replies.
const OF_CONNECTION: Capabilities = Capabilities::COMPRESS
    .union(Capabilities::ZSTD_COMPRESSION)
    .union(Capabilities::TLS)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_DATA)
    .union(Capabilities::SSL_VERIFY_SERVER_CERT)
    .union(Capabilities::REMEMBER_OPTIONS);

/// The session's context for the result cache, made when it was last asked for.
#[derive(Debug)]
pub(in crate::session) struct ContextHere {
    state: Arc<StateMap>,
    /// That of the preparation; of a text the same as `state`.
    pub(super) prepared_in: Arc<StateMap>,
    key: Arc<Key>,
    pub(super) wanted: (bool, CacheFreshness, CacheMode),
    /// Of the users' rights.
    version: u64,
    rights: Option<Fingerprint>,
    pub(super) context: Context,
    /// With the user in place of its rights, once that was asked for.
    pub(super) own: Option<Context>,
}

/// For whom an answer is.
#[derive(Clone, Copy, Debug)]
enum For {
    User,
    All,
    Rights(Fingerprint),
}

impl Session {
    /// The context of the session, and of it when the statement was prepared, and the privileges in it.
    pub(super) fn context(
        &mut self,
        cache: &CacheRule,
        prepared_in: Option<Arc<StateMap>>,
    ) -> (Context, Option<Fingerprint>) {
        let wanted = (cache.wanted.shared, cache.wanted.freshness, cache.wanted.mode);
        let prepared_in = prepared_in.unwrap_or_else(|| self.belief.state.clone());
        let version = self.here.cluster.shared.published.grants.version();
        if let Some(here) = &self.here.cache_context
            && self.is_context_of(here, &prepared_in)
            && here.wanted == wanted
        {
            return (here.context.clone(), here.rights);
        }
        let rights = if wanted.0 { None } else { self.rights() };
        let whose = match rights {
            _ if wanted.0 => For::All,
            Some(rights) => For::Rights(rights),
            None => For::User,
        };
        let context = self.context_for(whose, (wanted.1, wanted.2), &prepared_in);
        let (state, key) = (self.belief.state.clone(), self.who.identity.key.clone());
        let kept = context.clone();
        let here = ContextHere { state, prepared_in, key, wanted, version, rights, context: kept, own: None };
        self.here.cache_context = Some(Box::new(here));
        self.note_kind(route::state::hash_of(rights));
        (context, rights)
    }

    /// Whether a context is that of the session as it is now, for statements that were prepared in this state.
    #[inline]
    pub(super) fn is_context_of(&self, here: &ContextHere, prepared_in: &Arc<StateMap>) -> bool {
        Arc::ptr_eq(&here.state, &self.belief.state)
            && Arc::ptr_eq(&here.prepared_in, prepared_in)
            && Arc::ptr_eq(&here.key, &self.who.identity.key)
            && here.version == self.here.cluster.shared.published.grants.version()
    }

    /// The context that was made last, for this user alone.
    pub(super) fn own_context(&mut self) -> Context {
        let Some(mut here) = self.here.cache_context.take() else {
            return self.context_for(For::User, (CacheFreshness::Ttl, CacheMode::On), &self.belief.state);
        };
        let own = match &here.own {
            Some(own) => own.clone(),
            None => self.context_for(For::User, (here.wanted.1, here.wanted.2), &here.prepared_in),
        };
        here.own = Some(own.clone());
        self.here.cache_context = Some(here);
        own
    }

    fn context_for(
        &self,
        whose: For,
        (freshness, mode): (CacheFreshness, CacheMode),
        prepared_in: &StateMap,
    ) -> Context {
        let key = &self.who.identity.key;
        let capabilities = (self.client.capabilities - OF_CONNECTION).bits().to_le_bytes();
        let client = key.client.map(|client| client.ip().to_string()).unwrap_or_default();
        let (kind, who, client) = match &whose {
            For::User => (0, self.who.identity.user.as_bytes(), &*client),
            For::All => (1, &b""[..], ""),
            // Whatever address the servers see, they have them.
            For::Rights(rights) => (2, &rights[..], ""),
        };
        let elsewhere = *prepared_in != *self.belief.state;
        let fixed = [
            mode.word().as_bytes(),
            // A result that was kept without following the log is no good for a question that follows it.
            freshness.word().as_bytes(),
            self.here.cluster.shared.name.as_bytes(),
            &[kind],
            who,
            client.as_bytes(),
            &capabilities,
            &[
                u8::from(self.belief.state.schema().is_some()),
                u8::from(elsewhere),
                u8::from(prepared_in.schema().is_some()),
            ],
            self.belief.state.schema().unwrap_or_default().as_bytes(),
            prepared_in.schema().unwrap_or_default().as_bytes(),
        ];
        let before = prepared_in.answer_context().filter(|_| elsewhere);
        // No assignment is empty.
        let parts = self.belief.state.answer_context().chain([&b""[..]]).chain(before);
        self.env.worker.shared.cache.context(fixed.into_iter().chain(parts))
    }
}
