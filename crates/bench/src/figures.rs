//! Raw samples, kept as JSON, and the figures that are made of them.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// One contender's turn in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Measured time.
    pub(crate) seconds: f64,
    /// Clients at a time.
    pub(crate) clients: u64,
    /// Queries with a good end; where a client connects for each query, also connections.
    pub(crate) queries: u64,
    /// Errors that clients saw, and reconnects.
    pub(crate) errors: u64,
    /// The proxy's time on a CPU, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_ns: Option<u64>,
    /// The part of it in user space, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user_ns: Option<u64>,
    /// Percentiles of the time from a query to the end of its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    /// 99th percentile in microseconds, where the load tells no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
    /// Bytes of replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Reads that the server ran meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_reads: Option<u64>,
    /// Time on a CPU of all servers, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_ns: Option<u64>,
    /// The proxy's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Growth>,
}

/// Percentiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    #[serde(default)]
    pub(crate) p95_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

/// Resident memory of a proxy, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Growth {
    /// Before the load.
    pub(crate) before: u64,
    /// With the load there.
    pub(crate) after: u64,
    /// The most that it ever was.
    pub(crate) peak: u64,
}

/// All rounds of one contender at one point of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// The subject of a table of its own, such as a protocol.
    pub(crate) group: String,
    /// Where in the table, such as a number of connections.
    pub(crate) label: String,
    /// The contender.
    pub(crate) contender: String,
    /// One for each round.
    pub(crate) samples: Vec<Sample>,
    /// Figures from before the rounds, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warm_up: Option<WarmUp>,
}

/// How a contender that was just started was asked before it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WarmUp {
    /// For how long, all slices together.
    pub(crate) seconds: f64,
    /// The share of hits in each slice, in percent.
    pub(crate) hits: Vec<f64>,
}

/// A load that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The load's name.
    pub(crate) load: String,
    /// When it ended, in UTC.
    pub(crate) date: String,
    /// The command that ran it.
    pub(crate) command: String,
    /// Rounds, and seconds of each sample.
    pub(crate) rounds: u32,
    /// Seconds of each sample.
    pub(crate) seconds: u32,
    /// Threads of each proxy.
    pub(crate) workers: usize,
    /// On what it ran.
    pub(crate) machine: Machine,
    /// The programs that ran, each with its version.
    pub(crate) versions: Vec<(String, String)>,
    /// How it was done: commands, and who was left out for what reason.
    pub(crate) notes: Vec<String>,
    /// The raw figures.
    pub(crate) cells: Vec<Cell>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Queries in a second.
    Throughput,
    /// The share of queries that reached no server, in percent.
    Hits,
    /// How long the warm-up was, in seconds.
    WarmUpSeconds,
    /// The share of hits in the warm-up's last slice, in percent.
    WarmUpHits,
    /// Megabytes (10^6) of replies in a second.
    Bandwidth,
    /// Mean time of a query, in microseconds: clients × seconds ÷ queries.
    Mean,
    /// Mean time of a query less that of the server alone, in microseconds.
    Added,
    /// Median of a query's time, in microseconds.
    P50,
    /// Median less that of the server alone, in microseconds.
    AddedP50,
    /// Other percentiles, in microseconds.
    P95,
    P99,
    P999,
    /// 99th percentile ÷ median.
    Evenness,
    /// The proxy's time on a CPU for each query, in microseconds.
    Cpu,
    /// The part of it in user space.
    User,
    /// The part of it in the kernel.
    System,
    /// The servers' time on a CPU for each query, in microseconds.
    ServerCpu,
    /// The proxy's time on a CPU for each megabyte (10^6) of replies, in microseconds.
    CpuMegabyte,
    /// Memory that each client takes of the proxy, in kilobytes (1,000 bytes).
    ClientMemory,
    /// The most memory that the proxy had, in megabytes.
    PeakMemory,
    /// Clients that were there.
    Clients,
}

