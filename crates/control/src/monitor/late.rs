//! The replication channels of a server whose status statement does not answer.

use std::time::Duration;

use cluster::observation::{Channel, Receiver, Replication};
use net::query::ResultSet;

use super::channel_life;
use super::dialect::{is_no_connection, is_on, without_line_breaks};

/// Filters of a channel whose status was never read: nothing fits them.
const UNKNOWN_FILTERS: &str = "unknown";

/// State of MySQL's channels as tables tell it. They take fewer locks than the statement.
pub(super) const CHANNELS: &str = "SELECT s.CHANNEL_NAME AS channel, c.HOST AS host, c.PORT AS port, \
    c.AUTO_POSITION AS auto_position, c.HEARTBEAT_INTERVAL AS period, s.SERVICE_STATE AS receiver, \
    s.RECEIVED_TRANSACTION_SET AS received, s.LAST_ERROR_NUMBER AS errno, s.LAST_ERROR_MESSAGE AS error, \
    a.SERVICE_STATE AS applier FROM performance_schema.replication_connection_status s \
    JOIN performance_schema.replication_connection_configuration c ON c.CHANNEL_NAME = s.CHANNEL_NAME \
    JOIN performance_schema.replication_applier_status a ON a.CHANNEL_NAME = s.CHANNEL_NAME";

/// How long the status statement may take where it must leave time for other questions.
pub(super) fn share(limit: Duration) -> Duration {
    limit * 3 / 5
}

/// Reads the answer to [`CHANNELS`]; `None` where the tables are empty, as they are while `performance_schema` is off. The tables
/// leave out the source's `server_id`, filters, delay and the applier's error: these are as they were when the status was read last.
pub(super) fn read(answer: &ResultSet, known: &[Channel]) -> Option<Vec<Channel>> {
    let channels = (0..answer.rows.len()).map(|row| {
        let text = |column: &str| answer.text(row, column).unwrap_or_default();
        let (name, host, port) = (text("channel"), text("host"), text("port").parse().unwrap_or(0));
        let same =
            |channel: &&Channel| (&*channel.name, &*channel.source_host, channel.source_port) == (&*name, &*host, port);
        let before = known.iter().find(same);
        let applier_running = is_on(&text("applier"));
        let applier_error = before.filter(|channel| !applier_running && !channel.applier_running);
        Channel {
            name: (*name).into(),
            source_host: (*host).into(),
            source_port: port,
            source_server_id: before.map_or(0, |channel| channel.source_server_id),
            receiver: match &*text("receiver") {
                "ON" => Receiver::Running,
                "CONNECTING" => Receiver::Connecting,
                _ => Receiver::Stopped,
            },
            applier_running,
            seconds_behind: None,
            gtid_received: without_line_breaks(&text("received")),
            receiver_error: (*text("error")).into(),
            receiver_lost_source: is_no_connection(text("errno").parse().unwrap_or(0)),
            applier_error: applier_error.map(|channel| channel.applier_error.clone()).unwrap_or_default(),
            delay_s: before.map_or(0, |channel| channel.delay_s),
            uses_gtid: Some(text("auto_position") == "1"),
            filters: before.map_or_else(|| UNKNOWN_FILTERS.into(), |channel| channel.filters.clone()),
            // It would be another number than the statement gives, and so a sign of life that never was.
            life: None,
            heartbeat_period: channel_life::period(&text("period")),
            outdated: false,
        }
    });
    let channels: Vec<Channel> = channels.filter(|channel| !channel.source_host.is_empty()).collect();
    Some(channels).filter(|channels| !channels.is_empty())
}

