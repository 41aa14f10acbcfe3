//! One stream: from its first question to its end.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, Hasher as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use facts::changes::{ChangeMessage, ChangeScope, Gtid};
use net::query::{Client, Limits, QueryError};
use sql::Family;
use tokio::sync::{Notify, mpsc};
use wire::binlog::changes::{Changes, Said};
use wire::binlog::position::LogPosition;
use wire::codec::Write as _;
use wire::command::Command;
use wire::errno;
use wire::reply::ServerError;

use super::named;
use super::position::Position;
use super::visible::{Hidden, VisiblePosition};
use super::{ChangeFollower, End};
use crate::monitor::dialect;
use crate::monitor::heartbeat::Primary;
use crate::task::own;

/// How often the primary is asked how far it is, and says that it has nothing to send.
const PERIOD_MIN: Duration = Duration::from_millis(50);
/// See [`PERIOD_MIN`].
const PERIOD_MAX: Duration = Duration::from_millis(500);
/// The primary is asked at once while changes are not known to be visible, but not sooner than after so many times as long as its last answer
/// took, within these bounds.
const ASK_PAUSE_TIMES: u32 = 3;
/// See [`ASK_PAUSE_TIMES`].
const ASK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// See [`ASK_PAUSE_TIMES`].
const ASK_PAUSE_MAX: Duration = Duration::from_millis(10);
/// So many changes may wait until they are visible.
const HIDDEN_MAX: usize = 100_000;
/// COM_BINLOG_DUMP_GTID goes by the set.
const THROUGH_GTID: u16 = 4;
/// Largest event that is taken; servers write rows in events of some kilobytes, but for rows that are larger.
const EVENT_BYTES_MAX: usize = 64 << 20;
/// Largest answer to the question how far a server is.
const POSITION_BYTES_MAX: usize = 4 << 20;
/// Answers to it that wait for the stream to come there.
const GOALS_MAX: usize = 16;
/// The first byte of a packet with an event, and of one that ends the stream.
const EVENT: u8 = 0x00;
const END: u8 = 0xfe;
/// Errors of a server whose binary log lacks the transactions that must come next.
const GAPS: [u16; 4] = [
    errno::ER_MASTER_FATAL_ERROR_READING_BINLOG,
    errno::ER_GTID_POSITION_NOT_FOUND_IN_BINLOG,
    errno::ER_MASTER_GTID_POS_CONFLICTS_WITH_BINLOG,
    errno::ER_GTID_POSITION_NOT_FOUND_IN_BINLOG2,
];
/// A server that says nothing for so many periods is lost.
const SILENT_PERIODS: u32 = 4;

/// Events that were read and wait to be understood; the reader waits when there are more.
const EVENTS_WAITING_MAX: usize = 16;

/// The transactions that a server had logged when it was asked.
struct Goal {
    asked: Instant,
    position: Position,
    /// Transactions with tags are in it, which have no place in a position.
    tagged: bool,
    /// How often the log had been at its end by then.
    idle: u64,
    /// The transactions that sessions saw.
    seen: VisiblePosition,
    /// Its clients may not write: the cluster has another primary.
    read_only: bool,
}

impl Goal {
    /// Everything of it has been reported. A server says that it has nothing to send only then, and what it says twice it has said
    /// once since it was asked.
    fn is_reached(&self, position: &Position, idle: u64) -> bool {
        position.covers(&self.position) && (!self.tagged || idle >= self.idle + 2)
    }
}

