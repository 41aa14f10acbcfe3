//! The command line.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::Parser;
use lab::Family;

use crate::contender::{self, Build, Kind};
use crate::figures::Record;
use crate::load::Load;
use crate::plan::Options;
use crate::run::{self, progress};
use crate::sysbench::Protocol;
use crate::wordpress::{self, Mix};
use crate::{machine, picture, report, stop, system, table};

/// Contenders by name.
const CONTENDERS: [&str; 6] = ["direct", "haproxy", "sqluice", "proxysql", "maxscale", "mysqlrouter"];
/// A contender, the variable that names its program, and what is made of that.
type Named = (&'static str, &'static str, fn(PathBuf) -> Kind);
/// Proxies that take part when an environment variable names their program.
const NAMED: [Named; 3] = [
    ("proxysql", "PROXYSQL_BIN", Kind::ProxySql),
    ("maxscale", "MAXSCALE_BIN", Kind::MaxScale),
    ("mysqlrouter", "MYSQLROUTER_BIN", Kind::Router),
];

/// Measures Sqluice and other proxies side by side: rounds in rotating order, ratios, CPU time per query.
///
/// ProxySQL, MaxScale and MySQL Router take part when PROXYSQL_BIN, MAXSCALE_BIN and MYSQLROUTER_BIN name their programs.
/// docs/internals/benchmarks.md tells the method.
#[derive(Debug, Parser)]
#[command(name = "bench", bin_name = "./dev bench", version, max_term_width = 120)]
pub(crate) struct Arguments {
    /// A load, `all` of them, `wordpress` (pages of a blog: docs/reference/cache-wordpress.md), or `report`: writes the figures that are there into the page.
    #[arg(value_name = "LOAD", default_value = "point", value_parser = what)]
    what: What,
    /// Rounds; in each of them every contender has its turn [default: 5, with --quick 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Seconds of each turn [default: 5, with --quick 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Numbers of connections, such as 1,16,64.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: Vec<u32>,
    /// How sysbench sends statements [default: text; all loads: both].
    #[arg(long, value_enum, value_name = "P,…", value_delimiter = ',')]
    protocol: Vec<Protocol>,
    /// The contenders: direct, haproxy, sqluice, proxysql, maxscale, mysqlrouter [default: all that are there].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    contenders: Vec<String>,
    /// A build of Sqluice; several make as many contenders. Keys are those of its configuration, such as
    /// busy=target/release/sqluice,proxy.workers=1 [default: the program beside this one].
    #[arg(long, value_name = "[NAME=]PROGRAM[,KEY=VALUE…]")]
    sqluice: Vec<Build>,
    /// Threads of each proxy [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// The family of the servers: mariadb, or mysql, whose program SQLUICE_MYSQLD names.
    #[arg(long, value_name = "FAMILY", default_value = "mariadb", value_parser = family)]
    server: Family,
    /// Replicas beside the primary. HAProxy and direct clients use the primary only.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    replicas: u8,
    /// How often visitors of the blog write [default: percona,readers].
    #[arg(long, value_enum, value_name = "MIX,…", value_delimiter = ',')]
    mix: Vec<Mix>,
    /// Posts of the blog [default: 100000, with --quick 10000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    posts: Option<u32>,
    /// Parts of the load `cache`: reads, costly, hits [default: all].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = ["reads", "costly", "hits"])]
    parts: Vec<String>,
    /// Most seconds for which sysbench asks a contender of the load `cache` before it is measured; less when its share of hits is
    /// steady; 0 for none [default: 240, with --quick 10].
    #[arg(long, alias = "warm-up", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3600))]
    warm_up_max_s: Option<u32>,
    /// The share of hits is steady when ten seconds raise it by no more than so many percent of all queries [default: 0.3].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    warm_up_rise: Option<f64>,
    /// A fast look: fewer rounds, seconds and points.
    #[arg(long)]
    quick: bool,
    /// Where tables, pictures and raw figures go.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench", overrides_with = "output")]
    output: PathBuf,
    /// The page that `report` writes into; pictures go to a folder of its name beside it.
    #[arg(long, value_name = "FILE", default_value = "docs/reference/performance.md")]
    page: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    All,
    One(Load),
    Report,
    /// Pages of a blog instead of queries: it has tables of its own.
    WordPress,
}

fn what(text: &str) -> Result<What, String> {
    use clap::ValueEnum as _;
    let names: Vec<&str> = Load::value_variants().iter().map(|load| load.name()).collect();
    match text {
        "all" => Ok(What::All),
        "report" => Ok(What::Report),
        wordpress::NAME => Ok(What::WordPress),
        _ => Load::from_str(text, true)
            .map(What::One)
            .map_err(|_| format!("there is no such load; there are: {}, wordpress, all, report", names.join(", "))),
    }
}

