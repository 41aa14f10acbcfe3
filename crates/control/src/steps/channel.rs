//! Replication channels: looking at them, stopping and starting their threads, and waiting for what they received.

use std::time::Duration;

use cluster::observation::{Channel, Receiver, Replication};

use super::semi_sync::{self, SourceIs};
use super::{Failed, FailedKind, Hand, cut, position, text};
use crate::monitor::dialect::{self, Dialect};

/// How long one question for a position may wait on the server, so that a stopped applier is noticed meanwhile.
const WAIT_SLICE: Duration = Duration::from_millis(250);
/// Time between two looks at a thread that starts or stops.
const LOOK: Duration = Duration::from_millis(10);

/// The servers of a cluster, by which a channel from another source is recognized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ours(pub(crate) Vec<(String, u16)>);

impl Ours {
    /// The channel that follows a server of this cluster. The only channel is taken for it, whatever it says.
    fn pick(&self, mut channels: Vec<Channel>) -> Result<Option<Channel>, Failed> {
        if channels.len() < 2 {
            return Ok(channels.pop());
        }
        let names = channels.iter().map(|channel| format!("'{}'", channel.name)).collect::<Vec<_>>().join(", ");
        let ours = |channel: &Channel| {
            self.0.iter().any(|(host, port)| **host == *channel.source_host && *port == channel.source_port)
        };
        let mut own: Vec<Channel> = channels.into_iter().filter(ours).collect();
        match own.len() {
            1 => Ok(own.pop()),
            count => Err(Failed::refused(format!(
                "{count} of its channels {names} follow a server of this cluster; exactly one should"
            ))),
        }
    }
}

/// Reads the channel that follows a server of this cluster.
pub(super) async fn read(hand: &mut Hand<'_>, ours: &Ours) -> Result<Option<Channel>, Failed> {
    let answer = hand.run("read its replication status", hand.dialect.replication()).await?;
    match dialect::read_replication(&answer) {
        Replication::Channels(channels) => ours.pick(channels),
        Replication::Unreadable(error) => Err(Failed::refused(error.to_string())),
    }
}

/// Stops receiving; what was received goes on being applied.
///
/// Refuses on MariaDB when the applying thread does not run: there the first thread that starts when both stand still
/// throws away what was received and asks the source for it once more, which may be dead.
/// `lost`: the source is taken for dead.
pub(crate) async fn stop_receiver(hand: &mut Hand<'_>, ours: &Ours, lost: bool) -> Result<(), Failed> {
    let Some(channel) = read(hand, ours).await? else { return Ok(()) };
    if channel.receiver == Receiver::Stopped {
        return Ok(());
    }
    if hand.dialect.mariadb && !channel.applier_running {
        let text = "its applying thread does not run, and to stop receiving would throw away what it has received";
        return Err(Failed::refused(text));
    }
    let sql = hand.dialect.thread("STOP", Some("IO_THREAD"), &channel.name);
    semi_sync::stop_quickly(hand, sql, source_is(&channel, lost)).await
}

/// Stops both threads; the channel and its options stay.
pub(crate) async fn stop_following(hand: &mut Hand<'_>, ours: &Ours) -> Result<(), Failed> {
    let Some(channel) = read(hand, ours).await? else { return Ok(()) };
    if channel.receiver == Receiver::Stopped && !channel.applier_running {
        return Ok(());
    }
    if !hand.dialect.mariadb {
        hand.run("stop receiving", hand.dialect.thread("STOP", Some("IO_THREAD"), &channel.name)).await?;
        cut::drop_transaction(hand, &channel.name).await?;
    }
    semi_sync::stop_quickly(hand, hand.dialect.thread("STOP", None, &channel.name), SourceIs::Well).await
}

fn source_is(channel: &Channel, lost: bool) -> SourceIs {
    match lost && channel.receiver == Receiver::Running {
        true => SourceIs::PerhapsFrozen,
        false => SourceIs::Well,
    }
}