impl ChangeFollower {
    /// Follows one primary until that does not work any more.
    pub(super) async fn follow(&self, primary: &Primary, position: &mut Option<Position>) -> End {
        match self.stream(primary, position).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn stream(&self, primary: &Primary, place: &mut Option<Position>) -> Result<Infallible, End> {
        let period = self.interval.clamp(PERIOD_MIN, PERIOD_MAX);
        let mut asker = self.open(primary, POSITION_BYTES_MAX, self.timeout).await?;
        let greeting = dialect::greeting(asker.greeting());
        let mariadb = greeting.mariadb;
        let begun = ask(&mut asker, mariadb).await?;
        let settled = match place {
            Some(position) => position,
            None => {
                self.tell(Gtid::Unknown, ChangeScope::Everything("the stream begins anew"));
                self.listener.receive(ChangeMessage::Visible(1));
                place.insert(begun.position.clone())
            }
        };
        let mut log = self.open(primary, EVENT_BYTES_MAX, (period * SILENT_PERIODS).max(self.timeout)).await?;
        dump(&mut log, settled, period).await?;
        let (packets, mut read) = mpsc::channel(EVENTS_WAITING_MAX);
        let _reader = own(read_all(log, packets));
        let (answers, mut answered) = mpsc::channel(1);
        let hurry = Rc::new(Notify::new());
        let _asker = own(ask_again(asker, mariadb, period, hurry.clone(), answers));
        let mut stream = Stream {
            follower: self,
            family: if mariadb { Family::MariaDb } else { Family::MySql },
            number: greeting.number,
            position: settled.clone(),
            settled,
            changes: Changes::new(mariadb),
            log: LogPosition::default(),
            at_end: false,
            hidden: Hidden::new(begun.seen.clone()),
            goals: VecDeque::from([begun]),
            idle: 0,
            hurry,
        };
        let gone = || End::Lost("the connection is gone".into());
        loop {
            stream.catch_up();
            tokio::select! {
                packet = read.recv() => {
                    let (_, packet) = packet.ok_or_else(gone)?.map_err(|error| failed(&error))?;
                    stream.hear(&packet)?;
                }
                answer = answered.recv() => stream.answered(answer.ok_or_else(gone)??),
            }
        }
    }

    async fn open(&self, primary: &Primary, reply_bytes_max: usize, timeout: Duration) -> Result<Client, End> {
        let mut access = primary.access.clone();
        if let Some((user, password)) = &self.account {
            (access.user, access.password) = (user.clone(), password.clone());
        }
        let limits = Limits { reply_bytes_max, timeout };
        access.open(self.timeout, limits).await.map_err(|failure| End::Lost(failure.text.to_string()))
    }
}

/// A stream that runs.
struct Stream<'a> {
    follower: &'a ChangeFollower,
    family: Family,
    /// The server's version.
    number: u32,
    /// Up to where changes are visible: another stream begins there.
    settled: &'a mut Position,
    /// Up to where changes have been reported.
    position: Position,
    changes: Changes,
    /// The position in the log after the last event.
    log: LogPosition,
    /// The server has nothing to send after that position.
    at_end: bool,
    /// Changes that were reported and may not be visible yet.
    hidden: Hidden,
    goals: VecDeque<Goal>,
    /// How often the server has said that it has nothing to send.
    idle: u64,
    /// Has the server asked at once how far it is.
    hurry: Rc<Notify>,
}

impl Stream<'_> {
    /// Tells how far all changes are known, if the stream has come to a goal.
    fn catch_up(&mut self) {
        let reached = self.goals.iter().take_while(|goal| goal.is_reached(&self.position, self.idle)).count();
        // Before, something may be hidden that is not known at all.
        if self.hidden.has_begun()
            && let Some(goal) = self.goals.drain(..reached).rfind(|goal| !goal.read_only)
        {
            self.follower.caught_up(goal.asked, &self.position);
        }
    }

    /// Takes a packet of the stream in.
    fn hear(&mut self, packet: &[u8]) -> Result<(), End> {
        let said = said(&mut self.changes, packet)?;
        self.log.pass(packet.get(1..).unwrap_or_default());
        self.at_end = said == Said::Idle;
        match said {
            Said::Nothing => {}
            Said::Idle => {
                self.idle += 1;
                if !self.hidden.has_begun() {
                    self.hurry.notify_one();
                }
            }
            Said::Committed(transaction) => {
                let gtid = transaction.gtid;
                self.follower.tell(gtid, named::what(self.family, self.number, transaction.what));
                self.position.add(gtid);
                self.hidden.logged(gtid, &self.log);
                if self.hidden.len() > HIDDEN_MAX {
                    return Err(End::Gap("too many changes are logged and not committed".into()));
                }
                self.hurry.notify_one();
            }
        }
        Ok(())
    }

    /// Takes the server's answer in how far it is.
    fn answered(&mut self, goal: Goal) {
        let visible = self.hidden.settle(&goal.seen, &self.log, self.at_end, self.settled);
        if visible > 0 {
            self.follower.listener.receive(ChangeMessage::Visible(visible));
        }
        if self.hidden.len() > 0 {
            self.hurry.notify_one();
        }
        // When the stream is that far behind, it comes to the older goals first.
        if self.goals.len() < GOALS_MAX {
            self.goals.push_back(Goal { idle: self.idle, ..goal });
        }
    }
}

/// Reads the log to its end. Reading is not given up in the middle of a packet, so it has a task of its own.
async fn read_all(mut log: Client, packets: mpsc::Sender<Result<(u8, Vec<u8>), QueryError>>) {
    loop {
        let packet = log.read_raw().await;
        let failed = packet.is_err();
        if packets.send(packet).await.is_err() || failed {
            return;
        }
    }
}

