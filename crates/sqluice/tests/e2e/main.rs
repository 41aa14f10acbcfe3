//! The real program in front of real servers: what users were promised, asked for as users would ask.
//!
//! `SQLUICE_SYSBENCH_SECONDS` makes each sysbench run longer, `SQLUICE_E2E_CLIENTS` changes how many clients share a few
//! connections, `SQLUICE_MYSQLD` adds MySQL (`docs/internals/testing.md`).

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

mod admin_tls;
mod binlog;
mod cache;
mod cache_admin;
mod cache_tier;
mod cluster_consistency;
mod compression;
mod consistency;
mod console;
mod counts;
mod defaults;
mod digests;
mod drain;
mod dribble;
mod drivers;
mod events;
mod explain;
mod failover;
mod failures;
mod follow;
mod galera;
mod galera_doubt;
mod group_replication;
mod hidden_writes;
mod history;
mod hostile;
mod in_doubt;
mod infile;
mod init_connect;
mod kills;
mod locks;
mod login;
mod metrics;
mod multiplexing;
mod mysql;
mod ndb;
mod new_code;
mod one_use;
mod packet_limit;
mod page;
mod parity;
mod pipelines;
mod plugins;
mod pool;
mod proxy_protocol;
mod query_cache;
mod regressions;
mod reload;
mod replay;
mod replica_wait;
mod rights;
mod rules;
mod sessions_api;
mod sockets;
mod staleness;
mod state;
mod statements;
mod support;
mod sysbench;
mod table_consistency;
mod tls;
mod workers;
mod wrong_passwords;