/// Does what the command line says.
///
/// # Errors
/// Something is missing or fails; the text says what and what helps.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    use clap::ValueEnum as _;
    if arguments.what == What::Report {
        return report::write(&arguments.output, &arguments.page);
    }
    stop::catch_signals()?;
    let options = options(arguments)?;
    std::fs::create_dir_all(&arguments.output)
        .with_context(|| format!("cannot make the folder {}", arguments.output.display()))?;
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let command = format!("./dev bench {command}");
    let loads = match arguments.what {
        What::All => Load::value_variants().to_vec(),
        What::One(load) => vec![load],
        What::WordPress => {
            let plan = wordpress::Plan::new(&options, arguments.posts, &arguments.mix)?;
            return wordpress::run(&plan, command.trim_end(), &arguments.output);
        }
        What::Report => Vec::new(),
    };
    let started = Instant::now();
    let mut failed = Vec::new();
    for load in loads {
        let done = run::run(load, &options, command.trim_end())
            .and_then(|record| keep(&record, load, &arguments.output))
            .with_context(|| format!("the load {}", load.name()));
        match done {
            Ok(()) => {}
            // The others are worth having all the same.
            Err(error) if arguments.what == What::All && !stop::is_asked() => {
                eprintln!("error: {error:#}");
                failed.push(load.name());
            }
            Err(error) => return Err(error),
        }
    }
    if !failed.is_empty() {
        bail!("these loads failed, see above: {}", failed.join(", "));
    }
    progress(&format!("done after {} s; everything is in {}", started.elapsed().as_secs(), arguments.output.display()));
    Ok(())
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let all = arguments.what == What::All;
    let protocols = match (arguments.protocol.is_empty(), all) {
        (false, _) => arguments.protocol.clone(),
        (true, true) => vec![Protocol::Text, Protocol::Prepared],
        (true, false) => vec![Protocol::Text],
    };
    Ok(Options {
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        connections: arguments.connections.clone(),
        protocols,
        workers: arguments.workers.map_or_else(machine::cores, usize::from),
        replicas: arguments.replicas.into(),
        family: arguments.server,
        quick: arguments.quick,
        all,
        files: system::raise_open_files(),
        contenders: contenders(arguments)?,
        parts: arguments.parts.clone(),
        warm_up_max_s: arguments.warm_up_max_s,
        warm_up_rise: arguments.warm_up_rise,
    })
}

fn family(text: &str) -> Result<Family, String> {
    match text {
        "mariadb" => Ok(Family::MariaDb),
        "mysql" => Ok(Family::MySql),
        _ => Err("there are mariadb and mysql".to_owned()),
    }
}

/// A share of a hundred, above zero: a share that can only rise is never steady at zero.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.01..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0.01 to 100 is expected".to_owned())
}

fn contenders(arguments: &Arguments) -> anyhow::Result<Vec<Kind>> {
    let wanted = |name: &str| arguments.contenders.is_empty() || arguments.contenders.iter().any(|one| one == name);
    if let Some(unknown) = arguments.contenders.iter().find(|name| !CONTENDERS.contains(&name.as_str())) {
        bail!("there is no contender '{unknown}'; there are: {}", CONTENDERS.join(", "));
    }
    let mut contenders = Vec::new();
    if wanted("direct") {
        contenders.push(Kind::Direct);
    }
    if wanted("haproxy") {
        contenders.push(Kind::HaProxy);
    }
    if wanted("sqluice") {
        let builds = if arguments.sqluice.is_empty() { vec![beside()?] } else { arguments.sqluice.clone() };
        contenders.extend(builds.into_iter().map(Kind::Sqluice));
    }
    for (name, variable, make) in NAMED {
        match contender::program_of(variable)? {
            Some(program) if wanted(name) => contenders.push(make(program)),
            None if arguments.contenders.iter().any(|one| one == name) => {
                bail!("{name} is not known here: let {variable} name its program");
            }
            _ => {}
        }
    }
    let mut names: Vec<String> = contenders.iter().map(Kind::name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two contenders are named '{}'; give names: --sqluice a=PROGRAM --sqluice b=PROGRAM", twice[0]);
    }
    Ok(contenders)
}

/// The Sqluice that was built with this program.
fn beside() -> anyhow::Result<Build> {
    let program = std::env::current_exe()?.with_file_name("sqluice");
    if !program.is_file() {
        bail!("there is no {}: `./dev bench` builds it, or name one with --sqluice", program.display());
    }
    Ok(Build { name: "sqluice".to_owned(), program, settings: Vec::new() })
}

/// Prints the tables, and writes them, the picture and the raw figures.
fn keep(record: &Record, load: Load, folder: &Path) -> anyhow::Result<()> {
    let tables = table::tables(record, load);
    println!("\n{}\n\n{tables}", load.about());
    let file = |ending: &str| folder.join(format!("{}.{ending}", load.name()));
    let save = |ending: &str, text: &str| {
        let path = file(ending);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    save("json", &serde_json::to_string_pretty(record)?)?;
    save("md", &format!("{}\n\n{tables}", load.about()))?;
    save("svg", &picture::picture(record, load))
}
