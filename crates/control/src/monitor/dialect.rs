//! The monitor's queries, by family and version, and the meaning of their answers.

use std::sync::Arc;

use cluster::observation::{Channel, Details, Facts, Greeting, Receiver, Replication};
use facts::gtid::Applied;
use facts::gtid::mariadb::Gtids;
use facts::gtid::mysql::GtidSet;
use net::query::ResultSet;
use wire::{Capabilities, errno};

use super::{channel_life, details};

/// Family and version decide how things are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) mariadb: bool,
    /// For example 101106 or 80402.
    pub(crate) number: u32,
}

/// The driver's view of a greeting. A MariaDB server is known by the capability that only MariaDB leaves out, for the
/// version text can be configured; the text counts too, since servers behind other proxies may set the bit.
pub(crate) fn greeting(greeting: &wire::greeting::Greeting) -> Greeting {
    let version = &greeting.server_version;
    let mariadb = !greeting.capabilities.contains(Capabilities::LONG_PASSWORD)
        || version.to_ascii_lowercase().contains("mariadb");
    Greeting {
        mariadb,
        version: version.as_str().into(),
        number: version_number(version),
        capabilities: greeting.capabilities.bits(),
        auth_plugin: greeting.plugin.as_str().into(),
        collation: greeting.collation,
    }
}

/// `major * 10000 + minor * 100 + patch`; zero where the text has no number. MariaDB 10 puts `5.5.5-` in front so that
/// replicas of old versions accept it.
fn version_number(text: &str) -> u32 {
    let text = match text.strip_prefix("5.5.5-") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => rest,
        _ => text,
    };
    let mut parts = text.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().unwrap_or(0).min(99)
    });
    let mut next = || parts.next().unwrap_or(0);
    next() * 10_000 + next() * 100 + next()
}

impl Dialect {
    pub(crate) fn of(greeting: &Greeting) -> Dialect {
        Dialect { mariadb: greeting.mariadb, number: greeting.number }
    }

    /// Identity and read-only state in one row.
    pub(crate) fn facts(self) -> &'static str {
        if self.mariadb {
            "SELECT @@server_id AS server_id, @@hostname AS hostname, @@port AS port, @@report_host AS report_host, \
             @@report_port AS report_port, @@read_only AS read_only, 0 AS super_read_only, \
             @@gtid_current_pos AS gtid_executed, @@gtid_slave_pos AS gtid_replicated, @@log_bin AS log_bin"
        } else {
            "SELECT @@server_id AS server_id, @@hostname AS hostname, @@port AS port, @@report_host AS report_host, \
             @@report_port AS report_port, @@read_only AS read_only, @@super_read_only AS super_read_only, \
             @@global.gtid_executed AS gtid_executed, @@global.gtid_mode AS gtid_mode, @@log_bin AS log_bin"
        }
    }

    /// The query for [`read_position`], and nothing else.
    pub(crate) fn position(self) -> &'static str {
        if self.mariadb {
            "SELECT @@server_id AS server_id, @@gtid_current_pos AS gtid_executed, \
             @@gtid_slave_pos AS gtid_replicated, @@log_bin AS log_bin"
        } else {
            "SELECT @@global.gtid_executed AS gtid_executed, @@global.gtid_mode AS gtid_mode, @@log_bin AS log_bin"
        }
    }

    /// All replication channels. MySQL knows REPLICA since 8.0.22 and nothing else since 8.4.
    pub(crate) fn replication(self) -> &'static str {
        match (self.mariadb, self.number) {
            (true, _) => "SHOW ALL SLAVES STATUS",
            (false, 80_022..) => "SHOW REPLICA STATUS",
            (false, _) => "SHOW SLAVE STATUS",
        }
    }
}

