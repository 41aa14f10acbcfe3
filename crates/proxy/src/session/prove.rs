//! Proving who a client is: by the configuration, by what the servers' account says, or by the servers themselves.

mod conditions;
mod counted;
mod judge;
mod plan;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use config::TlsMode;
use facts::accounts::Accounts;
use net::Stream;
use net::packets::{Packet, ReadError};
use tokio::io::AsyncWriteExt;
use wire::auth::{Credential, Scramble, native};
use wire::errno;
use wire::handshake::server::{Conversation, Denial, Finish, Method, Proof, Step};
use wire::handshake::{CLIENT_LOGIN_BYTES_MAX, Channel, ServerError};

use crate::error::{Refusal, SessionEnd};
use crate::login_memory::LoginShare;
use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::{ClusterHere, Worker};
use plan::{Facts, Judge, Plan};
use zeroize::Zeroizing;

/// The longest name of an account, in characters.
const MARIADB_NAME_CHARS_MAX: usize = 128;
const MYSQL_NAME_CHARS_MAX: usize = 32;

/// How long a failed login waits for the accounts to be read again: the password may have been changed just now. Drivers
/// that wait a second for a login (MariaDB's for Node) must hear within it that it was refused.
const REFRESH_WAIT: Duration = Duration::from_millis(800);
/// How long a login waits for the accounts to be read that were changed through here. Before, nobody knows what a server would say: an
/// account that was made just now would be refused.
const CHANGE_WAIT: Duration = Duration::from_secs(3);

/// The identity that a client has proved.
pub struct Proven {
    pub user: Arc<str>,
    pub credential: Arc<Credential>,
    /// The password's hash by the client's plugin, for MariaDB's proof of the certificate.
    pub certificate_hash: Option<Vec<u8>>,
    /// The password has expired: servers let the client in only to change it, if at all.
    pub expired: bool,
    /// The number of this login.
    pub login: u64,
    pub finish: Finish,
}

/// The proof that a client has shown, and by what it is judged.
struct Shown {
    proof: Proof,
    finish: Finish,
    judge: Judge,
    account: Facts,
    /// MariaDB's proof of the certificate takes it for the password's hash, after a signature.
    signed_hash: Option<Vec<u8>>,
}

/// The answer of a second look at the accounts, after a wrong proof.
enum Again {
    /// It is right by what they are now.
    Right(Proof, Plan),
    /// The account is another one now; the client can be asked for it.
    Ask(Plan),
    /// It is wrong.
    Wrong,
}

/// Says no.
pub async fn refuse(stream: &mut Stream, finish: Finish, refusal: &Refusal) -> SessionEnd {
    let mut out = Vec::new();
    let sqlstate = String::from_utf8_lossy(&refusal.sqlstate).into_owned();
    let error = ServerError { code: refusal.code, sqlstate: Some(sqlstate), message: refusal.message.clone() };
    finish.refuse(&error, &mut out);
    // A client that is gone already has nothing to hear.
    let _ = stream.write_all(&out).await;
    let _ = stream.flush().await;
    SessionEnd::LoginRefused(refusal.clone())
}

/// Proves who a client is, at login and at COM_CHANGE_USER.
pub struct Prover<'a> {
    pub worker: &'a Worker,
    pub cluster: &'a ClusterHere,
    pub listener: &'a ListenerShared,
    pub handle: &'a SessionHandle,
    pub stream: &'a mut Stream,
    /// The client has named the native plugin before: that it names another now does not mean that it lacks it.
    pub speaks_native: bool,
    /// The client's share of the memory for logins, until it has logged in.
    pub memory: Option<&'a mut LoginShare>,
    /// It has got the error of a wrong proof.
    pub was_denied: Cell<bool>,
}

