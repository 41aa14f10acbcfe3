//! `sqluice init --grants-only`: the SQL for a configuration that is there already.

use std::io;
use std::process::ExitCode;
use std::str;

use anyhow::{Context as _, anyhow, bail};

use super::answers::read_password;
use super::grants::{self, ClusterKindArg, Family, Grantee, plain};
use super::{ANY_HOST, Args, HEARTBEAT_SCHEMA};
use crate::out;

/// Stands in the SQL for a password that is not known, or cannot stand there.
const PASSWORD_HERE: &str = "the monitor's password";

/// Prints the SQL for the clusters of the file that `--output` names, or for the arguments if that is not there. Writes no file.
///
/// # Errors
/// The file has mistakes, the arguments do not fit, or the output cannot be written.
pub(super) fn print(args: &Args, output: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    let sql = if args.output.exists() { of_file(args)? } else { of_arguments(args)? };
    output.write_all(sql.as_bytes()).context("cannot print the SQL")?;
    Ok(ExitCode::SUCCESS)
}

/// The command that prints the same SQL again, for the file that was just written; the file does not say all of it.
pub(super) fn command(args: &Args, family: Family) -> String {
    let host = match args.monitor_host.as_str() {
        ANY_HOST => String::new(),
        host => format!(" --monitor-host '{host}'"),
    };
    format!("sqluice init --grants-only --family {}{host} --output {}", family.word(), args.output.display())
}

/// For each cluster of the file: kind, user, password, heartbeat and failover are the file's, unless an argument says otherwise.
fn of_file(args: &Args) -> anyhow::Result<String> {
    let config = config::load(&args.output).map_err(|errors| anyhow!("{errors}"))?.config;
    let several = config.clusters.len() > 1;
    let mut sql = String::new();
    for (name, cluster) in &config.clusters {
        let kind = args.kind.unwrap_or(ClusterKindArg::of(cluster.kind));
        let password = match &args.monitor_password_file {
            Some(path) => read_password(path)?,
            None => {
                let known = str::from_utf8(cluster.monitor.password.expose()).ok().filter(|password| plain(password));
                known.unwrap_or(PASSWORD_HERE).to_owned()
            }
        };
        if several {
            sql.push_str(&format!("-- Cluster {name}.\n"));
        }
        sql.push_str(&grants::sql(
            family(args, kind)?,
            &Grantee {
                user: grantable(args.monitor_user.as_deref().unwrap_or(&cluster.monitor.user))?,
                host: grantable(&args.monitor_host)?,
                password: &password,
                heartbeat_schema: &cluster.monitor.heartbeat_schema,
                kind,
                failover: kind == ClusterKindArg::Replication
                    && (args.failover || cluster.failover != config::Failover::Off),
            },
        ));
    }
    Ok(sql)
}

/// For the arguments alone.
fn of_arguments(args: &Args) -> anyhow::Result<String> {
    let default = if args.servers.len() == 1 { ClusterKindArg::Standalone } else { ClusterKindArg::Replication };
    let kind = args.kind.unwrap_or(default);
    if args.failover && kind != ClusterKindArg::Replication {
        bail!("--failover is for --kind replication");
    }
    let password = args.monitor_password_file.as_deref().map(read_password).transpose()?;
    Ok(grants::sql(
        family(args, kind)?,
        &Grantee {
            user: grantable(args.monitor_user.as_deref().unwrap_or("sqluice"))?,
            host: grantable(&args.monitor_host)?,
            password: password.as_deref().unwrap_or(PASSWORD_HERE),
            heartbeat_schema: HEARTBEAT_SCHEMA,
            kind,
            failover: args.failover,
        },
    ))
}

fn family(args: &Args, kind: ClusterKindArg) -> anyhow::Result<Family> {
    Ok(kind.family(args.family)?.unwrap_or_else(|| {
        out::say("This is for MariaDB; for MySQL say --family mysql.");
        Family::Mariadb
    }))
}

/// A name that can stand in the SQL.
fn grantable(name: &str) -> anyhow::Result<&str> {
    if plain(name) { Ok(name) } else { bail!("{name:?} has a backslash or a control character") }
}
