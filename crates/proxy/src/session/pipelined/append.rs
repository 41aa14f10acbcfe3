//! A read on its way to a pipeline: which one it is, and what is sent.

use std::rc::Rc;
use std::time::Instant;

use config::Pipelines;
use facts::view::ServerId;
use wire::command::Command;
use wire::exchange::Expect;

use super::Appended;
use crate::outgoing::{Outgoing, Purpose};
use crate::pipeline::{Pipeline, Read, Wanted, Why};
use crate::pool::{Connection, Lease};
use crate::session::Session;
use crate::session::attempts::Attempts;
use crate::session::cache::Fill;
use crate::session::checkout::Choice;
use crate::session::prepare_again::StatementOnPipeline;
use crate::session::query::{Body, Query};
use route::Route;

impl Session {
    /// Appends a query to a pipeline.
    ///
    /// # Errors
    /// Why it has to run on a connection of its own.
    pub(super) fn append_to_pipeline(
        &mut self,
        query: &Query<'_>,
        own: Option<Lease>,
        route: &Route,
        fill: Option<&Fill>,
        attempts: &mut Attempts,
    ) -> Result<Appended, Why> {
        let cluster = self.here.cluster.clone();
        let (chosen, pipeline) = match own {
            Some(own) => (own.server(), cluster.pipelines.begin(own)),
            None => self.find_pipeline(query, route, attempts)?,
        };
        let mut out = self.env.worker.outgoing.take();
        let written = pipeline.with_lease(|mut lease| {
            let written =
                !self.limits_differ(&lease.origin) && self.write_shared(&mut lease, &pipeline, query, &mut out);
            (lease, written)
        });
        if written != Some(true) {
            pipeline.leave();
            self.env.worker.outgoing.keep(out);
            return Err(Why::NoConnection);
        }
        // Before it is sent: a server that hears of a write while it reads may not have read it.
        let copy = self.copy_for(fill, chosen);
        self.here.begin_load(chosen);
        let place = pipeline.append(query.statement.digest, attempts.begun, &mut out);
        self.env.worker.outgoing.keep(out);
        Ok(Appended { server: chosen, place, copy })
    }

    /// A pipeline for a query, and its server.
    ///
    /// # Errors
    /// Why it has to run on a connection of its own.
    fn find_pipeline(
        &self,
        query: &Query<'_>,
        route: &Route,
        attempts: &mut Attempts,
    ) -> Result<(ServerId, Rc<Pipeline>), Why> {
        let cluster = &self.here.cluster;
        let always = self.who.wants_pipelines(query) == Pipelines::Always;
        if !always && !cluster.pipelines.is_short(query.statement.digest, attempts.at) {
            return Err(Why::UnknownForm);
        }
        let view = cluster.view();
        let Choice::Server(chosen, None) = self.choose(route, &view, attempts, &mut None) else {
            return Err(Why::Position);
        };
        let server = view.server(chosen).ok_or(Why::Position)?;
        if !always && cluster.loads.outstanding(chosen) == 0 {
            return Err(Why::Quiet);
        }
        let identity = &self.who.identity;
        let wanted = Wanted { server, key: &identity.key, login: identity.login, state: &self.belief.state };
        let pipeline = cluster.pipelines.find(&cluster.pools, &wanted).ok_or(Why::NoConnection)?;
        Ok((chosen, pipeline))
    }

    /// Writes a query for a pipeline. Gives whether it could: else what it lacks there is on its way for later ones.
    fn write_shared(
        &mut self,
        connection: &mut Connection,
        pipeline: &Rc<Pipeline>,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) -> bool {
        let statement = match query.body {
            Body::Execute(id) => match self.prepared_on_pipeline(connection, id, query) {
                StatementOnPipeline::There(server_id) => Some((id, server_id)),
                StatementOnPipeline::Lacks(mut setup) => {
                    pipeline.append_setup(Read::new(0, Instant::now(), &mut setup));
                    return false;
                }
                StatementOnPipeline::Never => return false,
            },
            _ => None,
        };
        for id in connection.origin.statements.take_closing() {
            out.command(connection, Command::StmtClose, &id.to_le_bytes(), Purpose::Client, Expect::Nothing);
        }
        if let Some(as_came) = self.write_body(connection, query, &query.body, statement, out) {
            out.bytes.extend_from_slice(as_came);
        }
        out.expect(connection, query.expect, Purpose::Client);
        true
    }
}
