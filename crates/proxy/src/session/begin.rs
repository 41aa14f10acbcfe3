//! How a session begins: that of a client that was let in, and that of a session of Sqluice's own.

use std::rc::Rc;
use std::sync::Arc;

use facts::view::Flavour;
use sql::Family;

use super::Session;
use super::belief::Belief;
use super::client::Client;
use super::cluster_session::ClusterSession;
use super::environment::Environment;
use super::transaction::Transaction;
use super::who::Who;
use crate::worker::ClusterHere;
use route::state::StateMap;

/// The session that begins, and its place.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Where it runs.
    pub env: Environment,
    /// Its cluster.
    pub cluster: Rc<ClusterHere>,
    /// The client's connection.
    pub client: Client,
    /// The user that has logged in.
    pub who: Who,
    /// The state that the client believes it has.
    pub state: Arc<StateMap>,
}

impl Session {
    /// A session in which nothing was done yet, on servers of this flavour.
    pub(super) fn begin(beginning: Beginning, flavour: &Flavour) -> Session {
        let Beginning { env, cluster, client, who, state } = beginning;
        env.handle.set_login(who.shown(&env.listener));
        let _ = env.handle.cluster.set(cluster.shared.name.clone());
        let family = if flavour.mariadb { Family::MariaDb } else { Family::MySql };
        let belief = Belief::new(state, cluster.catalog(), (family, flavour.number));
        let (transaction, here) = (Transaction::default(), ClusterSession::new(cluster, &who.identity.user));
        let session = Session { env, client, who, belief, transaction, here };
        session.begin_idle_limits();
        session.belief.packet_limit.begin(&session.belief.catalog_at_login);
        session.env.handle.set_schema(session.belief.state.schema_name());
        session
    }
}
