//! One session of a script: a client that writes everything down that it is told.

mod binary;
mod reading;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use net::client::{ConnectError, Target};
use net::query::{self, Client, Limits};
use net::tls::ClientTls;
use wire::Capabilities;
use wire::auth::Credential;
use wire::codec::Write as _;
use wire::command::{Command, MULTI_STATEMENTS_OFF, MULTI_STATEMENTS_ON};
use wire::handshake::client::LoginRequest;

use binary::execution;
use reading::Reading;

use crate::differences::Differences;
use crate::observe::Observer;
use crate::script::{Account, Action, Login, OTHER_PASSWORD};

/// Longest that one reply may take: nothing in a script takes long.
const REPLY_LIMIT: Duration = Duration::from_secs(20);

/// A statement id that no server has given.
const NO_STATEMENT: u32 = 0x0fff_fff0;

/// A prepared statement of a script.
#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u32,
    parameters: u16,
}

/// One session.
pub struct Probe {
    client: Client,
    entrance: Entrance,
    /// The schema that it is in.
    now_in: String,
    slots: HashMap<String, Slot>,
}

fn request(login: Login, user: &str, schema: Option<&str>) -> LoginRequest {
    let password = if login.other_password { OTHER_PASSWORD } else { lab::APP_PASSWORD };
    let mut request = query::login(user, Credential::password(password));
    request.schema = schema.map(|schema| schema.as_bytes().to_vec());
    request.capabilities.set(Capabilities::DEPRECATE_EOF, !login.classic_eof);
    request.capabilities.set(Capabilities::SESSION_TRACK, !login.no_tracking);
    request.capabilities.set(Capabilities::FOUND_ROWS, login.found_rows);
    request.capabilities.set(Capabilities::MULTI_STATEMENTS, !login.single_statements);
    request
}

/// Where a session logs in, and as whom.
#[derive(Clone, Debug)]
pub struct Entrance {
    /// The server, or Sqluice.
    pub address: net::Address,
    /// How.
    pub login: Login,
    /// The lane's number, which is in the names of its schemas and accounts.
    pub lane: usize,
}

impl Entrance {
    fn user(&self, account: Account) -> String {
        match account {
            Account::App => lab::APP_USER.to_owned(),
            other => crate::lane::fill_text(&format!("{{{}}}", other.word()), self.lane),
        }
    }

    fn schema(&self) -> String {
        crate::lane::fill_text("{a}", self.lane)
    }

    /// Gives the OK packet of the login, too.
    async fn connect(&self) -> Result<(Client, Vec<u8>), ConnectError> {
        let target = Target { tls: ClientTls::disabled(), ..Target::plain(self.address.clone(), REPLY_LIMIT) };
        let limits = Limits { timeout: REPLY_LIMIT, ..Limits::default() };
        let schema = (self.login.account == Account::App).then(|| self.schema());
        let request = request(self.login, &self.user(self.login.account), schema.as_deref());
        let mut connected = net::client::connect(&target, request).await?;
        let ok = std::mem::take(&mut connected.ok_payload);
        Ok((Client::new(connected, limits), ok))
    }
}

impl Probe {
    /// Logs in: gives the session and what the server said, or the line that says why it refused the session.
    ///
    /// # Errors
    /// The server could not be asked.
    pub async fn connect(
        entrance: Entrance,
        differences: &Differences,
    ) -> anyhow::Result<Result<(Probe, String), String>> {
        let (client, ok) = match entrance.connect().await {
            Ok(connected) => connected,
            Err(error) => match error.server_error() {
                Some(refused) => return Ok(Err(format!("login refused {}", refused.code))),
                None => return Err(error).with_context(|| format!("connecting to {}", entrance.address)),
            },
        };
        let now_in = if entrance.login.account == Account::App { entrance.schema() } else { String::new() };
        let mut probe = Probe { client, entrance, now_in, slots: HashMap::new() };
        let line = probe.observer(differences, true, false).ok(&ok, "logged in")?.0;
        Ok(Ok((probe, line)))
    }

    /// The id of the greeting.
    pub fn id(&self) -> u32 {
        self.client.greeting().connection_id
    }

    /// Ends the session by COM_QUIT, or by closing the socket alone.
    pub async fn leave(self, quits: bool) {
        if quits {
            // One that is broken is over already.
            let _ = self.client.quit().await;
        }
    }

