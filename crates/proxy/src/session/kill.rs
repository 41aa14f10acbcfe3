//! KILL with the ids that clients know: those of Sqluice's own greetings.

use std::sync::atomic::Ordering;
use std::time::Duration;

use wire::Capabilities;
use wire::command::Command;
use wire::packet;

use super::Session;
use super::client::Request;
use crate::error::Refusal;
use crate::sessions::SessionHandle;
use crate::shared::login_as;

/// How long a connection waits for a KILL that was aimed at it, before it is given up.
pub const KILL_WAIT: Duration = Duration::from_secs(2);

impl Session {
    /// KILL [CONNECTION | QUERY] id, and COM_PROCESS_KILL.
    pub(super) async fn kill(&mut self, request: &Request, id: Option<u64>, query_only: bool) {
        let victim = id.and_then(|id| u32::try_from(id).ok()).and_then(|id| self.worker.shared.sessions.find(id));
        let Some(victim) = victim else {
            let message = format!("Unknown thread id: {}", id.unwrap_or(0));
            self.answer_error(request, &Refusal { code: 1094, sqlstate: *b"HY000", message });
            return;
        };
        if victim.id == self.handle.id {
            // A server answers a suicide with an error and then hangs up.
            let interrupted = query_only || !self.is_mariadb();
            let code = if interrupted { 1317 } else { 1927 };
            let message = if interrupted { "Query execution was interrupted" } else { "Connection was killed" };
            self.answer_error(request, &Refusal { code, sqlstate: *b"70100", message: message.into() });
            if !query_only {
                self.handle.kill();
            }
            return;
        }
        match self.kill_other(&victim, query_only).await {
            Ok(()) => {
                self.answer_ok(request, 0);
            }
            Err(refusal) => {
                self.answer_error(request, &refusal);
            }
        }
    }

    async fn kill_other(&self, victim: &SessionHandle, query_only: bool) -> Result<(), Refusal> {
        let running = victim.kill_statement();
        let done = scopeguard(|| victim.killed_statement());
        let result = match running {
            // The server knows who may kill whom: it is asked as the killer's user.
            Some((server, thread_id)) => self.kill_on_server(server, thread_id, query_only).await,
            None if victim.user().is_some_and(|user| user == self.identity.user) => Ok(()),
            None if query_only => Ok(()),
            None => {
                let message = format!("You are not owner of thread {}", victim.id);
                Err(Refusal { code: 1095, sqlstate: *b"HY000", message })
            }
        };
        drop(done);
        if result.is_ok() && !query_only {
            victim.killed.store(true, Ordering::SeqCst);
            victim.wake.call();
        }
        result
    }

    async fn kill_on_server(
        &self,
        server: cluster::view::ServerId,
        thread_id: u64,
        query_only: bool,
    ) -> Result<(), Refusal> {
        let shared = &self.cluster.shared;
        let view = self.cluster.view();
        let Some(server) = view.server(server) else { return Ok(()) };
        let target = shared.target(server, KILL_WAIT, self.identity.key.client);
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
        let login = login_as(&self.identity.user, &self.identity.key.credential, capabilities, self.identity.collation);
        let failed =
            |why: String| Refusal::own(1094, b"HY000", format_args!("the statement could not be killed: {why}"));
        let connected = net::client::connect(&target, login).await.map_err(|error| failed(error.to_string()))?;
        let mut stream = connected.stream;
        let what = if query_only { "QUERY" } else { "CONNECTION" };
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        bytes.push(Command::Query.byte());
        bytes.extend_from_slice(format!("KILL {what} {thread_id}").as_bytes());
        begun.end(&mut bytes, 0);
        let kill = async {
            tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes).await?;
            tokio::io::AsyncWriteExt::flush(&mut stream).await?;
            net::packets::read(&mut stream, 1 << 16).await
        };
        let reply = match tokio::time::timeout(KILL_WAIT, kill).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("no answer within {} ms", KILL_WAIT.as_millis()))),
        };
        if reply.payload.first() != Some(&wire::reply::ERR) {
            return Ok(());
        }
        match wire::reply::ServerError::parse(&reply.payload) {
            // The statement ended just now: there is nothing left to kill.
            Ok(error) if error.code == 1094 => Ok(()),
            Ok(error) => {
                let message = String::from_utf8_lossy(error.message).into_owned();
                Err(Refusal { code: error.code, sqlstate: error.sqlstate, message })
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Runs `last` when it is dropped, also when the future around it is.
fn scopeguard<F: FnOnce()>(last: F) -> impl Drop {
    struct Guard<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Guard<F> {
        fn drop(&mut self) {
            if let Some(last) = self.0.take() {
                last();
            }
        }
    }
    Guard(Some(last))
}
