//! COM_CHANGE_USER: a login on a connection that lives.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::auth::Scramble;
use wire::handshake::ChangeUser;
use wire::handshake::server::Conversation;
use wire::{Capabilities, errno};

use super::super::Session;
use super::super::client::Request;
use super::super::local::Answered;
use super::super::prove::{Prover, refuse};
use super::identity::identify;
use crate::error::{Refusal, SessionEnd};

/// Refused COM_CHANGE_USERs after which MariaDB answers no more of them on a connection.
const REFUSED_CHANGES_MAX: u8 = 3;
/// MariaDB's pause after one, so that no client tries many passwords.
const REFUSED_CHANGE_PAUSE: Duration = Duration::from_secs(1);

impl Session {
    /// COM_CHANGE_USER: a new login; all of the session's state goes. MariaDB lets a session whose change was refused go on as
    /// who it was, in its schema, three times; MySQL hangs up.
    pub(in crate::session) async fn change_user(&mut self, request: &Request) -> Result<Answered, SessionEnd> {
        let change = match ChangeUser::parse(request.payload(), self.client.capabilities) {
            Ok(change) => change,
            Err(error) => {
                let refusal =
                    Refusal::own(errno::ER_UNKNOWN_COM_ERROR, b"08S01", format_args!("COM_CHANGE_USER: {error}"));
                self.answer_error(request, &refusal);
                return Err(SessionEnd::ClientMisbehaved(error.to_string()));
            }
        };
        let begun = Instant::now();
        self.forget().await;
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        let schema = self.belief.state.schema().map(str::to_owned);
        let goes_on = self.belief.is_mariadb();
        let answered = if goes_on && self.who.login.refused_changes >= REFUSED_CHANGES_MAX {
            self.answer_unknown_command(request)
        } else {
            match self.become_user(request, &change).await {
                Err(SessionEnd::LoginRefused(why)) => {
                    let (log, name) = (&self.env.worker.shared.login_log, &self.here.cluster.shared.name);
                    log.refused(name, &self.env.handle.client(), &change.user, &why.message);
                    self.note_change_refused(&change.user, begun, &why.message);
                    if !goes_on {
                        return Err(SessionEnd::LoginRefused(why));
                    }
                    self.who.login.refused_changes += 1;
                    // The next reset goes back to the collation of this one.
                    self.who.identity.collation = change.collation.unwrap_or(self.who.identity.collation);
                    self.belief.past.refused(&why);
                    Answered::Error(errno::ER_ACCESS_DENIED_ERROR)
                }
                Err(end) => return Err(end),
                Ok(()) => {
                    self.note_login(begun, true);
                    return Ok(Answered::Ok);
                }
            }
        };
        // The character sets are the server's own then, not those of the login: the session needs to know them.
        let limit = {
            let settings = self.env.listener.settings.load();
            settings.hold.min(settings.login_timeout)
        };
        self.here.cluster.first_catalog(limit).await;
        self.begin_anew_in_schema(0, schema.as_deref()).await;
        self.belief.status = self.belief.status_at_rest();
        tokio::time::sleep(REFUSED_CHANGE_PAUSE).await;
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        Ok(answered)
    }

    async fn become_user(&mut self, request: &Request, change: &ChangeUser) -> Result<(), SessionEnd> {
        let scramble: Scramble = self.who.login.scramble;
        let channel = self.client.stream.channel();
        let conversation = Conversation::resume(scramble, request.sequence, channel, self.client.capabilities);
        let mut prover = Prover {
            worker: &self.env.worker,
            cluster: &self.here.cluster,
            listener: &self.env.listener,
            handle: &self.env.handle,
            stream: &mut self.client.stream,
            speaks_native: self.who.login.speaks_native,
            memory: None,
            was_denied: Cell::default(),
        };
        let proven = prover.prove(conversation, &change.user, change.plugin.as_deref(), &change.auth_response).await?;
        let collation = change.collation.unwrap_or(self.who.identity.collation);
        let mut capabilities = self.client.capabilities;
        // The setting of COM_SET_OPTION stays.
        let several = self.who.identity.key.capabilities.contains(Capabilities::MULTI_STATEMENTS);
        capabilities.set(Capabilities::MULTI_STATEMENTS, several);
        let before = match identify(
            &self.env.worker,
            &self.here.cluster,
            &self.env.listener,
            &self.env.handle,
            &proven,
            (capabilities, collation),
        ) {
            Ok(identity) => std::mem::replace(&mut self.who.identity, identity),
            Err(refusal) => return Err(refuse(&mut self.client.stream, proven.finish, &refusal).await),
        };
        self.here.count_user(&self.who.identity.user);
        self.who.identity.describe(&change.attributes);
        self.env.handle.set_login(self.who.shown(&self.env.listener));
        self.begin_anew(collation, None).await;
        let statement_time =
            self.here.cluster.shared.statement_time(&self.who.identity.user, self.env.handle.client_ip());
        if let Some(seconds) = statement_time {
            Arc::make_mut(&mut self.belief.state).set_variable("max_statement_time", &seconds);
        }
        self.find_account_change();
        self.belief.gone_schema = None;
        if let Err(refusal) = self.enter(change.schema.as_deref(), proven.expired).await {
            self.who.identity = before;
            self.here.count_user(&self.who.identity.user);
            self.env.handle.set_login(self.who.shown(&self.env.listener));
            return Err(refuse(&mut self.client.stream, proven.finish, &refusal).await);
        }
        self.belief.status = self.belief.status_at_rest();
        self.accept(proven).await
    }
}