/// Reads the answer to [`Dialect::facts`]; `None` if it isn't one.
pub(crate) fn read_facts(greeting: Greeting, answer: &ResultSet, replication: Replication) -> Option<Facts> {
    let text = |column: &str| answer.text(0, column).unwrap_or_default();
    let number = |column: &str| text(column).parse::<u16>().unwrap_or(0);
    Some(Facts {
        greeting,
        resolved: None,
        server_id: text("server_id").parse().ok()?,
        hostname: text("hostname").into(),
        port: number("port"),
        report_host: text("report_host").into(),
        report_port: number("report_port"),
        read_only: is_on(&text("read_only")),
        super_read_only: is_on(&text("super_read_only")),
        gtid_executed: without_line_breaks(&text("gtid_executed")),
        replication,
        heartbeat_lag: None,
        details: Details::default(),
    })
}

/// The applied position of the server, and whether it tells the position of each write: its binary log is on, and on MySQL
/// GTIDs are. `None` when it has no position that could be compared.
pub(crate) fn read_position(dialect: Dialect, answer: &ResultSet) -> Option<(Applied, bool)> {
    let text = |column: &str| answer.text(0, column);
    let logs = is_on(&text("log_bin")?);
    if dialect.mariadb {
        let gtids = |column: &str| Gtids::parse(&text(column)?);
        let server = text("server_id")?.parse().ok()?;
        let applied =
            Applied::MariaDb { server, replicated: gtids("gtid_replicated")?, current: gtids("gtid_executed")? };
        return Some((applied, logs));
    }
    let mode = text("gtid_mode")?;
    if !mode.eq_ignore_ascii_case("on") && !mode.eq_ignore_ascii_case("on_permissive") {
        return None;
    }
    Some((Applied::MySql(GtidSet::parse(&text("gtid_executed")?)?), logs))
}

/// Any value but these refuses writes: MariaDB 12 has more than one way of being read-only.
pub(crate) fn is_on(value: &str) -> bool {
    !matches!(value, "" | "0") && !value.eq_ignore_ascii_case("off")
}

/// MySQL breaks long GTID sets into lines.
pub(super) fn without_line_breaks(text: &str) -> Arc<str> {
    if text.contains('\n') { text.replace('\n', "").into() } else { text.into() }
}

/// Errors after which a receiver tries to connect again (`is_network_error` of both families): those of the client's library that
/// say that no server answered, too many connections, and a server that shuts down.
pub(super) fn is_no_connection(code: u16) -> bool {
    matches!(
        code,
        errno::CR_CONNECTION_ERROR
            | errno::CR_CONN_HOST_ERROR
            | errno::CR_UNKNOWN_HOST
            | errno::CR_SERVER_GONE_ERROR
            | errno::CR_SERVER_LOST
            | errno::ER_CON_COUNT_ERROR
            | errno::ER_SERVER_SHUTDOWN
    )
}

