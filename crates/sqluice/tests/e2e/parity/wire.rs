//! A client that speaks packets and writes down what it hears.

use std::fmt::Write as _;
use std::time::Duration;

use ::wire::Capabilities;
use ::wire::Status;
use ::wire::auth::Credential;
use ::wire::codec::Write as _;
use ::wire::command::{Command, begin_query};
use ::wire::exchange::{Advance, Event, Exchange, Expect};
use ::wire::packet::{self, First};
use ::wire::reply::Change;
use lab::Family;
use net::Stream;
use net::client::{Target, connect};
use net::query;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest wait for one packet.
const LIMIT: Duration = Duration::from_secs(20);

/// One connection, and the minutes of what was said on it.
pub struct Wire {
    stream: Stream,
    buffer: Vec<u8>,
    pub capabilities: Capabilities,
    /// The capabilities in the greeting.
    pub offered: Capabilities,
    pub family: Family,
    /// The id that the greeting told.
    pub id: u32,
    /// Positions of transactions differ from run to run.
    pub hide_gtids: bool,
    /// The number of the last packet that came.
    pub last_sequence: u8,
    minutes: Vec<String>,
    database: String,
    /// Ids of prepared statements in the order in which they were given: the minutes call them by their place.
    statements: Vec<u32>,
    /// Another session, which uses the backend connection between any two commands.
    other: Option<Box<Wire>>,
}

impl Wire {
    /// Logs in as the application.
    pub async fn open(address: &str, database: &str, capabilities: Capabilities) -> Wire {
        let target = Target::plain(address.parse().unwrap(), LIMIT);
        let mut login = query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        login.schema = Some(database.into());
        login.capabilities = capabilities;
        let connected = connect(&target, login).await.unwrap_or_else(|error| panic!("{error}"));
        let mariadb = connected.greeting.server_version.contains("MariaDB");
        Wire {
            stream: connected.stream,
            buffer: Vec::new(),
            capabilities: connected.capabilities,
            offered: connected.greeting.capabilities,
            family: if mariadb { Family::MariaDb } else { Family::MySql },
            id: connected.greeting.connection_id,
            hide_gtids: false,
            last_sequence: 0,
            minutes: vec![format!("agreed on {:?}", connected.capabilities)],
            database: database.to_owned(),
            statements: Vec::new(),
            other: None,
        }
    }

    /// The same beside another session with another state, which takes the backend connections whenever it can.
    pub async fn open_shared(address: &str, database: &str, capabilities: Capabilities) -> Wire {
        let mut other = Wire::open(address, "information_schema", capabilities).await;
        other.query("SET sql_mode = 'ANSI', time_zone = '+03:00', character_set_results = latin1").await;
        Wire { other: Some(Box::new(other)), ..Wire::open(address, database, capabilities).await }
    }

    /// Another connection to where this one leads, with its own minutes.
    pub async fn again(&self) -> Wire {
        let address = self.stream.peer_addr().unwrap().to_string();
        Wire::open(&address, &self.database, self.capabilities).await
    }

    /// Writes a line into the minutes.
    pub fn note(&mut self, line: impl Into<String>) {
        self.minutes.push(line.into());
    }

    /// Says good-bye; gives the minutes.
    pub async fn close(mut self) -> Vec<String> {
        self.unsaid(&[Command::Quit.byte()]).await;
        let mut rest = self.buffer;
        let end =
            tokio::time::timeout(LIMIT, self.stream.read_to_end(&mut rest)).await.expect("no end of the connection");
        if end.is_ok() && !rest.is_empty() {
            self.minutes.push(format!("end with {} bytes", rest.len()));
        }
        self.minutes
    }

    /// Sends commands in one write.
    pub async fn send(&mut self, payloads: &[&[u8]]) {
        let mut out = Vec::new();
        for payload in payloads {
            packet::append(&mut out, 0, payload);
        }
        self.send_bytes(&out).await;
    }

    /// Sends bytes as they are.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a command that the minutes do not show, and that the peer may not want to read to its end.
    pub async fn unsaid(&mut self, payload: &[u8]) {
        let mut out = Vec::new();
        packet::append(&mut out, 0, payload);
        let _ = self.stream.write_all(&out).await;
    }

    /// Reads more; gives whether the peer has closed.
    async fn fill(&mut self) -> bool {
        let read = tokio::time::timeout(LIMIT, self.stream.read_buf(&mut self.buffer)).await;
        let Ok(read) = read else { panic!("no answer in {LIMIT:?} after:\n{}", self.minutes.join("\n")) };
        read.map_or(true, |n| n == 0)
    }

