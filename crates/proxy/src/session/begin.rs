//! How a session begins: that of a client that was let in, and that of a client's twin.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use facts::view::Flavour;
use sql::Family;
use wire::Status;

use super::client::Client;
use super::packet_limit::PacketLimit;
use super::statements::ClientStatements;
use super::tracking::TrackWish;
use super::{Identity, Past, Session};
use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::{ClusterHere, Worker};
use route::Pins;
use route::state::StateMap;

/// The session that begins, and its place.
#[derive(Debug)]
pub(super) struct Beginning {
    pub worker: Rc<Worker>,
    pub cluster: Rc<ClusterHere>,
    pub listener: Arc<ListenerShared>,
    pub handle: Arc<SessionHandle>,
    pub client: Client,
    pub scramble: wire::auth::Scramble,
    /// Of the certificate that the client saw.
    pub fingerprint: Option<[u8; 32]>,
    pub identity: Identity,
    /// The state that the client believes it has.
    pub state: Arc<StateMap>,
    /// The client named the native plugin at its login.
    pub speaks_native: bool,
}

impl Session {
    /// A session in which nothing was done yet, on servers of this flavour.
    pub(super) fn begin(beginning: Beginning, flavour: &Flavour) -> Session {
        let Beginning {
            worker,
            cluster,
            listener,
            handle,
            client,
            scramble,
            fingerprint,
            identity,
            state,
            speaks_native,
        } = beginning;
        handle.set_user(&identity.user);
        let _ = handle.cluster.set(cluster.shared.name.clone());
        let catalog = cluster.catalog();
        let family = if flavour.mariadb { Family::MariaDb } else { Family::MySql };
        let session = Session {
            idle_limits: Cell::default(),
            idle_defaults: Cell::default(),
            packet_limit: PacketLimit::default(),
            wish: TrackWish::of_servers(&catalog),
            facts: Cell::new(state.facts(&catalog, family, flavour.number)),
            began: catalog.clone(),
            seen: catalog,
            client,
            scramble,
            fingerprint,
            identity,
            state,
            worker,
            cluster,
            listener,
            handle,
            pins: Pins::default(),
            status: Status::AUTOCOMMIT,
            statements: ClientStatements::default(),
            past: Past::default(),
            own_writes: None,
            writes_open: false,
            transaction_reads: super::cache::TransactionReads::default(),
            transaction: None,
            written: None,
            read_last: None,
            held: None,
            cache_context: None,
            written_for_cache: None,
            speaks_native,
            refused_changes: 0,
        };
        session.begin_idle_limits();
        session.packet_limit.begin(&session.began);
        session.handle.set_schema(session.state.schema_name());
        session
    }
}
