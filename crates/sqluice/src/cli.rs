//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{cache, change, check, demo, init, log_tail, out, regressions, relieve, run, sessions, status, top};

/// A database traffic manager for MySQL and MariaDB.
///
/// Applications connect to Sqluice as if it were the database. It shares few backend connections among many clients,
/// sends reads to replicas and all other statements to the primary, follows the primary when it moves, and moves it when it must.
#[derive(Debug, Parser)]
#[command(name = "sqluice", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
See it work, with real servers in a temporary folder:
  sqluice demo

Put it in front of your own servers:
  sqluice init --server db1=10.0.0.1 --server db2=10.0.0.2
  sqluice check --config sqluice.toml
  sqluice run --config sqluice.toml
  mariadb --host 127.0.0.1 --port 3306 --user app --password

`sqluice help COMMAND` tells more about each.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients, until a signal stops it.
    #[command(after_help = RUN_HELP)]
    Run(run::Args),
    /// Check a configuration: print its meaning, or every mistake in it.
    #[command(after_help = CHECK_HELP)]
    Check(check::Args),
    /// Write a first configuration, and print the SQL grants that the monitor user needs.
    #[command(after_help = INIT_HELP)]
    Init(init::Args),
    /// Start real servers, Sqluice and a load, and show a live table.
    #[command(after_help = DEMO_HELP)]
    Demo(demo::Args),
    /// Show the clusters of the running process: roles, lag, positions, problems, the last decisions.
    #[command(after_help = STATUS_HELP)]
    Status(status::Args),
    /// Move the primary to another server while both are alive.
    #[command(after_help = SWITCHOVER_HELP)]
    Switchover(change::Switchover),
    /// Replace a lost primary.
    #[command(after_help = FAILOVER_HELP)]
    Failover(change::Failover),
    /// Attach a server as a replica of the primary.
    #[command(after_help = REJOIN_HELP)]
    Rejoin(change::Rejoin),
    /// Confirm that you have seen a failover: automatic failover may act again at once.
    #[command(after_help = ACKNOWLEDGE_HELP)]
    Acknowledge(change::Acknowledge),
    /// Drain a server, take it out for maintenance, or use it again.
    #[command(after_help = SERVER_HELP)]
    Server(change::Server),
    /// Show the result cache of the running process, wipe it, or find reads worth a rule.
    #[command(after_help = CACHE_HELP)]
    Cache(cache::Args),
    /// Show the last queries and logins of the running process.
    #[command(after_help = LOG_HELP)]
    Log(log_tail::Args),
    /// Print digests of the running process that are new, slower or more frequent since a moment or a mark.
    #[command(after_help = REGRESSIONS_HELP)]
    Regressions(regressions::Args),
    /// Print the sessions of the running process: who they are, what they do, and on which server.
    Sessions(sessions::ListArgs),
    /// End a session of the running process, or what it runs; or all that meet a condition.
    Kill(sessions::KillArgs),
    /// Move sessions of a busy worker of the running process to the least busy one.
    Relieve(relieve::Args),
    /// Show the load, the servers, the digests that take the most time, and the busy sessions, once a second.
    Top(top::Args),
}

const RUN_HELP: &str = "\
Examples:
  sqluice run --config /etc/sqluice/sqluice.toml
  SQLUICE_LOG=debug sqluice run            more log lines than with the file's log.level

Signals:
  HUP         read the configuration again; a file with a mistake changes nothing
  TERM, INT   take no new clients, let sessions finish (proxy.drain_ms), then end
  INT again   end at once

Exit codes: 0 ended by a signal, 1 could not start, 2 wrong arguments, 130 ended at once.";

const CHECK_HELP: &str = "\
Examples:
  sqluice check --config sqluice.toml
  sqluice check --all                      with every setting, its default included

Exit codes: 0 the file is good, 1 it has mistakes.";

const INIT_HELP: &str = "\
Examples:
  sqluice init                             asks for the servers' addresses
  sqluice init --non-interactive --server db1=10.0.0.1 --server db2=10.0.0.2 > grants.sql
  sqluice init --server 10.0.0.1 --output - --non-interactive
  sqluice init --grants-only --family mysql  the SQL grants for sqluice.toml, and nothing else