impl Prover<'_> {
    /// Runs the conversation to its end; a client that fails has got its error.
    pub async fn prove(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        self.wait_for_turn().await;
        let proven = self.converse(conversation, user, plugin, answer).await;
        self.note_login(proven.is_ok());
        proven
    }

    async fn converse(
        &mut self,
        conversation: Conversation,
        user: &[u8],
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Proven, SessionEnd> {
        let channel = conversation.channel();
        let login = self.cluster.shared.logins.next();
        let user = self.clipped(user);
        if self.listener.settings.load().tls.mode == TlsMode::Required && channel == Channel::Open {
            let refusal = Refusal::own(
                errno::ER_SECURE_TRANSPORT_REQUIRED,
                b"HY000",
                "connections using insecure transport are prohibited (listener tls)",
            );
            return Err(refuse(self.stream, conversation.finish(), &refusal).await);
        }
        self.await_changed_accounts().await;
        let plan = match self.plan(&user, plugin, channel).await {
            Ok(plan) => plan,
            Err(refusal) => return Err(refuse(self.stream, conversation.finish(), &refusal).await),
        };
        let shown = self.ask(conversation, plan, &user, plugin, answer).await?;
        let Shown { proof, finish, judge, mut account, signed_hash } = shown;
        let certificate_hash = match &proof {
            Proof::NativeStage1(stage1) => Some(native::stage2(stage1).to_vec()),
            Proof::Signature => signed_hash,
            Proof::Empty | Proof::CachingSha2Stage1(_) | Proof::Password(_) => None,
        };
        let judged = match self.judge(&user, proof, judge).await {
            Ok(credential) => match self.not_blocked(&user, &credential).await {
                Ok(()) => self.admit_now(&user, &mut account).await.map(|()| credential),
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        match judged {
            Ok(credential) => {
                let expired = account.expired && {
                    // Perhaps it was changed just now.
                    let accounts = self.refresh_accounts().await;
                    accounts.find(&user, self.handle.client_ip()).is_none_or(|account| account.expired)
                };
                Ok(Proven { user, credential, certificate_hash, expired, login, finish })
            }
            Err(refusal) => Err(refuse(self.stream, finish, &refusal).await),
        }
    }

    /// Asks the client for its proof. A client with a wrong answer has got its error.
    async fn ask(
        &mut self,
        conversation: Conversation,
        plan: Plan,
        user: &Arc<str>,
        plugin: Option<&[u8]>,
        answer: &[u8],
    ) -> Result<Shown, SessionEnd> {
        let (channel, scramble) = (conversation.channel(), conversation.scramble());
        let Plan { method, mut judge, mut account } = plan;
        let mut signed_hash = plan::signed_hash(&method);
        // A native answer, or one to an account without a password, can be checked again, should the accounts turn out to be old.
        // Of an account that is not there they were read just now: as long as a wrong password takes, and no longer.
        let mut may_be_newer =
            matches!(method, Method::Native { .. } | Method::Empty) && !matches!(judge, Judge::Nobody(_));
        let mut last_answer = Zeroizing::new(answer.to_vec());
        let mut out = Vec::new();
        let mut step = conversation.begin(method, plugin, answer, &mut out);
        loop {
            self.stream.write_all(&out).await.map_err(SessionEnd::ClientLost)?;
            self.stream.flush().await.map_err(SessionEnd::ClientLost)?;
            out.clear();
            match step.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))? {
                Step::Proven(proof, finish) => return Ok(Shown { proof, finish, judge, account, signed_hash }),
                Step::Denied(denial, mut finish) => {
                    if std::mem::take(&mut may_be_newer) && denial == Denial::WrongPassword {
                        match self.check_again(user, plugin, channel, &scramble, &last_answer).await {
                            Again::Right(proof, plan) => {
                                let Plan { judge, account, .. } = plan;
                                return Ok(Shown { proof, finish, judge, account, signed_hash });
                            }
                            Again::Ask(plan) => {
                                let hash = plan::signed_hash(&plan.method);
                                match finish.ask_again(plan.method, &mut out) {
                                    Ok(awaiting) => {
                                        (judge, account, signed_hash) = (plan.judge, plan.account, hash);
                                        step = Ok(Step::Await(awaiting));
                                        continue;
                                    }
                                    Err(same) => finish = same,
                                }
                            }
                            Again::Wrong => {}
                        }
                    }
                    let given = is_given(&last_answer);
                    let refusal = match denial {
                        Denial::WrongPassword if !matches!(judge, Judge::Nobody(_)) => {
                            self.wrong_password(user, given).await
                        }
                        _ => self.denied(user, Some(denial), given),
                    };
                    return Err(refuse(self.stream, finish, &refusal).await);
                }
                Step::Await(next) => {
                    let packet =
                        self.read_answer().await.map_err(|error| SessionEnd::ClientMisbehaved(error.to_string()))?;
                    step = next.handle(packet.received(), &mut out);
                    last_answer = packet.payload;
                }
            }
        }
    }

    /// The name as servers read it: what is longer than any account's name is cut off.
    fn clipped(&self, user: &[u8]) -> Arc<str> {
        let mariadb = self.cluster.view().flavour.as_ref().is_none_or(|flavour| flavour.mariadb);
        let chars_max = if mariadb { MARIADB_NAME_CHARS_MAX } else { MYSQL_NAME_CHARS_MAX };
        let user = String::from_utf8_lossy(user);
        let end = user.char_indices().nth(chars_max).map_or(user.len(), |(at, _)| at);
        user[..end].into()
    }

    async fn read_answer(&mut self) -> Result<Packet, ReadError> {
        let header = net::packets::header(self.stream).await?;
        if let Some(memory) = &mut self.memory {
            memory.grow_for_packet(header.length.min(CLIENT_LOGIN_BYTES_MAX)).await;
        }
        net::packets::read_behind(self.stream, header, CLIENT_LOGIN_BYTES_MAX).await
    }

    /// Checks an answer that was wrong against accounts that are read anew: the password, or the account's plugin, may have been
    /// changed just now. A client that has answered by another plugin is asked again.
    async fn check_again(
        &self,
        user: &Arc<str>,
        plugin: Option<&[u8]>,
        channel: Channel,
        scramble: &Scramble,
        answer: &[u8],
    ) -> Again {
        if self.refresh_accounts().await.find(user, self.handle.client_ip()).is_none() {
            return Again::Wrong;
        }
        match self.plan(user, plugin, channel).await {
            Err(_) | Ok(Plan { judge: Judge::Nobody(_), .. }) => Again::Wrong,
            Ok(Plan { method: Method::Native { stage2 }, judge, account })
                if !is_given(answer) || answer.len() == native::HASH_BYTES =>
            {
                match native::verify(scramble, &stage2, answer).map(Proof::NativeStage1) {
                    Some(proof) => Again::Right(proof, Plan { method: Method::Native { stage2 }, judge, account }),
                    None => Again::Wrong,
                }
            }
            Ok(plan) => Again::Ask(plan),
        }
    }

    /// Waits for the accounts to be read that were changed through here a moment ago.
    async fn await_changed_accounts(&self) {
        let published = &self.cluster.shared.published;
        let (deadline, change) = (tokio::time::Instant::now() + CHANGE_WAIT, published.accounts_change());
        loop {
            let changed = self.cluster.changed.notified();
            if published.accounts_have(change) || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return;
            }
        }
    }

    /// Asks for the accounts to be read again, and waits for that a little.
    async fn refresh_accounts(&self) -> Arc<Accounts> {
        let published = &self.cluster.shared.published;
        let before = published.accounts.load().number;
        let deadline = tokio::time::Instant::now() + REFRESH_WAIT;
        published.request_accounts_refresh();
        loop {
            let changed = self.cluster.changed.notified();
            let accounts = published.accounts.load_full();
            if accounts.number != before || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return accounts;
            }
        }
    }

    /// The server's own words for a failed login.
    fn denied(&self, user: &str, denial: Option<Denial>, password_given: bool) -> Refusal {
        self.was_denied.set(true);
        let mariadb = self.cluster.view().flavour.as_ref().is_none_or(|flavour| flavour.mariadb);
        if denial == Some(Denial::CannotSwitch) {
            let vendor = if mariadb { "MariaDB" } else { "MySQL" };
            let message = format!(
                "Client does not support authentication protocol requested by server; consider upgrading {vendor} client"
            );
            return Refusal::like_server(errno::ER_NOT_SUPPORTED_AUTH_MODE, b"08004", message);
        }
        let host = self.client_host();
        let using = if password_given { "YES" } else { "NO" };
        let mut message = format!("Access denied for user '{user}'@'{host}' (using password: {using})");
        if let Some(denial @ Denial::NeedsTls) = denial {
            message = format!("{message}; sqluice: {denial}");
        }
        Refusal::like_server(errno::ER_ACCESS_DENIED_ERROR, b"28000", message)
    }

    /// The client's host as servers name it in errors.
    fn client_host(&self) -> String {
        let resolves_names = self.cluster.shared.published.accounts.load().resolves_names;
        match self.handle.client_ip() {
            Some(address) if !(resolves_names && address.is_loopback()) => address.to_string(),
            _ => "localhost".into(),
        }
    }
}

/// Clients send the empty password as nothing or as a lone zero byte.
fn is_given(answer: &[u8]) -> bool {
    !matches!(answer, [] | [0])
}