/// Waits until this position is applied, and everything that has been received.
pub(crate) async fn wait_applied(hand: &mut Hand<'_>, ours: &Ours, gtids: &str) -> Result<(), Failed> {
    wait(hand, ours, gtids).await?;
    match read(hand, ours).await? {
        Some(channel) => wait(hand, ours, &channel.gtid_received).await,
        None => Ok(()),
    }
}

async fn wait(hand: &mut Hand<'_>, ours: &Ours, gtids: &str) -> Result<(), Failed> {
    let Some(wanted) = position(hand.dialect, gtids)? else { return Ok(()) };
    let what = "apply what it has received";
    loop {
        let answer = hand.run(what, hand.dialect.position()).await?;
        if dialect::read_position(hand.dialect, &answer).is_some_and(|(applied, _)| applied.has(&wanted)) {
            return Ok(());
        }
        if hand.left().is_zero() {
            return Err(hand.late(what));
        }
        let channel = read(hand, ours).await?;
        if let Some(channel) = channel.filter(|channel| !channel.applier_running) {
            let why = if channel.applier_error.is_empty() { "it was stopped" } else { &channel.applier_error };
            return Err(Failed::refused(format!("cannot {what}: its applying thread does not run: {why}")));
        }
        let slice = WAIT_SLICE.min(hand.left()).as_secs_f64();
        let wait = if hand.dialect.mariadb { "MASTER_GTID_WAIT" } else { "WAIT_FOR_EXECUTED_GTID_SET" };
        hand.run(what, format!("SELECT {wait}({}, {slice:.3})", text(gtids))).await?;
    }
}

/// How far a receiver has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// It is connected to its source.
    Connected,
    /// It is connected, or has found that its source cannot be reached, and goes on trying.
    Tried,
}

