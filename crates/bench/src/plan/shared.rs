//! Loads about connections that reads of several sessions share: `pipelines`, `pauses` and `mix`.

use std::time::Duration;

use super::{Options, Point, WARM_UP, Work, connections, crowd, watched};
use crate::contender::{Build, Kind};
use crate::generate::{self, Query};
use crate::load::Load;

/// The load `pauses`.
const PAUSES_CLIENTS: u32 = 10_000;
/// Its connections to the server.
pub(super) const PAUSES_CONNECTIONS: u32 = 8;
/// The mean pause: so many clients ask for as much as two cores can give with ease.
const PAUSE: Duration = Duration::from_secs(1);
/// Until all of them have asked more than once, so that forms are known.
const PAUSES_WARM_UP: Duration = Duration::from_secs(3);
/// The load `mix`.
const MIX_CLIENTS: u32 = 64;
const MIX_WARM_UP: Duration = Duration::from_secs(1);

fn point(group: &str, label: String, work: generate::Work) -> Point {
    Point { group: group.to_owned(), label, tls: false, cold: None, work: Work::Generate(work) }
}

/// Clients that wait for each answer, as many as a small and a large application has.
pub(super) fn pipelines(options: &Options, seconds: u32) -> Vec<Point> {
    let usual: &[u32] = if options.quick { &[64] } else { &[1, 16, 64, 256] };
    let of = |(group, query): (&str, Query)| -> Vec<Point> {
        let one = |clients: &u32| {
            point(group, clients.to_string(), generate::Work::steady(*clients, query, WARM_UP, seconds))
        };
        connections(options, usual).iter().map(one).collect()
    };
    [("text", Query::Point), ("prepared", Query::Prepared)].into_iter().flat_map(of).collect()
}

/// The points of `mix`, `pauses` and `watched`.
///
/// # Errors
/// The system allows too few open files.
pub(super) fn points(load: Load, options: &Options, seconds: u32) -> anyhow::Result<Vec<Point>> {
    Ok(match load {
        Load::Mix => vec![mix(options, seconds)],
        Load::Pauses => vec![pauses(options, seconds)?],
        _ => watched::points(options, seconds),
    })
}

/// Many clients that ask now and then, on few connections to the server.
///
/// # Errors
/// The system allows too few open files.
fn pauses(options: &Options, seconds: u32) -> anyhow::Result<Point> {
    let clients = connections(options, &[PAUSES_CLIENTS]).first().copied().unwrap_or(PAUSES_CLIENTS);
    crowd::check_files(options, clients)?;
    let work =
        generate::Work { pause: PAUSE, ..generate::Work::steady(clients, Query::Point, PAUSES_WARM_UP, seconds) };
    Ok(point("text", format!("{clients} on {PAUSES_CONNECTIONS}"), work))
}

/// Short reads among long ones, large replies and kills.
fn mix(options: &Options, seconds: u32) -> Point {
    let clients = connections(options, &[MIX_CLIENTS]).first().copied().unwrap_or(MIX_CLIENTS);
    let work = generate::Work::steady(clients, Query::Mix, MIX_WARM_UP, seconds);
    point("text", clients.to_string(), work)
}

/// Those that take part in `mix` and `pauses`, each build of Sqluice with pipelines and without; and in `watched`.
pub(super) fn contenders(load: Load, all: &[Kind]) -> Vec<Kind> {
    if load == Load::Watched {
        return watched::contenders(all);
    }
    let takes_part = |kind: &&Kind| match load {
        Load::Mix => matches!(kind, Kind::Direct | Kind::Sqluice(_)),
        _ => kind.multiplexes(),
    };
    all.iter().filter(takes_part).cloned().flat_map(unpipelined_too).collect()
}

/// A build of Sqluice as it is, and without pipelines.
fn unpipelined_too(kind: Kind) -> Vec<Kind> {
    let Kind::Sqluice(build) = &kind else { return vec![kind] };
    let mut settings = build.settings.clone();
    settings.push(("cluster.main.pool.pipelines".to_owned(), "0".to_owned()));
    let without = Build { name: format!("{} unpipelined", build.name), settings, ..build.clone() };
    vec![kind, Kind::Sqluice(without)]
}

#[cfg(test)]
mod tests {
    use super::super::{plan, tests::options};
    use super::*;
    use crate::figures::UNPIPELINED;

    #[test]
    fn builds_take_part_with_pipelines_and_without() {
        let build = Build { name: "sqluice".into(), program: "/sqluice".into(), settings: Vec::new() };
        let given = Options { contenders: vec![Kind::Direct, Kind::HaProxy, Kind::Sqluice(build)], ..options() };
        let names =
            |load: Load| -> Vec<String> { plan(load, &given).unwrap().contenders.iter().map(Kind::name).collect() };
        assert_eq!(names(Load::Mix), ["direct", "sqluice", UNPIPELINED]);
        assert_eq!(names(Load::Pauses), ["sqluice", UNPIPELINED]);
        let few = Options { files: 1024, ..given.clone() };
        assert!(plan(Load::Pauses, &few).unwrap_err().to_string().contains("ulimit"));
        assert!(plan(Load::Mix, &given).unwrap().needs.large);
    }
}