    /// Reads one packet, whatever it is.
    pub async fn packet(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            match packet::first(&self.buffer, 1 << 30) {
                First::Whole { payload, sequence, taken } => {
                    let payload = payload.to_vec();
                    self.buffer.drain(..taken);
                    return Some((sequence, payload));
                }
                First::Split { sequence, taken, .. } => {
                    let payload = packet::join(&self.buffer[..taken]);
                    self.buffer.drain(..taken);
                    return Some((sequence, payload));
                }
                First::Needs(_) | First::TooLong => {
                    if self.fill().await {
                        self.note("the connection ended");
                        return None;
                    }
                }
            }
        }
    }

    /// Reads a whole reply; gives its packets.
    pub async fn reply(&mut self, expect: Expect) -> Vec<Vec<u8>> {
        let (mut exchange, mut packets) = (Exchange::new(expect, self.capabilities), Vec::new());
        while !exchange.is_over() {
            let Some((sequence, payload)) = self.packet().await else { break };
            self.last_sequence = sequence;
            if expect == Expect::Prepared && packets.is_empty() && payload[0] == 0 {
                self.statements.push(u32::from_le_bytes(payload[1..5].try_into().unwrap()));
            }
            let line =
                format!("{sequence:>3} {}", self.shown(&payload, expect == Expect::Prepared && packets.is_empty()));
            self.note(line);
            let mut raw = Vec::new();
            packet::append(&mut raw, sequence, &payload);
            let mut at = 0;
            let mut infile = false;
            while at < raw.len() {
                match exchange.advance(&raw[at..]) {
                    Ok(Advance::Pass(n)) => at += n,
                    Ok(Advance::Packet(packet)) => {
                        at += packet.taken;
                        infile |= matches!(packet.event, Event::Infile(_));
                    }
                    other => panic!("{other:?} at {at} of {raw:?} after:\n{}", self.minutes.join("\n")),
                }
            }
            packets.push(payload);
            if infile {
                break;
            }
        }
        packets
    }

    /// Sends a command and reads its reply.
    pub async fn command(&mut self, expect: Expect, payload: &[u8]) -> Vec<Vec<u8>> {
        let of_statement = matches!(payload.first(), Some(0x17..=0x1a | 0x1c | 0xfa));
        self.note(format!("> {}", self.shown(payload, of_statement)));
        self.send(&[payload]).await;
        let reply = self.reply(expect).await;
        self.interlude().await;
        reply
    }

    /// Lets the other session use the connection, if the pool lets it.
    pub async fn interlude(&mut self) {
        if let Some(other) = &mut self.other {
            Box::pin(other.query("SELECT 'another session', @@time_zone")).await;
            other.minutes.clear();
        }
    }

    /// A packet as the minutes show it; `of_statement` when a statement's id stands behind its first byte.
    fn shown(&self, payload: &[u8], of_statement: bool) -> String {
        let id = payload.get(1..5).map(|id| u32::from_le_bytes(id.try_into().unwrap()));
        let place = |id: u32| self.statements.iter().position(|known| *known == id);
        if let (true, Some(place)) = (of_statement && payload[0] != 0xff, id.and_then(place)) {
            return format!("{} statement {place} {}", payload[..1].escape_ascii(), shown(&payload[5..]));
        }
        if let (true, Some(words)) = (self.hide_gtids, ok_in_words(payload, self.capabilities)) {
            return words;
        }
        let mut text = shown(payload);
        if payload.first() == Some(&0xff) {
            for (place, id) in self.statements.iter().enumerate() {
                text = text.replace(&format!("({id})"), &format!("(statement {place})"));
            }
        }
        text
    }

    /// COM_QUERY.
    pub async fn query(&mut self, sql: &str) -> Vec<Vec<u8>> {
        let mut payload = Vec::new();
        begin_query(&mut payload, self.capabilities);
        payload.extend(sql.as_bytes());
        self.command(Expect::Results, &payload).await
    }

    /// COM_QUERY of one row of short values; gives columns and values. Columns go into the minutes only if `typed`.
    pub async fn values(&mut self, sql: &str, typed: bool) -> (Vec<Vec<u8>>, Vec<String>) {
        let before = self.minutes.len();
        let reply = self.query(sql).await;
        let count = usize::from(reply[0][0]);
        let values = &reply[reply.len() - 2];
        let mut reader = ::wire::codec::Reader::new(values);
        let texts: Vec<String> = (0..count)
            .map(|_| String::from_utf8_lossy(reader.text_value("value").unwrap().unwrap_or(b"NULL")).into_owned())
            .collect();
        if !typed {
            self.minutes.truncate(before);
            let hide = sql.contains("CONNECTION_ID");
            self.note(if hide { sql.to_owned() } else { format!("{sql}: {texts:?}") });
        }
        (reply[1..=count].to_vec(), texts)
    }

    /// COM_STMT_PREPARE; gives the id.
    pub async fn prepare(&mut self, sql: &str) -> u32 {
        let reply = self.command(Expect::Prepared, &[&[Command::StmtPrepare.byte()], sql.as_bytes()].concat()).await;
        reply[0].get(1..5).map_or(0, |id| u32::from_le_bytes(id.try_into().unwrap()))
    }

    /// A command that has a statement id and perhaps a number behind it.
    pub async fn statement(&mut self, command: Command, expect: Expect, id: u32, more: &[u8]) -> Vec<Vec<u8>> {
        self.command(expect, &[&[command.byte()], &id.to_le_bytes()[..], more].concat()).await
    }

    /// COM_STMT_FETCH.
    pub async fn fetch(&mut self, id: u32, rows: u32) -> Vec<Vec<u8>> {
        self.statement(Command::StmtFetch, Expect::Rows, id, &rows.to_le_bytes()).await
    }
}