/// Asks how far the server is, once in a period and when there is a hurry.
async fn ask_again(
    mut asker: Client,
    mariadb: bool,
    period: Duration,
    hurry: Rc<Notify>,
    answers: mpsc::Sender<Result<Goal, End>>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = hurry.notified() => {}
        }
        let asked = Instant::now();
        let answer = ask(&mut asker, mariadb).await;
        let pause = (asked.elapsed() * ASK_PAUSE_TIMES).clamp(ASK_PAUSE_MIN, ASK_PAUSE_MAX);
        let failed = answer.is_err();
        if answers.send(answer).await.is_err() || failed {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Asks how far the server is.
async fn ask(client: &mut Client, mariadb: bool) -> Result<Goal, End> {
    let asked = Instant::now();
    let sql = match mariadb {
        true => {
            "SELECT (SELECT GROUP_CONCAT(variable_value ORDER BY variable_name SEPARATOR ' ') FROM \
             information_schema.session_status WHERE variable_name IN ('BINLOG_SNAPSHOT_FILE', 'BINLOG_SNAPSHOT_POSITION')) \
             AS seen, @@global.gtid_binlog_pos AS position, @@log_bin AS log_bin, 'ON' AS gtid_mode, \
             @@global.read_only AS read_only"
        }
        false => {
            "SELECT @@global.gtid_executed AS position, @@log_bin AS log_bin, @@global.gtid_mode AS gtid_mode, \
             @@global.read_only AS read_only"
        }
    };
    let answer = client.query_one(sql).await.map_err(|error| failed(&error))?;
    let text = |column: &str| answer.text(0, column).unwrap_or_default();
    if !dialect::is_on(&text("log_bin")) || !text("gtid_mode").eq_ignore_ascii_case("on") {
        return Err(End::Gap("the server writes no binary log, or not with GTIDs".into()));
    }
    let position = Position::parse(mariadb, &text("position"));
    let (position, tagged) = position.ok_or_else(|| End::Gap("the server's position is none".into()))?;
    let seen = match &position {
        Position::MySql(executed) => Some(VisiblePosition::MySql(executed.clone())),
        Position::MariaDb(_) => VisiblePosition::parse(&text("seen")),
    };
    let seen = seen.ok_or_else(|| End::Gap("the server does not tell up to where its log is committed".into()))?;
    let read_only = dialect::is_on(&text("read_only"));
    Ok(Goal { asked, position, tagged, idle: 0, seen, read_only })
}

/// Asks for the log from there on.
async fn dump(client: &mut Client, from: &Position, period: Duration) -> Result<(), End> {
    // A server ends the stream of an older replica with the same number.
    let number = RandomState::new().build_hasher().finish() as u32 | 1 << 31;
    let nanoseconds = period.as_nanos();
    // It says that checksums are known here; whether there are any, the log tells.
    let mut settings = vec![
        "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum"
            .into(),
        format!("SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}"),
    ];
    let mut dump = Vec::new();
    match from {
        Position::MariaDb(gtids) => {
            settings.push(format!("SET @mariadb_slave_capability = 4, @slave_connect_state = '{gtids}'"));
            dump.push(Command::BinlogDump.byte());
            dump.put_u32(4);
            dump.put_u16(0);
            dump.put_u32(number);
        }
        Position::MySql(executed) => {
            let set = executed.encode().ok_or_else(|| End::Gap("the position has tags".into()))?;
            dump.push(Command::BinlogDumpGtid.byte());
            dump.put_u16(THROUGH_GTID);
            dump.put_u32(number);
            dump.put_u32(0);
            dump.put_u64(4);
            dump.put_u32(u32::try_from(set.len()).unwrap_or_default());
            dump.extend_from_slice(&set);
        }
    }
    for sql in settings {
        client.query(sql).await.map_err(|error| failed(&error))?;
    }
    client.send_raw(&dump).await.map_err(|error| failed(&error))
}

/// The meaning of a packet of the stream.
fn said(changes: &mut Changes, packet: &[u8]) -> Result<Said, End> {
    match packet.split_first() {
        Some((&EVENT, event)) => changes.take(event).map_err(|error| End::Gap(error.to_string())),
        Some((&END, _)) => Err(End::Lost("the server ended the stream".into())),
        _ => {
            let Ok(error) = ServerError::parse(packet) else {
                return Err(End::Gap("what the server sent is no event".into()));
            };
            let text = format!("{} ({})", String::from_utf8_lossy(error.message), error.code);
            Err(if GAPS.contains(&error.code) { End::Gap(text) } else { End::Lost(text) })
        }
    }
}

fn failed(error: &QueryError) -> End {
    End::Lost(error.to_string())
}
