//! Making a server follow another one.

use std::sync::Arc;

use cluster::observation::{Channel, Receiver};
use facts::gtid::mariadb::Gtids;

use super::channel::{self, Ours};
use super::{Clients, Failed, FailedKind, Hand, semi_sync, set_read_only, text};

/// The settings of a new channel where nothing is known: quick to notice a dead source, and never giving up.
const RETRY_SECONDS: &str = "1";
const RETRIES: &str = "86400";
const HEARTBEAT_SECONDS: &str = "1";

/// Whom to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How a server that has no channel yet logs in to its source.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) user: Arc<str>,
    pub(crate) password: config::Secret,
    pub(crate) tls: bool,
}

/// Makes the server read-only and lets it follow `source` by GTID. A channel that is there keeps its options: user and
/// password, TLS, filters, delay, times. A server without one, an old primary, takes `account`.
pub(crate) async fn follow(
    hand: &mut Hand<'_>,
    ours: &Ours,
    source: &Source,
    account: Option<&Account>,
) -> Result<(), Failed> {
    // A replica of MySQL may have refused the writes of most users only.
    set_read_only(hand, true, Clients::EndIfInTheWay).await?;
    let channel = channel::read(hand, ours).await?;
    if let Some(channel) = &channel
        && *channel.source_host == *source.host
        && channel.source_port == source.port
    {
        if channel.receiver == Receiver::Stopped || !channel.applier_running {
            hand.run("start replication", hand.dialect.thread("START", None, &channel.name)).await?;
        }
        // That its source is dead is for the driver to judge, as soon as this is done.
        return channel::wait_received(hand, ours, channel::Until::Tried).await;
    }
    if channel.is_none() && account.is_none() {
        let text = "it has no replication channel, and the configuration has no replication.user for a new one";
        return Err(Failed::refused(text));
    }
    channel::stop_following(hand, ours).await?;
    semi_sync::become_replica(hand).await?;
    if hand.dialect.mariadb {
        note_own_position(hand, channel.is_some()).await?;
    }
    let (name, mut options) = (channel.as_ref().map_or("", |channel| &*channel.name), address(source));
    match &channel {
        Some(channel) => options.extend(kept(hand, channel).await?),
        None => options.extend(account.map(|account| fresh(hand, account)).unwrap_or_default()),
    }
    options.push(match hand.dialect.mariadb {
        true => ("MASTER_USE_GTID", "slave_pos".to_owned()),
        false => ("MASTER_AUTO_POSITION", "1".to_owned()),
    });
    let name = name.to_owned();
    hand.run("set its source", hand.dialect.change(&name, &options)).await?;
    hand.run("start replication", hand.dialect.thread("START", None, &name)).await?;
    channel::wait_received(hand, ours, channel::Until::Connected).await
}

