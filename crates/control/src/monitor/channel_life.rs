//! Signs of life of a channel: how far it has read, and on MySQL its source's heartbeats.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use cluster::observation::Channel;
use net::query::ResultSet;

/// Received heartbeats of MySQL's channels, which its replication status does not tell.
pub(super) const LIFE: &str = "SELECT s.CHANNEL_NAME AS channel, s.COUNT_RECEIVED_HEARTBEATS AS heartbeats, \
    c.HEARTBEAT_INTERVAL AS period FROM performance_schema.replication_connection_status s \
    JOIN performance_schema.replication_connection_configuration c ON c.CHANNEL_NAME = s.CHANNEL_NAME";

/// How far a channel has read, as a number that changes when it reads on.
pub(super) fn life(answer: &ResultSet, row: usize, heartbeats: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    heartbeats.hash(&mut hasher);
    for columns in [["Master_Log_File", "Source_Log_File"], ["Read_Master_Log_Pos", "Read_Source_Log_Pos"]] {
        columns.iter().find_map(|column| answer.value(row, column)).hash(&mut hasher);
    }
    hasher.finish()
}

/// A period in seconds as servers write it; zero means no heartbeats.
pub(super) fn period(seconds: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok().filter(|period| !period.is_zero())
}

/// Adds what [`LIFE`] reports to the channels of `status`; says whether it reported each. Without it a channel lives
/// by what it has read, which the heartbeat that Sqluice writes moves on, and when its source should have said something is
/// not known.
pub(super) fn add_life(channels: &mut [Channel], status: &ResultSet, reported: Option<&ResultSet>) -> bool {
    let mut complete = true;
    for channel in channels {
        let row_of = |answer: &ResultSet, column: &str| {
            (0..answer.rows.len()).find(|row| answer.text(*row, column).is_some_and(|name| *name == *channel.name))
        };
        let Some(row) = row_of(status, "Channel_Name") else { continue };
        let beats = reported.and_then(|reported| Some((reported, row_of(reported, "channel")?)));
        complete &= beats.is_some();
        let heartbeats = beats.and_then(|(reported, row)| reported.text(row, "heartbeats")).unwrap_or_default();
        channel.life = Some(life(status, row, &heartbeats));
        channel.heartbeat_period =
            beats.and_then(|(reported, row)| reported.text(row, "period")).and_then(|seconds| period(&seconds));
    }
    complete
}

#[cfg(test)]
mod tests {
    use cluster::observation::Replication;

    use super::super::dialect::read_replication;
    use super::super::dialect::tests::table;
    use super::*;

    #[test]
    fn a_channel_lives_by_its_position_and_its_heartbeats() {
        let status = table("Channel_Name|Source_Log_File|Read_Source_Log_Pos\na|binlog.1|77\nb|binlog.9|1");
        assert_ne!(life(&status, 0, "1"), life(&status, 0, "2"));
        assert_ne!(life(&status, 0, "1"), life(&status, 1, "1"));
        assert_eq!((period("0.700"), period("0.000"), period("x")), (Some(Duration::from_millis(700)), None, None));
    }

    #[test]
    fn without_the_right_to_see_heartbeats_a_channel_lives_by_what_it_has_read() {
        let status = |position: u32| {
            table(&format!("Channel_Name|Source_Host|Source_Log_File|Read_Source_Log_Pos\n|db1|binlog.1|{position}"))
        };
        let read = |position: u32, reported: Option<&ResultSet>| {
            let Replication::Channels(mut channels) = read_replication(&status(position)) else { panic!("unreadable") };
            let complete = add_life(&mut channels, &status(position), reported);
            (complete, channels[0].life, channels[0].heartbeat_period)
        };
        let beats = |count: u32| table(&format!("channel|heartbeats|period\n|{count}|1.000"));
        assert_ne!(read(7, Some(&beats(1))), read(7, Some(&beats(2))));
        assert_eq!(read(7, Some(&beats(1))).2, Some(Duration::from_secs(1)));
        let (complete, life, period) = read(7, None);
        assert!(!complete && life.is_some() && period.is_none());
        assert_eq!(read(7, None), read(7, Some(&table("channel|heartbeats|period"))), "performance_schema is off");
        assert_ne!(read(7, None).1, read(8, None).1);
    }
}
