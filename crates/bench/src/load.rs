//! The loads by name: what they are about, and what is shown of them.

use crate::figures::Figure;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Load {
    /// One row by its primary key, by sysbench.
    Point,
    /// sysbench's reads, without transactions so that they may be split.
    ReadOnly,
    /// sysbench's transactions of reads and writes.
    ReadWrite,
    /// sysbench point selects with 1 to 128 threads.
    Threads,
    /// mysqlslap, `SELECT 1111` with 1 to 128 clients.
    Mysqlslap,
    /// One client: what a proxy adds to each query.
    Latency,
    /// Clients that connect for each query, with TLS and without.
    Connect,
    /// Point selects with TLS and without.
    Tls,
    /// Point selects of many clients on one thread, as text and prepared: what sharing connections to the server gives.
    Pipelines,
    /// Rows of one megabyte.
    Large,
    /// 10,000 clients on 40 connections to the server.
    Tail,
    /// 10,000 clients with pauses between their reads, on 8 connections to the server.
    Pauses,
    /// Short reads among long ones, large replies and kills.
    Mix,
    /// Point selects while operators watch.
    Watched,
    /// 20,000 clients that are there and ask nothing.
    Idle,
    /// Point selects through 0, 10 and 1,000 rules.
    Rules,
    /// Reads without a result cache and with one.
    Cache,
}

impl Load {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Load::Point => "point",
            Load::ReadOnly => "read_only",
            Load::ReadWrite => "read_write",
            Load::Threads => "threads",
            Load::Mysqlslap => "mysqlslap",
            Load::Latency => "latency",
            Load::Connect => "connect",
            Load::Tls => "tls",
            Load::Pipelines => "pipelines",
            Load::Large => "large",
            Load::Tail => "tail",
            Load::Pauses => "pauses",
            Load::Mix => "mix",
            Load::Watched => "watched",
            Load::Idle => "idle",
            Load::Rules => "rules",
            Load::Cache => "cache",
        }
    }

    /// Its subject, in a sentence.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Load::Point => "sysbench `oltp_point_select`: one row by its primary key.",
            Load::ReadOnly => "sysbench `oltp_read_only` without transactions: 14 reads an event.",
            Load::ReadWrite => "sysbench `oltp_read_write`: transactions of 20 statements.",
            Load::Threads => "sysbench `oltp_point_select` with 1 to 128 threads, as text.",
            Load::Mysqlslap => "mysqlslap, `SELECT 1111` with 1 to 128 clients.",
            Load::Latency => "One client that asks for one row after the other: what a proxy adds to each query.",
            Load::Connect => {
                "Clients that connect, ask for one row and leave, again and again; a query has its login with it."
            }
            Load::Tls => {
                "One row by its primary key, without TLS and with it. HAProxy passes TLS on as it is; the others end it, and \
                 speak TLS with the server as well."
            }
            Load::Pipelines => {
                "One row by its primary key, as text and prepared, for clients that wait for each answer: what it gives that reads of \
                 several sessions share connections to the server."
            }
            Load::Large => "Four rows of one megabyte in each reply.",
            Load::Tail => {
                "10,000 clients that ask one row after the other, over 40 connections to the server. For comparison 40 \
                 clients without a proxy. HAProxy cannot share connections."
            }
            Load::Pauses => {
                "10,000 clients that pause for about a second between their reads of one row, over 8 connections to the server, with \
                 pipelines and without."
            }
            Load::Mix => {
                "64 clients: 94 of 100 queries ask for one row, 5 take 50 ms, one has a reply of a megabyte; queries are killed. Times \
                 are those of the short ones."
            }
            Load::Watched => {
                "One row by its primary key, for 64 clients: with nobody who watches, while twenty people have the page open, and \
                 while a program asks for the digests ten times a second."
            }
            Load::Idle => "Clients that have asked once and then wait: what each takes of the proxy's memory.",
            Load::Rules => {
                "One row by its primary key, through 0, 10 and 1,000 routing rules of several kinds, of which only the last fits."
            }
            Load::Cache => {
                "Reads without a result cache and with one: sysbench `oltp_read_only` without transactions over 64 tables of 10,000 \
                 rows (`reads`), joins and aggregates (`costly`), and 1,000 rows that are asked for again and again (`hits`)."
            }
        }
    }

    /// The columns of its table.
    pub(crate) fn figures(self) -> &'static [Figure] {
        use Figure::*;
        match self {
            Load::Point | Load::Threads | Load::Rules => &[Throughput, Cpu, User, Mean, Added, P99],
            Load::ReadOnly | Load::ReadWrite | Load::Mysqlslap => &[Throughput, Cpu, User, Mean],
            Load::Latency => &[P50, AddedP50, Mean, Added, P99, Cpu, User],
            Load::Connect | Load::Tls => &[Throughput, Cpu, User, P50, P99],
            Load::Pipelines => &[Throughput, ServerCpu, Cpu, User, P50, P99],
            Load::Watched => &[Throughput, P50, P99, Cpu],
            Load::Mix => &[Throughput, P50, P99, P999, ServerCpu, Cpu],
            Load::Large => &[Bandwidth, CpuMegabyte, PeakMemory],
            Load::Tail => &[Clients, Throughput, P50, P99, P999, Evenness, Cpu, PeakMemory],
            Load::Pauses => &[Clients, Throughput, P50, P99, Evenness, ServerCpu, Cpu],
            Load::Idle => &[Clients, ClientMemory, PeakMemory],
            Load::Cache => &[Throughput, Hits, WarmUpHits, WarmUpSeconds, Cpu, User, System, Mean, P95, P99],
        }
    }

    /// The subject of its picture.
    pub(crate) fn pictured(self) -> &'static [Figure] {
        match self {
            Load::Latency => &[Figure::P50, Figure::AddedP50],
            Load::Large => &[Figure::Bandwidth, Figure::CpuMegabyte],
            Load::Tail | Load::Pauses => &[Figure::Evenness, Figure::Throughput],
            Load::Mix | Load::Watched => &[Figure::P99, Figure::Throughput],
            Load::Idle => &[Figure::ClientMemory],
            _ => &[Figure::Throughput, Figure::Cpu],
        }
    }

    /// The heading of the column that tells its rows apart.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Load::Threads => "threads",
            Load::Mysqlslap
            | Load::Latency
            | Load::Connect
            | Load::Tls
            | Load::Pipelines
            | Load::Mix
            | Load::Watched => "clients",
            Load::Tail | Load::Pauses | Load::Idle => "load",
            _ => "connections",
        }
    }
}