/// Reads the answer to [`Dialect::replication`].
pub(crate) fn read_replication(answer: &ResultSet) -> Replication {
    let channels = (0..answer.rows.len()).map(|row| {
        let text = |columns: &[&str]| -> Arc<str> {
            columns.iter().find_map(|column| answer.text(row, column)).unwrap_or_default().into()
        };
        let yes = |columns: &[&str]| text(columns).eq_ignore_ascii_case("yes");
        let receiver = text(&["Slave_IO_Running", "Replica_IO_Running"]);
        Channel {
            name: text(&["Connection_name", "Channel_Name"]),
            source_host: text(&["Master_Host", "Source_Host"]),
            source_port: text(&["Master_Port", "Source_Port"]).parse().unwrap_or(0),
            source_server_id: text(&["Master_Server_Id", "Source_Server_Id"]).parse().unwrap_or(0),
            receiver: match &*receiver {
                "Yes" => Receiver::Running,
                "Connecting" | "Preparing" => Receiver::Connecting,
                _ => Receiver::Stopped,
            },
            applier_running: yes(&["Slave_SQL_Running", "Replica_SQL_Running"]),
            seconds_behind: text(&["Seconds_Behind_Master", "Seconds_Behind_Source"]).parse().ok(),
            gtid_received: without_line_breaks(&text(&["Gtid_IO_Pos", "Retrieved_Gtid_Set"])),
            receiver_error: text(&["Last_IO_Error"]),
            receiver_lost_source: is_no_connection(text(&["Last_IO_Errno"]).parse().unwrap_or(0)),
            applier_error: text(&["Last_SQL_Error"]),
            delay_s: text(&["SQL_Delay"]).parse().unwrap_or(0),
            uses_gtid: details::uses_gtid(answer, row),
            filters: details::filters(answer, row),
            // MySQL tells its heartbeats elsewhere.
            life: answer.text(row, "Slave_received_heartbeats").map(|beats| channel_life::life(answer, row, &beats)),
            heartbeat_period: answer.text(row, "Slave_heartbeat_period").and_then(|text| channel_life::period(&text)),
            outdated: false,
        }
    });
    // RESET REPLICA without ALL leaves rows without a host; group replication's channels have none either.
    Replication::Channels(channels.filter(|channel| !channel.source_host.is_empty()).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use facts::gtid::WrittenGtids;
    use net::query::Column;

    use super::*;

    /// A result from a header line and lines of cells, separated by `|`; `NULL` is NULL.
    pub(crate) fn table(text: &str) -> ResultSet {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let header = lines.next().map(cells).unwrap_or_default();
        let value = |cell: String| if cell == "NULL" { None } else { Some(cell.into_bytes()) };
        ResultSet {
            columns: header.into_iter().map(|name| Column { name, ..Column::default() }).collect(),
            rows: lines.map(|line| cells(line).into_iter().map(value).collect()).collect(),
            ..ResultSet::default()
        }
    }

    fn any_greeting() -> Greeting {
        Greeting {
            mariadb: false,
            version: "8.4.2".into(),
            number: 80_402,
            capabilities: 0,
            auth_plugin: "".into(),
            collation: 45,
        }
    }

    #[test]
    fn version_numbers() {
        for (text, number) in [
            ("5.5.5-10.11.6-MariaDB-0+deb12u1", 101_106),
            ("11.4.2-MariaDB-log", 110_402),
            ("8.0.36", 80_036),
            ("8.4.2-commercial", 80_402),
            ("9.7.0-1", 90_700),
            ("5.7.44-log", 50_744),
            ("5.5.5-x", 50_505),
            ("", 0),
            ("nonsense", 0),
            ("999999999999.1", 100),
        ] {
            assert_eq!(version_number(text), number, "{text}");
        }
    }

    #[test]
    fn words_by_family_and_version() {
        let ask = |mariadb, number| Dialect { mariadb, number }.replication();
        assert_eq!(ask(true, 101_106), "SHOW ALL SLAVES STATUS");
        assert_eq!(ask(false, 80_021), "SHOW SLAVE STATUS");
        assert_eq!(ask(false, 80_022), "SHOW REPLICA STATUS");
        assert_eq!(ask(false, 90_700), "SHOW REPLICA STATUS");
        assert!(!Dialect { mariadb: true, number: 101_106 }.facts().contains("@@super_read_only"));
    }

    #[test]
    fn channels_of_mariadb() {
        let answer = table(
            "Connection_name|Master_Host|Master_Port|Slave_IO_Running|Slave_SQL_Running|Seconds_Behind_Master|\
             Master_Server_Id|Gtid_IO_Pos|Last_IO_Errno|Last_IO_Error|Last_SQL_Error|SQL_Delay
             |db1|3306|Yes|Yes|0|1|0-1-5|0|||0
             dc2|db9|3307|Connecting|No|NULL|0||2003|error connecting|duplicate|3600",
        );
        let Replication::Channels(channels) = read_replication(&answer) else { panic!("unreadable") };
        assert!(channels[0].works());
        assert_eq!((channels[0].seconds_behind, channels[0].source_server_id), (Some(0), 1));
        let other = &channels[1];
        assert_eq!((&*other.name, &*other.source_host, other.source_port), ("dc2", "db9", 3307));
        assert_eq!((other.receiver, other.applier_running, other.seconds_behind), (Receiver::Connecting, false, None));
        assert_eq!((&*other.receiver_error, &*other.applier_error), ("error connecting", "duplicate"));
        assert!(other.receiver_lost_source && !channels[0].receiver_lost_source);
        assert_eq!(other.delay_s, 3600);
    }

    #[test]
    fn channels_of_mysql_in_both_vocabularies() {
        let new = table(
            "Source_Host|Source_Port|Replica_IO_Running|Replica_SQL_Running|Seconds_Behind_Source|Source_Server_Id|\
             Retrieved_Gtid_Set|Channel_Name
             db1|3306|Yes|Yes|7|1|uuid:1-5|",
        );
        let old = table(
            "Master_Host|Master_Port|Slave_IO_Running|Slave_SQL_Running|Seconds_Behind_Master|Master_Server_Id|\
             Retrieved_Gtid_Set|Channel_Name
             db1|3306|Yes|Yes|7|1|uuid:1-5|",
        );
        assert_eq!(read_replication(&new), read_replication(&old));
        let Replication::Channels(channels) = read_replication(&new) else { panic!("unreadable") };
        assert_eq!((channels[0].seconds_behind, &*channels[0].gtid_received), (Some(7), "uuid:1-5"));
    }

    #[test]
    fn a_channel_without_a_source_is_none() {
        let answer = table("Source_Host|Replica_IO_Running\n|No");
        assert_eq!(read_replication(&answer), Replication::Channels(vec![]));
        assert_eq!(read_replication(&ResultSet::default()), Replication::Channels(vec![]));
    }

    #[test]
    fn positions_are_read() {
        let maria = Dialect { mariadb: true, number: 101_106 };
        let reported = |text: &str| read_position(maria, &table(text));
        let columns = "server_id|gtid_executed|gtid_replicated|log_bin";
        let (applied, logs) = reported(&format!("{columns}\n2|0-1-5,1-2-9|0-1-5|1")).unwrap();
        assert!(logs && applied.has(&WrittenGtids::parse(true, "0-1-5,1-2-9").unwrap()));
        assert!(!reported(&format!("{columns}\n2|||0")).unwrap().1);
        assert_eq!(reported(&format!("{columns}\n2|what|0-1-5|1")), None);
        assert_eq!(reported("server_id\n2"), None);
        let mysql = Dialect { mariadb: false, number: 80_402 };
        let reported = |mode: &str| {
            let answer =
                table(&format!("gtid_executed|gtid_mode|log_bin\n6aa342cb-e4ff-11f1-87a0-02fc00000001:1-5|{mode}|1"));
            read_position(mysql, &answer)
        };
        let write = WrittenGtids::parse(false, "6aa342cb-e4ff-11f1-87a0-02fc00000001:5").unwrap();
        assert!(reported("ON").is_some_and(|(applied, logs)| logs && applied.has(&write)));
        assert!(
            reported("ON_PERMISSIVE").is_some() && reported("OFF").is_none() && reported("OFF_PERMISSIVE").is_none()
        );
    }

    #[test]
    fn facts_are_read() {
        let none = Replication::Channels(vec![]);
        let answer = table(
            "server_id|hostname|port|report_host|report_port|read_only|super_read_only|gtid_executed
             7|db1|3306|NULL|3306|1|0|0-1-5",
        );
        let facts = read_facts(any_greeting(), &answer, none.clone()).unwrap();
        assert_eq!((facts.server_id, facts.port, &*facts.report_host), (7, 3306, ""));
        assert!(facts.read_only && !facts.super_read_only);
        assert_eq!(read_facts(any_greeting(), &table("server_id"), none), None);
        let on = ["1", "ON", "NO_LOCK_NO_ADMIN", "0", "OFF", "off", ""].map(is_on);
        assert_eq!(on, [true, true, true, false, false, false, false]);
    }
}