/// With whom a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    Direct,
    HaProxy,
    /// Sqluice with a connection for each read.
    Unpipelined,
    /// The server that answers the same to everything.
    Fixed,
}

/// The name of the contender that answers the same to everything.
pub(crate) const FIXED: &str = "fixed answer";
/// The name of the first build of Sqluice without pipelines.
pub(crate) const UNPIPELINED: &str = "sqluice unpipelined";

impl Against {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Against::Direct => "direct",
            Against::HaProxy => "haproxy",
            Against::Unpipelined => UNPIPELINED,
            Against::Fixed => FIXED,
        }
    }
}

impl Figure {
    /// The column's head.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Figure::Throughput => "queries/s",
            Figure::Hits => "hits %",
            Figure::WarmUpSeconds => "warm-up s",
            Figure::WarmUpHits => "warm-up hits %",
            Figure::Bandwidth => "MB/s",
            Figure::Mean => "mean µs",
            Figure::Added => "added µs",
            Figure::P50 => "p50 µs",
            Figure::AddedP50 => "added p50 µs",
            Figure::P95 => "p95 µs",
            Figure::P99 => "p99 µs",
            Figure::P999 => "p99.9 µs",
            Figure::Evenness => "p99 ÷ p50",
            Figure::Cpu => "CPU µs/query",
            Figure::User => "user µs/query",
            Figure::System => "system µs/query",
            Figure::ServerCpu => "server µs/query",
            Figure::CpuMegabyte => "CPU µs/MB",
            Figure::ClientMemory => "KB/client",
            Figure::PeakMemory => "peak MB",
            Figure::Clients => "clients",
        }
    }

    /// With whom it is compared, as columns.
    pub(crate) fn against(self) -> &'static [Against] {
        match self {
            Figure::Throughput => &[Against::Direct, Against::HaProxy, Against::Unpipelined, Against::Fixed],
            Figure::Bandwidth => &[Against::Direct, Against::HaProxy],
            Figure::Cpu => &[Against::HaProxy, Against::Fixed],
            Figure::ServerCpu => &[Against::Direct, Against::Unpipelined],
            Figure::P50 | Figure::P99 => &[Against::Unpipelined],
            Figure::Added | Figure::AddedP50 | Figure::User | Figure::CpuMegabyte | Figure::ClientMemory => {
                &[Against::HaProxy]
            }
            _ => &[],
        }
    }

    /// Digits behind the point.
    pub(crate) fn decimals(self) -> usize {
        match self {
            Figure::Throughput | Figure::Bandwidth | Figure::Clients | Figure::CpuMegabyte | Figure::WarmUpSeconds => 0,
            Figure::Evenness | Figure::User | Figure::System => 2,
            _ => 1,
        }
    }

    /// Less of it is better.
    pub(crate) fn less_is_better(self) -> bool {
        !matches!(self, Figure::Throughput | Figure::Hits | Figure::WarmUpHits | Figure::Bandwidth | Figure::Clients)
    }

    /// Its value in a warm-up, if it is one of a warm-up's.
    pub(crate) fn of_warm_up(self, warm_up: &WarmUp) -> Option<f64> {
        match self {
            Figure::WarmUpSeconds => Some(warm_up.seconds),
            Figure::WarmUpHits => warm_up.hits.last().copied(),
            _ => None,
        }
    }

    /// Its value in a sample; `direct` is the sample of the server alone in the same round.
    pub(crate) fn value(self, sample: &Sample, direct: Option<&Sample>) -> Option<f64> {
        let each = |total: f64| (sample.queries > 0).then(|| total / sample.queries as f64);
        let latency = sample.latency.as_ref();
        match self {
            Figure::Throughput => (sample.seconds > 0.0).then(|| sample.queries as f64 / sample.seconds),
            // The server counts what the bench and the proxy ask for themselves, too: a few reads.
            Figure::Hits => each(sample.queries.saturating_sub(sample.server_reads?) as f64 * 100.0),
            // No sample's: the warm-up is before them all.
            Figure::WarmUpSeconds | Figure::WarmUpHits => None,
            Figure::Bandwidth => Some(sample.bytes? as f64 / 1e6 / sample.seconds),
            Figure::Mean => each(sample.clients as f64 * sample.seconds * 1e6),
            Figure::Added => Some(Figure::Mean.value(sample, None)? - Figure::Mean.value(direct?, None)?),
            Figure::P50 => latency.map(|latency| latency.p50_us),
            Figure::AddedP50 => Some(latency?.p50_us - direct?.latency.as_ref()?.p50_us),
            Figure::P95 => latency.map(|latency| latency.p95_us).filter(|us| *us > 0.0),
            Figure::P99 => latency.map(|latency| latency.p99_us).or(sample.p99_us),
            Figure::P999 => latency.map(|latency| latency.p999_us),
            Figure::Evenness => latency.map(|latency| latency.p99_us / latency.p50_us),
            Figure::Cpu => each(sample.cpu_ns? as f64 / 1e3),
            Figure::User => each(sample.user_ns? as f64 / 1e3),
            Figure::System => each(sample.cpu_ns?.saturating_sub(sample.user_ns?) as f64 / 1e3),
            Figure::ServerCpu => each(sample.server_cpu_ns? as f64 / 1e3),
            Figure::CpuMegabyte => {
                let bytes = sample.bytes.filter(|bytes| *bytes > 0)? as f64;
                Some(sample.cpu_ns? as f64 / 1e3 / (bytes / 1e6))
            }
            Figure::ClientMemory => {
                let growth = sample.memory?;
                let clients = (sample.clients > 0).then_some(sample.clients as f64)?;
                Some(growth.after.saturating_sub(growth.before) as f64 / 1e3 / clients)
            }
            Figure::PeakMemory => Some(sample.memory?.peak as f64 / 1e6),
            Figure::Clients => Some(sample.clients as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let latency = Some(Latency { p50_us: 100.0, p95_us: 110.0, p99_us: 130.0, p999_us: 200.0 });
        let memory = Some(Growth { before: 1_000_000, after: 9_000_000, peak: 10_000_000 });
        let (cpu_ns, user_ns, bytes) = (Some(40_000_000), Some(4_000_000), Some(8_000_000));
        Sample {
            seconds: 2.0,
            clients: 4,
            queries: 2_000,
            errors: 0,
            cpu_ns,
            user_ns,
            latency,
            p99_us: None,
            bytes,
            server_reads: Some(500),
            server_cpu_ns: Some(50_000_000),
            memory,
        }
    }

    #[test]
    fn figures_have_their_units() {
        let direct = Sample { queries: 4_000, ..sample() };
        let value = |figure: Figure| figure.value(&sample(), Some(&direct)).unwrap();
        assert_eq!(value(Figure::Throughput), 1_000.0);
        assert_eq!(value(Figure::Hits), 75.0);
        assert_eq!(value(Figure::Bandwidth), 4.0);
        assert_eq!(value(Figure::Mean), 4_000.0);
        assert_eq!(value(Figure::Added), 2_000.0);
        assert_eq!(value(Figure::Cpu), 20.0);
        assert_eq!(value(Figure::User), 2.0);
        assert_eq!(value(Figure::System), 18.0);
        assert_eq!(value(Figure::ServerCpu), 25.0);
        assert_eq!(value(Figure::Evenness), 1.3);
        assert_eq!(value(Figure::ClientMemory), 2_000.0);
        assert_eq!(value(Figure::PeakMemory), 10.0);
    }

    #[test]
    fn what_is_not_there_has_no_figure() {
        let empty = Sample { seconds: 1.0, ..Sample::default() };
        for figure in [
            Figure::Cpu,
            Figure::Added,
            Figure::CpuMegabyte,
            Figure::AddedP50,
            Figure::P999,
            Figure::Mean,
            Figure::ClientMemory,
        ] {
            assert_eq!(figure.value(&empty, None), None, "{figure:?}");
        }
    }
}