Then run the printed SQL on the primary, as an administrator.";

const DEMO_HELP: &str = "\
Examples:
  sqluice demo
  sqluice demo --replicas 3 --clients 64
  sqluice demo --no-load --port 3306       connect your own clients and watch
  sqluice demo --seconds 5 --plain         lines instead of a table, for scripts

Needs MariaDB's server program; on Debian and Ubuntu: apt-get install mariadb-server-core mariadb-client-core";

const STATUS_HELP: &str = "\
Examples:
  sqluice status --config /etc/sqluice/sqluice.toml
  sqluice status --cluster main --json

The command uses the API of the running process. The file has its address and its admin.key.

Exit codes: 0 each cluster has a primary, 1 a cluster has none, or the API does not reply.";

const SWITCHOVER_HELP: &str = "\
Examples:
  sqluice switchover --cluster main --dry-run
  sqluice switchover --cluster main --to db2

Sqluice holds new writes meanwhile; clients notice a pause.

Exit codes: 0 done, 1 refused or aborted: the primary is as before.";

const FAILOVER_HELP: &str = "\
Examples:
  sqluice failover --cluster main --dry-run
  sqluice failover --cluster main --to db2
  sqluice failover --cluster main --force    even if data may be lost

Exit codes: 0 done, 1 refused or aborted.";

const REJOIN_HELP: &str = "\
Examples:
  sqluice rejoin db1 --cluster main --dry-run
  sqluice rejoin db1

Sqluice refuses a server that has transactions that the primary lacks, and names them.

Exit codes: 0 done, 1 refused or aborted.";

const ACKNOWLEDGE_HELP: &str = "\
Examples:
  sqluice acknowledge --cluster main

Exit codes: 0 done, 1 refused.";

const SERVER_HELP: &str = "\
Examples:
  sqluice server drain db2 --cluster main
  sqluice server drain db2 --wait          until no session uses it, a minute at most
  sqluice server resume db2
  sqluice server maintenance db3

With promotion.journal both states survive a restart. Without it they do not, and a warning says so.

Exit codes: 0 done, 1 refused, or sessions still use it after the wait.";

const CACHE_HELP: &str = "\
Examples:
  sqluice cache                              cached results, and the effect of each rule
  sqluice cache digests                      the same for each digest
  sqluice cache advise --ttl-ms 10000        reads worth a rule, as [[rule]] blocks
  sqluice cache warm                         runs the files of [warm.NAME]
  sqluice cache wipe --table shop.products
  sqluice cache wipe --rule product-pages --cluster main
  sqluice cache wipe --all

The command uses the API of the running process. The file has its address and its admin.key.

Exit codes: 0 done, 1 refused, or the API does not reply.";

const LOG_HELP: &str = "\
Examples:
  sqluice log tail
  sqluice log tail --follow --where 'kind=login and ok=false'
  sqluice log tail --follow --where 'user=app and ms>100'
  sqluice log tail --limit 1000 --json

Logins are always there. Which queries are there, [events] in the configuration says.
The command uses the API of the running process. The file has its address and its admin.key.

Exit codes: 0 done, 1 the API does not reply.";

const REGRESSIONS_HELP: &str = "\
Examples:
  sqluice regressions                      the last hour, compared with the time before
  sqluice regressions --since -10m
  sqluice regressions --mark 7             since the deploy that POST /api/v1/marks has marked
  sqluice regressions --factor 8 --json

The running process needs a history ([history] in the configuration).

Exit codes: 0 done, 1 the API does not reply, or there is no history.";

/// Does what the command line says.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Switchover(args) => change::switchover(&args),
        Command::Failover(args) => change::failover(&args),
        Command::Rejoin(args) => change::rejoin(&args),
        Command::Acknowledge(args) => change::acknowledge(&args),
        Command::Server(args) => change::server(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Log(args) => log_tail::run(&args),
        Command::Regressions(args) => regressions::run(&args),
        Command::Sessions(args) => sessions::list(&args),
        Command::Relieve(args) => relieve::run(&args),
        Command::Kill(args) => sessions::kill(&args),
        Command::Top(args) => top::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) if out::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            out::say(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_fit_together() {
        super::Cli::command().debug_assert();
    }
}
