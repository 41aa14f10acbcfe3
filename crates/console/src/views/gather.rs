//! A snapshot of the state that a statement's views show, taken as the API takes it: workers answer between two statements.

use std::sync::Arc;

use admin::ask_digests;
use facts::sessions::SessionFacts;
use history::Grown;
use stats::digests::{DigestReport, Order, merge_by_cluster};

use super::{Need, View};
use crate::sources::{Settings, Shared};

/// The state of one moment.
pub(crate) struct Gathered {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Arc<Settings>,
    /// The digests of all workers, if a view needs them, with a row for each cluster.
    pub(crate) digests: DigestReport,
    /// The sessions, if a view needs them.
    pub(crate) sessions: Vec<SessionFacts>,
    /// The growth of digests since the history's last look, if a view needs it; or why there is none.
    pub(crate) grown: Result<Option<Grown>, String>,
}

impl Gathered {
    /// Asks for nothing: views of digests and sessions have no rows.
    pub(crate) fn nothing(shared: &Arc<Shared>) -> Gathered {
        let digests = DigestReport::default();
        Gathered { shared: shared.clone(), settings: shared.settings(), digests, sessions: Vec::new(), grown: Ok(None) }
    }

    /// Asks for what these views need, and for nothing else.
    pub(crate) async fn of(shared: &Arc<Shared>, views: &[&'static View]) -> Gathered {
        let needs = |need: Need| views.iter().any(|view| view.needs.contains(&need));
        let digests = match needs(Need::Digests) {
            true => merge_by_cluster(ask_digests(&*shared.sources.digests, false).await, Order::Time),
            false => DigestReport::default(),
        };
        let sessions = if needs(Need::Sessions) { shared.sources.sessions.list().await } else { Vec::new() };
        let grown = match needs(Need::Growth) {
            true => shared.sources.growth.grown().await.map(Some),
            false => Ok(None),
        };
        Gathered { shared: shared.clone(), settings: shared.settings(), digests, sessions, grown }
    }
}