/// COM_STMT_EXECUTE with these flags, and parameters that stand as type and value; `None` is NULL.
pub fn execute(id: u32, flags: u8, parameters: &[Option<(u8, Vec<u8>)>], send_types: bool) -> Vec<u8> {
    let mut out = vec![Command::StmtExecute.byte()];
    out.put_u32(id);
    out.push(flags);
    out.put_u32(1);
    if parameters.is_empty() {
        return out;
    }
    let mut nulls = vec![0; parameters.len().div_ceil(8)];
    for (at, _) in parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_none()) {
        nulls[at / 8] |= 1 << (at % 8);
    }
    out.extend(nulls);
    out.push(u8::from(send_types));
    if send_types {
        for parameter in parameters {
            out.extend([parameter.as_ref().map_or(6, |(kind, _)| *kind), 0]);
        }
    }
    parameters.iter().flatten().for_each(|(_, value)| out.extend(value));
    out
}

/// A parameter of type BIGINT.
pub fn long(value: i64) -> Option<(u8, Vec<u8>)> {
    Some((8, value.to_le_bytes().to_vec()))
}

/// A parameter of a string type, short enough for one byte of length.
pub fn short(value: &str) -> Option<(u8, Vec<u8>)> {
    Some((0xfd, [&[value.len() as u8], value.as_bytes()].concat()))
}

/// An OK packet in words, without what differs from run to run.
fn ok_in_words(payload: &[u8], capabilities: Capabilities) -> Option<String> {
    let ok = ::wire::reply::Ok::parse(payload, capabilities).ok().filter(|_| payload[0] == 0)?;
    let hidden = |text: &[u8]| text.contains(&b'-').then_some("(position)");
    let changes = ok.changes().map(|change| match change.unwrap() {
        Change::Gtids(gtids) => format!("gtids {}", hidden(gtids).unwrap_or("")),
        Change::Variable { name: b"last_gtid", value } => format!("last_gtid {}", hidden(value).unwrap_or("")),
        Change::Variable { name: b"statement_id", .. } => "statement_id".into(),
        Change::Variable { name, value } => format!("{} = {}", name.escape_ascii(), value.escape_ascii()),
        other => format!("{other:?}"),
    });
    let mut changes: Vec<_> = changes.collect();
    // MariaDB tells variables in the order of a hash table.
    changes.sort_unstable();
    // MySQL may announce changes and tell none.
    let status = ok.status - Status::SESSION_STATE_CHANGED;
    Some(format!("OK {} {} {status:?} {} {changes:?}", ok.affected_rows, ok.insert_id, ok.warnings))
}

fn shown(payload: &[u8]) -> String {
    let mut text = payload[..payload.len().min(200)].escape_ascii().to_string();
    if payload.len() > 200 {
        let hash = payload.iter().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        let _ = write!(text, "… {} bytes, {hash:x}", payload.len());
    }
    text
}
