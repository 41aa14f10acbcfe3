//! Connecting: who the server is, and what it must know before it is asked anything.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Trouble, refused};
use crate::Settings;
use crate::membership::Clock;
use crate::resp::{self, RespReply};
use crate::scripts::{ASK, BEAT, JOIN};

/// Largest reply while logging in: INFO has some kilobytes.
const REPLY_MAX: usize = 256 << 10;
/// Versions before this one run no script that asks for the time and then writes.
const MAJOR_MIN: u32 = 5;

/// The server behind a connection.
#[derive(Debug)]
pub(super) struct Server {
    /// One run of it, as primary: what it had before it was started again, or before it took over, has other names.
    pub(super) run: String,
    /// Its name and version.
    pub(super) version: String,
    /// Its clock.
    pub(super) clock: Clock,
    /// The scripts, as EVALSHA names them.
    pub(super) ask: Vec<u8>,
    pub(super) beat: Vec<u8>,
    pub(super) join: Vec<u8>,
}

/// Connects, logs in and leaves the scripts there. Has no time limit of its own.
pub(super) async fn open(settings: &Settings) -> Result<(net::Stream, Server), Trouble> {
    let mut stream = net::open(&settings.address, &settings.tls).await?;
    let mut out = Vec::new();
    let mut expected = Vec::new();
    let mut put = |what: &'static str, words: &[&[u8]]| {
        resp::put_command(&mut out, words);
        expected.push(what);
    };
    if let Some(password) = &settings.password {
        match &settings.user {
            Some(user) => put("AUTH", &[b"AUTH", user.as_bytes(), password]),
            None => put("AUTH", &[b"AUTH", password]),
        }
    }
    if settings.database != 0 {
        put("SELECT", &[b"SELECT", settings.database.to_string().as_bytes()]);
    }
    put("INFO", &[b"INFO"]);
    for script in [ASK, BEAT, JOIN] {
        put("SCRIPT", &[b"SCRIPT", b"LOAD", script.as_bytes()]);
    }
    put("TIME", &[b"TIME"]);
    stream.write_all(&out).await?;
    zeroize::Zeroize::zeroize(&mut out);
    stream.flush().await?;

    let mut received = Vec::new();
    let (mut info, mut scripts, mut clock) = (Vec::new(), Vec::new(), None);
    for what in expected {
        let reply = loop {
            if let Some((reply, taken)) = resp::parse(&received, REPLY_MAX)? {
                received.drain(..taken);
                break reply;
            }
            if stream.read_buf(&mut received).await? == 0 {
                return Err(Trouble::Text("it has closed the connection".into()));
            }
        };
        if let RespReply::Error(words) = &reply {
            return Err(match refused(words) {
                Trouble::Refused(words) => Trouble::Refused(format!("to {what}: {words}")),
                other => other,
            });
        }
        match what {
            "INFO" => info = reply.bytes().unwrap_or_default().to_vec(),
            "SCRIPT" => scripts.push(reply.bytes().unwrap_or_default().to_vec()),
            "TIME" => clock = time(&reply).map(|said| Clock::new(said, Instant::now())),
            _ => {}
        }
    }
    let [ask, beat, join]: [Vec<u8>; 3] =
        scripts.try_into().map_err(|_| Trouble::Text("it has not taken all scripts".into()))?;
    let clock = clock.ok_or_else(|| Trouble::Text("it has no time".into()))?;
    let info = Info::parse(&info)?;
    info.complain(&settings.address);
    Ok((stream, Server { run: info.run, version: info.version, clock, ask, beat, join }))
}

/// TIME in milliseconds: it says seconds and microseconds.
fn time(reply: &RespReply) -> Option<u64> {
    let [seconds, micros] = reply.elements() else { return None };
    let number = |reply: &RespReply| std::str::from_utf8(reply.bytes()?).ok()?.parse::<u64>().ok();
    Some(number(seconds)?.checked_mul(1000)? + number(micros)? / 1000)
}

/// The fields of INFO.
#[derive(Debug, PartialEq, Eq)]
struct Info {
    run: String,
    version: String,
    /// It refuses writes when it is full, where it should give something up.
    evicts_nothing: bool,
}

impl Info {
    fn parse(text: &[u8]) -> Result<Info, Trouble> {
        let text = String::from_utf8_lossy(text);
        let value = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '.' || *c == '-' || *c == '_';
            found.unwrap_or_default().chars().filter(plain).take(64).collect::<String>()
        };
        let (run, replication, version) = (value("run_id"), value("master_replid"), value("redis_version"));
        if run.is_empty() || replication.is_empty() {
            return Err(Trouble::Text("its INFO does not say which run of it this is".into()));
        }
        if value("role") != "master" {
            return Err(Trouble::Text("it is a replica; the tier is a primary".into()));
        }
        if value("cluster_enabled") == "1" {
            return Err(Trouble::Text("it is a node of a cluster; the tier is a server of its own".into()));
        }
        let major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < MAJOR_MIN {
            return Err(Trouble::Text(format!("its version is {version}; {MAJOR_MIN} is needed")));
        }
        let valkey = value("valkey_version");
        let version = if valkey.is_empty() { format!("Redis {version}") } else { format!("Valkey {valkey}") };
        let evicts_nothing = value("maxmemory_policy") == "noeviction" && value("maxmemory") != "0";
        Ok(Info { run: format!("{run}.{replication}"), version, evicts_nothing })
    }

    fn complain(&self, address: &net::Address) {
        if self.evicts_nothing {
            tracing::warn!(
                tier = %address,
                "the cache's tier has maxmemory-policy noeviction: when it is full it keeps nothing new; allkeys-lru makes room"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:ab12\r\n# Memory\r\nmaxmemory:1000\r\n\
                        maxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nmaster_replid:cd34\r\n";

    #[test]
    fn a_run_of_a_primary_has_a_name() {
        let info = Info::parse(INFO.as_bytes()).unwrap();
        let version = "Redis 7.0.15".to_owned();
        assert_eq!(info, Info { run: "ab12.cd34".into(), version, evicts_nothing: true });
        let valkey = INFO.replace("redis_version:7.0.15", "redis_version:7.2.4\r\nvalkey_version:8.1.0");
        assert_eq!(Info::parse(valkey.as_bytes()).unwrap().version, "Valkey 8.1.0");
        for (from, to) in [
            ("role:master", "role:slave"),
            ("run_id:ab12", "run_id:"),
            ("redis_version:7", "redis_version:3"),
            ("# Server", "cluster_enabled:1"),
        ] {
            assert!(Info::parse(INFO.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!(Info::parse(b"\xff\n:").is_err());
    }

    #[test]
    fn the_time_is_in_milliseconds() {
        let bulk = |text: &str| RespReply::Bulk(text.as_bytes().into());
        assert_eq!(time(&RespReply::Array(vec![bulk("1700000000"), bulk("123456")])), Some(1_700_000_000_123));
        assert_eq!(time(&RespReply::Array(vec![bulk("x"), bulk("1")])), None);
        assert_eq!(time(&RespReply::Nil), None);
    }
}
