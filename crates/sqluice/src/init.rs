//! `sqluice init`: a first configuration, and the SQL that the monitor user needs.

mod answers;
pub(crate) mod files;
mod grants;
mod only;

use std::io::{self, BufRead, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::out;
use answers::{AdminKey, Answers, Password};
use grants::{ClusterKindArg, Family, Grantee};

/// The pattern of all hosts.
const ANY_HOST: &str = "%";
/// The schema of the heartbeat table, unless the configuration names another one.
const HEARTBEAT_SCHEMA: &str = "sqluice";

/// Arguments of `sqluice init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A server, as NAME=HOST:PORT or HOST:PORT; repeat the option for each server. The default port is 3306.
    #[arg(long = "server", value_name = "NAME=ADDRESS")]
    servers: Vec<String>,
    /// The address for clients [default: 0.0.0.0:3306].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The name of the cluster.
    #[arg(long, value_name = "NAME", default_value = "main")]
    cluster: String,
    /// The monitor's user on the servers [default: sqluice].
    #[arg(long, value_name = "NAME")]
    monitor_user: Option<String>,
    /// The host of the monitor's account, for the printed SQL.
    #[arg(long, value_name = "HOST", default_value = ANY_HOST)]
    monitor_host: String,
    /// A file with the monitor's password. Without it Sqluice makes a password and writes it beside the configuration.
    #[arg(long, value_name = "FILE")]
    monitor_password_file: Option<PathBuf>,
    /// The address of metrics, health and the API [default: 127.0.0.1:9104]; "none" for none.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The way in which the servers keep the same data [default: replication; with one server standalone].
    #[arg(long, value_enum)]
    kind: Option<ClusterKindArg>,
    /// The family of the servers, for the printed SQL [default: mariadb; with group_replication and ndb mysql].
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// The file to write. "-" prints it; the password then comes from SQLUICE_MONITOR_PASSWORD.
    #[arg(long, short, value_name = "FILE", default_value = "sqluice.toml")]
    output: PathBuf,
    /// Let Sqluice replace a lost primary: failover = "auto", with the privileges and the API's key for it.
    #[arg(long)]
    failover: bool,
    /// Replace an existing file. The old one stays beside it, as FILE.bak-1 and so on.
    #[arg(long)]
    force: bool,
    /// Print only the SQL grants and write nothing: for the file of --output, or, without such a file, for these arguments.
    #[arg(long, conflicts_with = "force")]
    grants_only: bool,
    /// Ask no question: missing options take their defaults.
    #[arg(long)]
    non_interactive: bool,
}

/// Writes the configuration and prints the SQL: the SQL on standard output (with `--output -` the configuration), all
/// else on standard error.
///
/// # Errors
/// When an answer is missing or the files cannot be written. Wrong answers are told like mistakes of a file.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let terminal = !args.non_interactive && io::stdin().is_terminal();
    let mut input = terminal.then(|| io::stdin().lock());
    create(args, input.as_mut(), &mut io::stdout().lock())
}

/// Does it: asks only when there is an `input`, and gives `output` what is for standard output.
fn create<I: BufRead>(args: &Args, input: Option<&mut I>, output: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    if args.grants_only {
        return only::print(args, output);
    }
    let to_stdout = args.output.as_os_str() == "-";
    if !to_stdout && !args.force && args.output.exists() {
        bail!(
            "{0} exists and stays as it is; `sqluice init --grants-only --output {0}` prints the SQL grants for it, --force keeps a \
             copy of it and writes a new one",
            args.output.display()
        );
    }
    let answers = match input {
        Some(input) => ask(args, input, &mut io::stderr().lock())?,
        None => Answers::from_args(args, |_, default| Ok(default.map(str::to_owned)))?,
    };
    let password = Password::choose(args, to_stdout)?;
    let key = args.failover.then(|| AdminKey::choose(args, to_stdout)).transpose()?;
    let text = answers.render(&password, key.as_ref());
    if let Err(errors) = answers::check(&args.output, &text, &password, key.as_ref()) {
        out::say(errors);
        out::say("nothing was written");
        return Ok(ExitCode::FAILURE);
    }
    let sql = grants::sql(
        answers.family,
        &Grantee {
            user: &answers.monitor_user,
            host: &args.monitor_host,
            password: password.for_sql(),
            heartbeat_schema: HEARTBEAT_SCHEMA,
            kind: answers.kind,
            failover: answers.failover,
        },
    );
    if to_stdout {
        output.write_all(text.as_bytes()).context("cannot print the configuration")?;
        out::say(format_args!("\nThe monitor user's rights:\n\n{sql}"));
        return Ok(ExitCode::SUCCESS);
    }
    password.write()?;
    key.as_ref().map_or(Ok(()), AdminKey::write)?;
    if args.force
        && let Some(kept) = files::keep_copy(&args.output)?
    {
        out::say(format_args!("kept the file that was there as {}", kept.display()));
    }
    files::write_private(&args.output, text.as_bytes(), args.force)?;
    let name = args.output.display();
    out::say(format_args!("wrote {name}"));
    out::say("The monitor user needs these rights. To print them again:");
    out::say(format_args!("{}\n", only::command(args, answers.family)));
    output.write_all(sql.as_bytes()).context("cannot print the SQL")?;
    out::say(format_args!("\nNext: sqluice check --config {name}\n      sqluice run --config {name}"));
    Ok(ExitCode::SUCCESS)
}

/// Asks for what is not among the arguments.
fn ask(args: &Args, input: &mut impl BufRead, output: &mut impl io::Write) -> anyhow::Result<Answers> {
    Answers::from_args(args, |question, default| {
        match default {
            Some(default) => write!(output, "{question} [{default}]: ")?,
            None => write!(output, "{question}: ")?,
        }
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            bail!("the input ended before all was answered");
        }
        let answer = line.trim();
        Ok(if answer.is_empty() { default.map(str::to_owned) } else { Some(answer.to_owned()) })
    })
}

#[cfg(test)]
mod tests;
