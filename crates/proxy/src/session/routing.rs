//! The route of a query. The facts that it depends on are collected here; [`route`] decides.

use config::{CacheMode, Consistency};
use route::state::StateFacts;
use route::{CachePromise, Demand, Facts, Reason, Route, Servers, Target};

use super::Session;
use super::cache::{Fill, is_for_cache};
use super::cluster_session::ClusterSession;
use super::query::Query;

impl Session {
    /// Decides where a query goes, once; `fill` says that the result cache is to keep its answer.
    #[inline]
    pub(super) fn route(&mut self, query: &Query<'_>, fill: Option<&Fill>) -> Route {
        let facts = self.facts_for_route(query, fill);
        let demand = route::demand(&facts, &query.statement, query.plan.directive());
        if query.statement.kind == sql::Kind::Unknown {
            self.env.worker.stats.unknown_statements.add_one();
        }
        if demand.asks_for_all() {
            self.take_newest_primary();
        }
        match self.here.depends_on_servers(&demand) {
            true => self.route_among_servers(query, demand, (facts.cache, fill)),
            false => route::decide(demand, None),
        }
    }

    fn facts_for_route(&self, query: &Query<'_>, fill: Option<&Fill>) -> Facts {
        let StateFacts { autocommit, reads_only, in_system_schema, .. } = self.belief.facts();
        let identity = &self.who.identity;
        Facts {
            pinned: self.here.held.is_some(),
            split: identity.split,
            autocommit,
            reads_only,
            will_pin: query.will_pin() || query.may_run_unread_code(),
            consistency: identity.consistency,
            has_primary: self.here.cluster.primary().is_some(),
            in_system_schema,
            may_write: self.here.may_write_unseen(query),
            cache: self.here.cache_promise(query, fill),
        }
    }

    /// Collects what is known of the servers, and has the route decided among them. Newer positions are asked for if no
    /// replica will do.
    fn route_among_servers(
        &mut self,
        query: &Query<'_>,
        mut demand: Demand,
        (promise, fill): (CachePromise, Option<&Fill>),
    ) -> Route {
        self.settle_writes();
        if demand.consistency == Consistency::Table {
            if promise == CachePromise::Rule {
                self.watch_writes();
            }
            demand.reads = fill.map_or_else(|| self.read_scope(query), |fill| fill.reads().clone());
        }
        let is_named = demand.target != Target::Reader;
        let published = &self.here.cluster.shared.published;
        let (view, positions) = (self.here.cluster.view(), published.positions.load());
        let lags = demand.max_lag.map(|_| published.lags.load());
        let all = self.writes_of_all(&demand, &positions);
        let needs = self.here.needs_of(&demand, &all, &positions);
        let near = self.here.near(&demand, lags.as_ref().map(|lags| &***lags));
        let route = route::decide(demand, Some(&Servers { view: &view, needs, near }));
        if route.lacks_replica() || is_named && route.target == Target::Reader {
            published.want_positions();
        }
        route
    }
}

impl ClusterSession {
    #[inline]
    fn cache_promise(&self, query: &Query<'_>, fill: Option<&Fill>) -> CachePromise {
        match (fill, query.plan.cache()) {
            (Some(fill), _) if fill.is_shared() && !self.cluster.view().same_data => CachePromise::SharedFill,
            (Some(_), _) => CachePromise::Fill,
            (None, Some(cache))
                if cache.wanted.mode == CacheMode::On && is_for_cache(query) && !self.cluster.view().same_data =>
            {
                CachePromise::Rule
            }
            (None, _) => CachePromise::None,
        }
    }

    /// Whether the route depends on what replicas have.
    fn depends_on_servers(&self, demand: &Demand) -> bool {
        let has_bounds = demand.max_lag.is_some() || demand.consistency != Consistency::None;
        match &demand.target {
            Target::Primary | Target::Pinned => false,
            Target::Named(_) => has_bounds && demand.reason == Reason::Rule,
            Target::Reader => {
                demand.max_lag.is_some()
                    || has_bounds && (demand.asks_for_all() || !self.may_read_where_it_has_read(demand))
            }
        }
    }

    /// Why a replica might refuse a statement that only reads by its text.
    #[inline]
    fn may_write_unseen(&self, query: &Query<'_>) -> Option<Reason> {
        // Of several statements the first has been answered when a replica refuses a later one.
        if query.statement.parts > 1 && query.hides.is_some_and(|hidden| hidden.unread) {
            return Some(Reason::WritingFunction);
        }
        // A function may have become one that writes since the catalog was read.
        let is_unsure = query.statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
            && !self.knows_code_of(query)
            && self.cluster.primary().is_some();
        is_unsure.then_some(Reason::UnknownFunction)
    }
}