    /// Does one thing, and gives what came back in lines.
    ///
    /// # Errors
    /// The connection broke or fell silent, or what came back is no reply.
    pub async fn act(&mut self, action: &Action, differences: &Differences) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        let done = self.run(action, differences, &mut lines).await;
        if let Err(error) = done {
            lines.push(format!("broken: {error:#}"));
        }
        Ok(lines)
    }

    fn observer<'a>(&mut self, differences: &'a Differences, chooses: bool, executes: bool) -> Observer<'a> {
        Observer {
            differences,
            capabilities: self.client.capabilities(),
            own_id: u64::from(self.client.greeting().connection_id),
            schema: std::cell::RefCell::new(self.now_in.clone()),
            chooses,
            executes,
        }
    }

    async fn run(&mut self, action: &Action, differences: &Differences, lines: &mut Vec<String>) -> anyhow::Result<()> {
        match action {
            Action::ChangeUser(schema, account) => return self.change_user(schema.as_deref(), *account, lines).await,
            Action::Reconnect => return self.reconnect().await,
            _ => {}
        }
        // The lane ends sessions.
        let Some((payload, wants)) = self.encode(action) else { return Ok(()) };
        self.client.send_raw(&payload).await?;
        let executes = matches!(action, Action::Execute { .. });
        let observer = self.observer(differences, chooses_schema(action), executes);
        let mut reading = Reading::new(&mut self.client, observer, lines);
        let done = match wants {
            Wants::Nothing => Ok(None),
            Wants::Results { binary } => reading.results(binary).await.map(|()| None),
            Wants::Rows => reading.rows(true).await.map(|_| None),
            Wants::OkOrEof => reading.ok_or_eof().await.map(|()| None),
            Wants::Fields => reading.fields().await.map(|()| None),
            Wants::Prepared(name) => reading.prepared().await.map(|slot| slot.map(|slot| (name, slot))),
        };
        self.now_in = reading.schema();
        if let Some((name, slot)) = done? {
            self.slots.insert(name, slot);
        }
        Ok(())
    }

    /// The command of an action, and the reply that it wants; `None` if the action is no command by itself.
    fn encode(&mut self, action: &Action) -> Option<(Vec<u8>, Wants)> {
        let mut payload = Vec::new();
        let mut wants = Wants::Results { binary: false };
        let slot = |name: &String| self.slots.get(name).copied().unwrap_or(Slot { id: NO_STATEMENT, parameters: 0 });
        match action {
            Action::Query(sql) => command(&mut payload, Command::Query, sql),
            Action::InitDb(schema) => command(&mut payload, Command::InitDb, schema),
            Action::Reset => {
                self.slots.clear();
                command(&mut payload, Command::ResetConnection, b"");
            }
            Action::Ping => command(&mut payload, Command::Ping, b""),
            Action::SetOption(on) => {
                let option = if *on { MULTI_STATEMENTS_ON } else { MULTI_STATEMENTS_OFF };
                command(&mut payload, Command::SetOption, &option.to_le_bytes());
                wants = Wants::OkOrEof;
            }
            Action::FieldList(table) => {
                command(&mut payload, Command::FieldList, table.as_bytes());
                payload.push(0);
                wants = Wants::Fields;
            }
            Action::Command(bytes) => {
                payload.extend_from_slice(bytes);
                wants = Wants::OkOrEof;
            }
            Action::Prepare(name, sql) => {
                command(&mut payload, Command::StmtPrepare, sql);
                wants = Wants::Prepared(name.clone());
            }
            Action::Execute { name, cursor, again, values } => {
                execution(&mut payload, slot(name), *cursor, *again, values);
                wants = Wants::Results { binary: true };
            }
            Action::Fetch(name, rows) => {
                command(&mut payload, Command::StmtFetch, &slot(name).id.to_le_bytes());
                payload.put_u32(*rows);
                wants = Wants::Rows;
            }
            Action::ResetStatement(name) => command(&mut payload, Command::StmtReset, &slot(name).id.to_le_bytes()),
            Action::Close(name) => {
                command(&mut payload, Command::StmtClose, &slot(name).id.to_le_bytes());
                self.slots.remove(name);
                wants = Wants::Nothing;
            }
            Action::LongData(name, parameter, data) => {
                command(&mut payload, Command::StmtSendLongData, &slot(name).id.to_le_bytes());
                payload.put_u16(*parameter);
                payload.extend_from_slice(data);
                wants = Wants::Nothing;
            }
            Action::ChangeUser(..) | Action::Reconnect | Action::Quit | Action::Cut => return None,
        }
        Some((payload, wants))
    }

    async fn change_user(
        &mut self,
        schema: Option<&str>,
        account: Option<Account>,
        lines: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        self.slots.clear();
        let user = self.entrance.user(account.unwrap_or(self.entrance.login.account));
        let request = request(self.entrance.login, &user, schema);
        self.client.change_user(request).await.map_err(|error| anyhow!("COM_CHANGE_USER: {error}"))?;
        lines.push("user changed".into());
        self.now_in = schema.unwrap_or_default().to_owned();
        Ok(())
    }

    async fn reconnect(&mut self) -> anyhow::Result<()> {
        self.slots.clear();
        self.client = self.entrance.connect().await?.0;
        self.now_in = self.entrance.schema();
        Ok(())
    }
}

fn chooses_schema(action: &Action) -> bool {
    match action {
        Action::InitDb(_) => true,
        Action::Query(sql) => sql.windows(4).any(|word| word.eq_ignore_ascii_case(b"use ")),
        _ => false,
    }
}

/// The reply to a command.
enum Wants {
    Nothing,
    Results { binary: bool },
    Rows,
    OkOrEof,
    Fields,
    Prepared(String),
}

fn command(payload: &mut Vec<u8>, command: Command, arguments: &[u8]) {
    payload.push(command.byte());
    payload.extend_from_slice(arguments);
}