type Options = Vec<(&'static str, String)>;

fn address(source: &Source) -> Options {
    vec![("MASTER_HOST", text(&source.host)), ("MASTER_PORT", source.port.to_string())]
}

/// The options that servers set back to a default when the source changes, which a step sets again. User, password, TLS,
/// filters, delay and retries they keep.
async fn kept(hand: &mut Hand<'_>, channel: &Channel) -> Result<Options, Failed> {
    let (sql, column) = match hand.dialect.mariadb {
        true => (hand.dialect.replication().to_owned(), "Slave_heartbeat_period"),
        false => {
            let name = text(&channel.name);
            let table = "performance_schema.replication_connection_configuration";
            (format!("SELECT HEARTBEAT_INTERVAL FROM {table} WHERE CHANNEL_NAME = {name}"), "HEARTBEAT_INTERVAL")
        }
    };
    let answer = match hand.run("read its heartbeat period", sql).await {
        Ok(answer) => answer,
        // Without the right to read it the period becomes a quick one, which does no harm.
        Err(failed) if failed.kind == FailedKind::Denied => return Ok(heartbeat(HEARTBEAT_SECONDS)),
        Err(failed) => return Err(failed),
    };
    let of_channel = |row: &usize| answer.text(*row, "Connection_name").is_none_or(|name| *name == *channel.name);
    let row = (0..answer.rows.len()).find(of_channel);
    let period = row.and_then(|row| answer.text(row, column)).filter(|period| period.parse::<f64>().is_ok());
    Ok(period.map(|period| heartbeat(&period)).unwrap_or_default())
}

fn heartbeat(seconds: &str) -> Options {
    vec![("MASTER_HEARTBEAT_PERIOD", seconds.to_owned())]
}

fn fresh(hand: &Hand<'_>, account: &Account) -> Options {
    let password = String::from_utf8_lossy(account.password.expose());
    let mut options = vec![
        ("MASTER_USER", text(&account.user)),
        ("MASTER_PASSWORD", text(&password)),
        ("MASTER_SSL", u8::from(account.tls).to_string()),
        // Whom to trust is a matter of files on the servers, which are not known here.
        ("MASTER_SSL_VERIFY_SERVER_CERT", "0".to_owned()),
        ("MASTER_CONNECT_RETRY", RETRY_SECONDS.to_owned()),
    ];
    if !hand.dialect.mariadb {
        options.push(("MASTER_RETRY_COUNT", RETRIES.to_owned()));
        // caching_sha2_password without TLS needs the key once, to send a password.
        if hand.dialect.number >= 80_003 {
            options.push(("GET_MASTER_PUBLIC_KEY", "1".to_owned()));
        }
    }
    options.extend(heartbeat(HEARTBEAT_SECONDS));
    options
}

/// On MariaDB only what came by replication counts in `gtid_slave_pos`, from which a replica continues. An old primary's
/// own writes must be in it, and transactions that a killed replica logged but did not note (after DDL it does so in a
/// step of its own). A replica's own writes must not: it would skip other servers' writes with these numbers.
async fn note_own_position(hand: &mut Hand<'_>, follows: bool) -> Result<(), Failed> {
    let what = "note its own position";
    let sql = "SELECT @@server_id, @@global.gtid_binlog_pos, @@global.gtid_slave_pos";
    let answer = hand.run(what, sql).await?;
    let cell = |index: usize| {
        answer.rows.first().and_then(|row| row.get(index)?.as_deref()).map(String::from_utf8_lossy).unwrap_or_default()
    };
    let own: u32 = cell(0).parse().unwrap_or(0);
    if let Some(merged) = merged(own, &cell(1), &cell(2), follows) {
        hand.run(what, format!("SET GLOBAL gtid_slave_pos = {}", text(&merged))).await?;
    }
    Ok(())
}

/// The new `gtid_slave_pos`; `None` when it need not change.
fn merged(own: u32, logged: &str, replicated: &str, follows: bool) -> Option<String> {
    let (logged, replicated) = (Gtids::parse(logged)?, Gtids::parse(replicated)?);
    let newer = |gtid: &&facts::gtid::mariadb::Gtid| {
        (!follows || gtid.server != own)
            && replicated.of(gtid.domain).is_none_or(|known| known.sequence < gtid.sequence)
    };
    let newer: Vec<_> = logged.iter().filter(newer).collect();
    if newer.is_empty() {
        return None;
    }
    let older = replicated.iter().filter(|gtid| newer.iter().all(|new| new.domain != gtid.domain));
    let all = newer.iter().copied().chain(older);
    let words: Vec<String> = all.map(|gtid| format!("{}-{}-{}", gtid.domain, gtid.server, gtid.sequence)).collect();
    Some(words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_primary_counts_what_it_wrote_and_a_replica_what_others_wrote() {
        assert_eq!(merged(1, "0-1-100", "", false).as_deref(), Some("0-1-100"));
        assert_eq!(merged(1, "0-1-100", "0-3-90,7-3-5", false).as_deref(), Some("0-1-100,7-3-5"));
        assert_eq!(merged(1, "0-3-90", "0-3-90", false), None);
        assert_eq!(merged(2, "0-2-500", "0-1-100", true), None, "its own write is no write of the primary");
        assert_eq!(merged(2, "0-1-101", "0-1-100", true).as_deref(), Some("0-1-101"), "logged, but not noted");
        assert_eq!(merged(2, "", "0-1-100", true), None);
    }
}