/// Waits until the receiver has come so far.
pub(super) async fn wait_received(hand: &mut Hand<'_>, ours: &Ours, until: Until) -> Result<(), Failed> {
    let mut why = "it is not connected in time".to_owned();
    loop {
        let channel = match read(hand, ours).await {
            Ok(Some(channel)) => channel,
            Ok(None) => return Err(Failed::refused("its channel is gone")),
            Err(failed) if failed.kind == FailedKind::TimedOut => {
                return Err(Failed::new(FailedKind::TimedOut, format!("it does not receive yet: {why}")));
            }
            Err(failed) => return Err(failed),
        };
        match channel.receiver {
            Receiver::Running if channel.applier_running => return Ok(()),
            Receiver::Running if !channel.applier_error.is_empty() => {
                return Err(Failed::refused(format!("it receives but cannot apply: {}", channel.applier_error)));
            }
            Receiver::Stopped if !channel.receiver_error.is_empty() => {
                return Err(Failed::refused(format!("it cannot receive: {}", channel.receiver_error)));
            }
            Receiver::Connecting if until == Until::Tried && channel.receiver_lost_source => return Ok(()),
            _ => {}
        }
        if !channel.receiver_error.is_empty() {
            why = channel.receiver_error.to_string();
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Dialect {
    /// MySQL has new words for replication since 8.0.22, and no others since 8.4.
    fn new_words(self) -> bool {
        !self.mariadb && self.number >= 80_022
    }

    /// START or STOP, of one thread or both.
    pub(super) fn thread(self, verb: &str, thread: Option<&str>, channel: &str) -> String {
        let (name, thread) = (text(channel), thread.unwrap_or_default());
        match (self.mariadb, self.new_words()) {
            (true, _) => format!("{verb} SLAVE {name} {thread}"),
            (false, true) => format!("{verb} REPLICA {thread} FOR CHANNEL {name}"),
            (false, false) => format!("{verb} SLAVE {thread} FOR CHANNEL {name}"),
        }
    }

    /// Forgets the channel, its options and what it has received.
    pub(super) fn forget(self, channel: &str) -> String {
        let name = text(channel);
        match (self.mariadb, self.new_words()) {
            (true, _) => format!("RESET SLAVE {name} ALL"),
            (false, true) => format!("RESET REPLICA ALL FOR CHANNEL {name}"),
            (false, false) => format!("RESET SLAVE ALL FOR CHANNEL {name}"),
        }
    }

    /// The statement that changes a channel's options, which are given with the old words.
    pub(super) fn change(self, channel: &str, options: &[(&str, String)]) -> String {
        // CHANGE REPLICATION SOURCE came a version later than the other new words.
        let new = !self.mariadb && self.number >= 80_023;
        let option = |(name, value): &(&str, String)| match new {
            true => format!("{} = {value}", name.replace("MASTER_", "SOURCE_")),
            false => format!("{name} = {value}"),
        };
        let options = options.iter().map(option).collect::<Vec<_>>().join(", ");
        let name = text(channel);
        match (self.mariadb, new) {
            (true, _) => format!("CHANGE MASTER {name} TO {options}"),
            (false, true) => format!("CHANGE REPLICATION SOURCE TO {options} FOR CHANNEL {name}"),
            (false, false) => format!("CHANGE MASTER TO {options} FOR CHANNEL {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::dialect::tests::table;

    const MARIA: Dialect = Dialect { mariadb: true, number: 101_106 };
    const NEW: Dialect = Dialect { mariadb: false, number: 90_700 };
    const OLD: Dialect = Dialect { mariadb: false, number: 50_744 };

    #[test]
    fn each_family_and_version_has_its_words() {
        assert_eq!(MARIA.thread("STOP", Some("IO_THREAD"), "dc2"), "STOP SLAVE 'dc2' IO_THREAD");
        assert_eq!(NEW.thread("STOP", Some("IO_THREAD"), ""), "STOP REPLICA IO_THREAD FOR CHANNEL ''");
        assert_eq!(OLD.thread("START", None, ""), "START SLAVE  FOR CHANNEL ''");
        assert_eq!(MARIA.forget(""), "RESET SLAVE '' ALL");
        assert_eq!(NEW.forget("a"), "RESET REPLICA ALL FOR CHANNEL 'a'");
        assert_eq!(OLD.forget("a"), "RESET SLAVE ALL FOR CHANNEL 'a'");
        let options = [("MASTER_HOST", text("db2")), ("MASTER_PORT", "3306".to_owned())];
        assert_eq!(MARIA.change("", &options), "CHANGE MASTER '' TO MASTER_HOST = 'db2', MASTER_PORT = 3306");
        let new = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db2', SOURCE_PORT = 3306 FOR CHANNEL ''";
        assert_eq!(NEW.change("", &options), new);
        assert_eq!(OLD.change("", &options), "CHANGE MASTER TO MASTER_HOST = 'db2', MASTER_PORT = 3306 FOR CHANNEL ''");
    }

    #[test]
    fn the_channel_of_this_cluster_is_found() {
        let channels = |text: &str| match dialect::read_replication(&table(text)) {
            Replication::Channels(channels) => channels,
            Replication::Unreadable(error) => panic!("{error}"),
        };
        let ours = Ours(vec![("db1".into(), 3306), ("db2".into(), 3306)]);
        let header = "Connection_name|Master_Host|Master_Port";
        assert_eq!(ours.pick(vec![]), Ok(None));
        let only = ours.pick(channels(&format!("{header}\nx|elsewhere|1"))).unwrap().unwrap();
        assert_eq!(&*only.name, "x");
        let two = ours.pick(channels(&format!("{header}\nx|elsewhere|3306\ny|db1|3306"))).unwrap().unwrap();
        assert_eq!(&*two.name, "y");
        let both = ours.pick(channels(&format!("{header}\nx|db2|3306\ny|db1|3306"))).unwrap_err();
        assert!(both.text.contains("'x', 'y'"), "{both}");
        assert!(ours.pick(channels(&format!("{header}\nx|db2|1\ny|db1|1"))).is_err());
    }
}
