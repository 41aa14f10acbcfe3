//! The load `watched`: a build of Sqluice with nobody who watches, and with those who do.

use super::{Options, Point, WARM_UP, Work, connections};
use crate::contender::Kind;
use crate::generate::{self, Query};
use crate::watch::Watch;

/// Its clients.
const CLIENTS: u32 = 64;

/// Those that take part.
pub(super) fn contenders(all: &[Kind]) -> Vec<Kind> {
    all.iter().filter(|kind| matches!(kind, Kind::Sqluice(_))).flat_map(with_watch).collect()
}

fn with_watch(kind: &Kind) -> [Kind; 3] {
    let watched = |watch| Kind::Watched(Box::new(kind.clone()), watch);
    [kind.clone(), watched(Watch::Pages), watched(Watch::Digests)]
}

/// Clients that wait for each answer.
pub(super) fn points(options: &Options, seconds: u32) -> Vec<Point> {
    let point = |clients: &u32| Point {
        group: "text".to_owned(),
        label: clients.to_string(),
        tls: false,
        cold: None,
        work: Work::Generate(generate::Work::steady(*clients, Query::Point, WARM_UP, seconds)),
    };
    connections(options, &[CLIENTS]).iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{plan, tests::options};
    use super::*;
    use crate::contender::Build;
    use crate::load::Load;

    #[test]
    fn only_sqluice_is_watched() {
        let build = Build { name: "sqluice".into(), program: "/sqluice".into(), settings: Vec::new() };
        let given = Options { contenders: vec![Kind::Direct, Kind::Sqluice(build)], ..options() };
        let plan = plan(Load::Watched, &given).unwrap();
        let names: Vec<String> = plan.contenders.iter().map(Kind::name).collect();
        assert_eq!(names, ["sqluice", "sqluice 20 pages", "sqluice digests"]);
        assert_eq!(plan.points.len(), 1);
        assert!(
            plan.notes.iter().any(|note| note.contains("direct, which has nothing to show here")),
            "{:?}",
            plan.notes
        );
    }
}
