//! COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: a client that replicates.
//!
//! The stream has no end of its own, and semi-synchronous replicas answer in the middle of it. So from the command on,
//! client and server are left to themselves. The connection is closed behind it, as servers do too.

use super::client::Request;
use super::relay::RelayError;
use super::write::write;
use super::{Attempts, Session};
use crate::error::{Refusal, SessionEnd};
use route::Route;

impl Session {
    /// Sends the command on a connection in the session's state, which has the variables that the replica has set about itself,
    /// and passes everything on until one side closes.
    pub(super) async fn stream_binlog(&mut self, request: &Request, route: &Route) -> SessionEnd {
        let mut held = match self.checkout(route, &mut Attempts::new()).await {
            Ok(held) => held,
            Err(refusal) => return self.end_stream(request, refusal).await,
        };
        self.env.handle.begin_statement(held.lease.server(), held.lease.origin.thread_id);
        let ready = match self.bring_to_state(&mut held).await {
            Ok(()) => write(&mut held.lease, &request.packets).await,
            failed => failed,
        };
        match ready {
            Ok(()) => {}
            Err(RelayError::Client(error)) => return SessionEnd::ClientLost(error),
            Err(
                RelayError::FixUp(refusal)
                | RelayError::Unprepared(refusal)
                | RelayError::Withheld(refusal)
                | RelayError::Ended(refusal)
                | RelayError::NotThere(refusal),
            ) => {
                return self.end_stream(request, refusal).await;
            }
            Err(RelayError::Server(error)) => {
                let refusal = Refusal::lost(held.lease.server_name(), &error);
                return self.end_stream(request, refusal).await;
            }
            Err(RelayError::UnexpectedInfile { name, .. }) => {
                let refusal = Refusal::file_refused(held.lease.server_name(), &name);
                return self.end_stream(request, refusal).await;
            }
        }
        let early = self.client.take_inbox();
        if !early.is_empty() && write(&mut held.lease, &early).await.is_err() {
            return SessionEnd::ServerLost("the server closed the connection".into());
        }
        let passed = tokio::io::copy_bidirectional(&mut self.client.stream, &mut held.lease.stream).await;
        self.lose_pinned_state();
        drop(held);
        self.env.handle.end_statement(super::kill::KILL_WAIT).await;
        passed.map_or_else(SessionEnd::ClientLost, |_| SessionEnd::ClientLeft)
    }

    async fn end_stream(&mut self, request: &Request, refusal: Refusal) -> SessionEnd {
        self.lose_pinned_state();
        self.answer_error(request, &refusal);
        let _ = self.client.flush().await;
        SessionEnd::ServerLost(refusal.message)
    }
}
