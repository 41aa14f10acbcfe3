use crate::{COARSE_S, DigestFigures, History, Recorder, Times, open};

use super::*;

/// The beginning of a coarse window.
const START: u64 = 1_800_000_000;
const LIMITS: Limits = Limits { factor: 3.0, samples: 20, limit: 50 };

/// The counters of one process, which grow.
struct World {
    _folder: tempfile::TempDir,
    recorder: Recorder,
    history: History,
    digests: Vec<DigestFigures>,
    now_s: u64,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (mut recorder, _) = open(&path, u64::MAX).unwrap();
        recorder.digests(START, Vec::new()).unwrap();
        World { _folder: folder, recorder, history: History::of(&path), digests: Vec::new(), now_s: START }
    }

    /// Runs so many statements of a digest, each with this time.
    fn run(&mut self, hash: &str, statements: u64, each_us: u64) -> &mut DigestFigures {
        let at = self.digests.iter().position(|digest| digest.hash == hash).unwrap_or_else(|| {
            self.digests.push(DigestFigures {
                hash: hash.to_owned(),
                text: format!("SELECT {hash}"),
                user: "app".to_owned(),
                schema: "shop".to_owned(),
                statements: 0,
                errors: 0,
                rows: 0,
                time_us: 0,
                times: Times::default(),
                first_seen_s: self.now_s,
            });
            self.digests.len() - 1
        });
        let digest = &mut self.digests[at];
        digest.statements += statements;
        digest.rows += statements;
        digest.time_us += statements * each_us;
        digest.times.add(&Times::of([(each_us, statements)]));
        digest
    }

    /// So many seconds pass, with a look at their end.
    fn pass(&mut self, seconds: u64) {
        self.now_s += seconds;
        self.recorder.digests(self.now_s, self.digests.clone()).unwrap();
    }

    fn since(&self, since_s: u64) -> Regressions {
        let grown = self.recorder.grown(self.now_s, &self.digests);
        self.history.regressions(since_s, &grown, LIMITS).unwrap()
    }
}

fn shown(regressions: &Regressions) -> Vec<(&str, Vec<&'static str>)> {
    let kinds = |digest: &Compared| digest.kinds.iter().map(|(kind, _)| kind.word()).collect();
    regressions.digests.iter().map(|digest| (&*digest.key.0, kinds(digest))).collect()
}

#[test]
fn each_kind_of_change_is_found_and_what_stays_is_not() {
    let mut world = World::new();
    for _ in 0..10 {
        for (hash, statements, each_us) in
            [("same", 600, 2_000), ("slower", 60, 900), ("frequent", 30, 500), ("rows", 60, 2_000), ("wrong", 60, 300)]
        {
            world.run(hash, statements, each_us);
        }
        world.pass(60);
    }
    let deploy_s = world.now_s;
    for _ in 0..3 {
        world.run("same", 700, 2_500);
        world.run("slower", 60, 8_000);
        world.run("frequent", 900, 500);
        world.run("rows", 60, 2_000).rows += 60 * 99;
        world.run("wrong", 60, 300).errors += 30;
        world.run("new", 50, 4_000);
        world.run("once", 1, 4_000);
        world.pass(60);
    }
    // This is in no window yet.
    world.run("late", 25, 90_000);
    world.now_s += 20;
    let found = world.since(deploy_s);
    assert_eq!((found.after, &found.before[..]), ((deploy_s, world.now_s), &[(deploy_s - 3600, deploy_s)][..]));
    assert_eq!(
        shown(&found),
        [
            ("late", vec!["new"]),
            ("frequent", vec!["frequent"]),
            ("slower", vec!["slower"]),
            ("new", vec!["new"]),
            ("rows", vec!["rows"]),
            ("wrong", vec!["errors"]),
        ]
    );
    let slower = &found.digests[2];
    let before = slower.before.unwrap();
    assert_eq!((before.p95_us, slower.after.p95_us, slower.after.statements), (900, 8_000, 180));
    assert!((slower.kinds[0].1.unwrap() - 8_000.0 / 900.0).abs() < 1e-9, "{slower:?}");
    assert_eq!(slower.text, "SELECT slower");
    // From the middle of a window it begins with that window.
    assert_eq!(world.since(deploy_s + 59).after.0, deploy_s);
    assert_eq!(world.since(deploy_s + 60).after.0, deploy_s + 60);
}

#[test]
fn what_comes_each_day_is_no_regression() {
    let mut world = World::new();
    // A batch at the same hour of each day, and something else all the time.
    for step in 0..(2 * 24 * 12) {
        world.run("always", 300, 1_500);
        if step % (24 * 12) < 6 {
            world.run("batch", 1_000, 50_000);
        }
        world.pass(300);
    }
    let midnight_s = world.now_s;
    for _ in 0..20 {
        world.run("always", 60, 1_500);
        world.run("batch", 200, 50_000);
        world.pass(60);
    }
    let found = world.since(midnight_s);
    assert_eq!(found.before, [(midnight_s - 3600, midnight_s), (midnight_s - 86_400, midnight_s - 82_800)]);
    assert_eq!(shown(&found), []);
    // A digest of yesterday that the times before do not have is not new.
    world.now_s += 4 * 3600;
    world.pass(60);
    let later_s = world.now_s;
    for _ in 0..5 {
        world.run("batch", 200, 50_000);
        world.run("fresh", 200, 50_000);
        world.run("always", 60, 1_500);
        world.pass(60);
    }
    assert_eq!(shown(&world.since(later_s)), [("batch", vec!["risen"]), ("fresh", vec!["new"])]);
}

#[test]
fn fine_windows_become_coarse_ones_and_both_are_bounded() {
    let mut world = World::new();
    for _ in 0..(9 * 24 * 60 / 5) {
        for number in 0..(crate::WINDOW_DIGESTS_KEPT + 5) {
            if number < 5 || world.now_s.is_multiple_of(3600) {
                world.run(&format!("d{number}"), 1, 1_000 - number as u64);
            }
        }
        world.pass(300);
    }
    let connection = file::open_to_read(&world.history.path).unwrap();
    let range = |step: u64| -> (u64, u64) {
        let text = "SELECT MIN(at), COUNT(*) FROM windows WHERE step = ?";
        connection.query_row(text, [step], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (fine, coarse) = (range(0), range(COARSE_S));
    assert!(fine.1 <= (crate::FINE_KEEP_S + COARSE_S) / 300, "{fine:?}");
    assert!(
        world.now_s - coarse.0 <= crate::COARSE_KEEP_S && coarse.1 <= crate::COARSE_KEEP_S / COARSE_S,
        "{coarse:?}"
    );
    // Nothing is counted twice, and nothing is missing where both meet.
    let day = windows::read(&connection, world.now_s - 86_400, world.now_s).unwrap();
    let key = ("d1".to_owned(), "app".to_owned(), "shop".to_owned());
    assert_eq!((day.seconds, day.digests[&key].statements, day.digests[&key].times.count()), (86_400, 288, 288));
    let most: u64 = connection
        .query_row("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM window_digests GROUP BY step, at)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(most, crate::WINDOW_DIGESTS_KEPT as u64);
}