/// The channels that were read last. How far they are behind is not known.
pub(super) fn outdated(known: Option<&[Channel]>, why: &str) -> Replication {
    let outdated = |channel: &Channel| Channel { seconds_behind: None, life: None, outdated: true, ..channel.clone() };
    match known {
        Some(known) => Replication::Channels(known.iter().map(outdated).collect()),
        None => Replication::Unreadable(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lab::{Binaries, Family, Replication as Lab, ReplicationOptions};
    use net::query::{Client, Limits};
    use net::tls::ClientTls;

    use super::super::dialect::tests::table;
    use super::super::dialect::{self, Dialect};
    use super::super::link::ServerAccess;
    use super::*;

    fn channels(replication: Replication) -> Vec<Channel> {
        let Replication::Channels(channels) = replication else { panic!("unreadable") };
        channels
    }

    #[test]
    fn a_status_that_hangs_keeps_the_source_and_loses_the_lag() {
        let answer = table(
            "Master_Host|Master_Port|Slave_IO_Running|Slave_SQL_Running|Seconds_Behind_Master\ndb1|3306|Yes|Yes|4",
        );
        let known = channels(dialect::read_replication(&answer));
        let old = &channels(outdated(Some(&known), "late"))[0];
        assert_eq!((&*old.source_host, old.seconds_behind, old.outdated), ("db1", None, true));
        assert_eq!(outdated(None, "late"), Replication::Unreadable("late".into()));
        assert_eq!(outdated(Some(&[]), "late"), Replication::Channels(vec![]), "a primary stays one");
    }

    #[test]
    fn tables_of_an_unknown_channel_leave_its_filters_unknown() {
        let columns = "channel|host|port|auto_position|period|receiver|received|errno|error|applier";
        let answer = table(&format!("{columns}\n|db1|3306|1|0.700|CONNECTING|uuid:1-5|2003|no way|OFF"));
        let channel = &read(&answer, &[]).unwrap()[0];
        assert_eq!((channel.receiver, channel.applier_running), (Receiver::Connecting, false));
        assert_eq!((&*channel.filters, channel.source_server_id, channel.life), ("unknown", 0, None));
        assert!(channel.receiver_lost_source && !channel.outdated && channel.uses_gtid == Some(true));
        assert_eq!(read(&table(columns), &[]), None, "performance_schema is off");
    }

    /// Both readings, without what only the status or only the tables tell.
    async fn both(client: &mut Client, known: &[Channel]) -> [Vec<Channel>; 2] {
        let dialect = Dialect::of(&dialect::greeting(client.greeting()));
        let status = client.query_one(dialect.replication()).await.unwrap();
        let reported = read(&client.query_one(CHANNELS).await.unwrap(), known).unwrap();
        [channels(dialect::read_replication(&status)), reported].map(|channels| {
            let common = |channel| Channel { seconds_behind: None, life: None, heartbeat_period: None, ..channel };
            channels.into_iter().map(common).collect()
        })
    }

    #[test]
    fn tables_tell_of_channels_as_the_status_does() {
        if !Binaries::find().unwrap().families().contains(&Family::MySql) {
            return;
        }
        let mut options = ReplicationOptions::new(Family::MySql, 1);
        options.config = vec!["performance_schema=ON".into(), "replicate_ignore_table=app.none".into()];
        let lab = Lab::start(options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(&lab));
    }

    async fn compare(lab: &Lab) {
        let (primary, replica) = (lab.server(0), lab.server(1));
        let access = ServerAccess {
            address: net::Address::Tcp { host: "127.0.0.1".into(), port: replica.port() },
            tls: ClientTls::disabled(),
            user: lab::MONITOR_USER.into(),
            password: config::Secret::new(lab::MONITOR_PASSWORD),
            announce: None,
        };
        let mut client = access.open(Duration::from_secs(5), Limits::default()).await.unwrap();
        let status = client.query_one("SHOW REPLICA STATUS").await.unwrap();
        let known = channels(dialect::read_replication(&status));
        assert!(known[0].filters.contains("app.none") && known[0].source_server_id != 0, "{known:?}");
        let states = [
            ("DO 0", Receiver::Running, true),
            ("STOP REPLICA IO_THREAD", Receiver::Stopped, true),
            ("START REPLICA IO_THREAD; STOP REPLICA SQL_THREAD", Receiver::Running, false),
            ("START REPLICA SQL_THREAD", Receiver::Connecting, true),
        ];
        for (sql, receiver, applier) in states {
            if receiver == Receiver::Connecting {
                primary.kill9();
            }
            replica.sql(sql).unwrap();
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                let [status, tables] = both(&mut client, &known).await;
                let reached = (status[0].receiver, status[0].applier_running) == (receiver, applier);
                // A receiver that connects counts its attempts in its error: between the readings it may have made one.
                let settled = receiver != Receiver::Connecting || status[0].receiver_lost_source;
                if reached && settled && status == tables {
                    break;
                }
                assert!(Instant::now() < deadline, "{sql}: {status:#?}\n{tables:#?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
