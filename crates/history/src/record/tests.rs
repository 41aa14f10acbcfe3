use std::path::Path;

use crate::{DIGESTS_KEPT, Figure, FigureKind, History, Opened, RESOLUTIONS, Range, SERIES_MAX, Times, open};

use super::DigestFigures;

const NO_BOUND: u64 = u64::MAX;
const START: u64 = 1_800_000_000;

fn gauge(series: &str, value: f64) -> Figure {
    Figure { series: series.to_owned(), kind: FigureKind::Gauge, value }
}

fn counter(series: &str, value: f64) -> Figure {
    Figure { series: series.to_owned(), kind: FigureKind::Counter, value }
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    (folder, path)
}

fn points(path: &Path, name: &str, step: usize) -> Vec<(u64, f64)> {
    let range = Range { from_s: 0, until_s: u64::from(u32::MAX) };
    let found = History::of(path).series(&[name.to_owned()], range, RESOLUTIONS[step], 10).unwrap();
    found.into_iter().next().map(|series| series.points).unwrap_or_default()
}

#[test]
fn gauges_are_kept_and_counters_become_rates() {
    let (_folder, path) = folder();
    let (mut recorder, opened) = open(&path, NO_BOUND).unwrap();
    assert_eq!(opened, Opened::Whole);
    for (second, sessions, requests) in [(0, 5.0, 100.0), (10, 7.0, 150.0), (20, 6.0, 30.0), (30, 6.0, 130.0)] {
        let figures = [gauge("sessions", sessions), counter("requests", requests), gauge("none", f64::NAN)];
        recorder.figures(START + second, &figures).unwrap();
    }
    let at = |second: u64| START + second;
    assert_eq!(points(&path, "sessions", 0), [(at(0), 5.0), (at(10), 7.0), (at(20), 6.0), (at(30), 6.0)]);
    // At 20 the counter had begun anew.
    assert_eq!(points(&path, "requests", 0), [(at(10), 5.0), (at(30), 10.0)]);
    assert_eq!(History::of(&path).names().unwrap(), ["requests", "sessions"]);
}

#[test]
fn coarser_resolutions_have_means_and_old_points_go() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    let day = 24 * 3600;
    for second in (0..=day + 1200).step_by(10) {
        recorder.figures(START + second, &[gauge("sessions", (second % 60 / 10) as f64)]).unwrap();
    }
    let fine = points(&path, "sessions", 0);
    assert_eq!((fine[0].0, fine.len() as u64), (START + 1200, day / 10 + 1));
    let minutes = points(&path, "sessions", 1);
    assert_eq!((minutes[0], minutes.len() as u64), ((START, 2.5), (day + 1200) / 60));
    assert_eq!(points(&path, "sessions", 2).len() as u64, (day + 1200) / 600);
}

#[test]
fn a_killed_process_loses_nothing() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    recorder.figures(START, &[gauge("sessions", 5.0)]).unwrap();
    let id = recorder.mark(START, "ann", "deploy 7").unwrap();
    // As with SIGKILL, nothing is closed.
    std::mem::forget(recorder);
    let (mut recorder, opened) = open(&path, NO_BOUND).unwrap();
    recorder.figures(START + 10, &[gauge("sessions", 6.0)]).unwrap();
    assert_eq!((opened, points(&path, "sessions", 0).len()), (Opened::Whole, 2));
    let marks = History::of(&path).marks(Range { from_s: START, until_s: START + 1 }, 10).unwrap();
    assert_eq!((marks[0].id, &*marks[0].author, &*marks[0].text), (id, "ann", "deploy 7"));
    assert!(recorder.mark(START, "ann", " ").is_err() && recorder.mark(START, "ann", &"x".repeat(501)).is_err());
}

#[test]
fn a_damaged_file_is_set_aside() {
    let (_folder, path) = folder();
    drop(open(&path, NO_BOUND).unwrap());
    std::fs::write(&path, vec![7; 9000]).unwrap();
    let (mut recorder, opened) = open(&path, NO_BOUND).unwrap();
    let Opened::SetAside(aside) = opened else { panic!("{opened:?}") };
    assert!(aside.ends_with("history.sqlite.damaged") && aside.exists());
    recorder.figures(START, &[gauge("sessions", 5.0)]).unwrap();
    assert_eq!(points(&path, "sessions", 0).len(), 1);
    assert!(open(&path.join("no/such/folder"), NO_BOUND).is_err());
}

#[test]
fn the_file_keeps_within_its_bound() {
    let (_folder, path) = folder();
    let bound = 160 << 10;
    let (mut recorder, _) = open(&path, bound).unwrap();
    let figures: Vec<Figure> = (0..50).map(|number| gauge(&format!("series{number}"), number as f64)).collect();
    let mut largest = 0;
    for tick in 0..500 {
        recorder.figures(START + tick * 10, &figures).unwrap();
        largest = largest.max(recorder.bytes().unwrap());
    }
    // The points of one moment come on top before others go.
    assert!(largest <= bound + (64 << 10), "{largest}");
    let last = *points(&path, "series7", 0).last().unwrap();
    assert_eq!(last, (START + 4_990, 7.0));
}

#[test]
fn there_is_room_for_so_many_series() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    let figures: Vec<Figure> = (0..SERIES_MAX + 3).map(|number| gauge(&format!("s{number}"), 1.0)).collect();
    recorder.figures(START, &figures).unwrap();
    assert_eq!((recorder.left_out(), History::of(&path).names().unwrap().len()), (3, SERIES_MAX));
}

fn digest(hash: &str, statements: u64, time_us: u64) -> DigestFigures {
    DigestFigures {
        hash: hash.to_owned(),
        text: format!("SELECT {hash}"),
        user: "app".to_owned(),
        schema: String::new(),
        statements,
        errors: 0,
        rows: statements,
        time_us,
        times: Times::of([(time_us / statements.max(1), statements)]),
        first_seen_s: 0,
    }
}

/// A clock that is set back by an hour: digests are taken anew from then on, and compared.
#[test]
fn a_clock_that_is_set_back_stops_no_history() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    recorder.digests(START + 3600, vec![digest("a", 100, 9_000)]).unwrap();
    let grown = recorder.grown(START, &[digest("a", 105, 9_400)]);
    assert_eq!((grown.since_s, grown.now_s, grown.digests.len()), (None, START, 0));
    let limits = crate::Limits { factor: 3.0, samples: 1, limit: 10 };
    let found = History::of(&path).regressions(START - 60, &grown, limits).unwrap();
    assert_eq!((found.after, found.digests.len()), ((START, START), 0));
    recorder.digests(START + 10, vec![digest("a", 110, 9_500)]).unwrap();
    recorder.digests(START + 70, vec![digest("a", 117, 10_200)]).unwrap();
    let sums = History::of(&path).digests(Range { from_s: START, until_s: START + 1000 }, 10).unwrap();
    assert_eq!((sums.len(), sums[0].statements, sums[0].time_us), (1, 7, 700));
    // A look that was made by the clock of before.
    let late = crate::Grown { since_s: Some(START + 3600), now_s: START + 80, digests: Vec::new() };
    assert!(History::of(&path).regressions(START, &late, limits).is_ok());
}

#[test]
fn the_heaviest_digests_of_each_minute_are_kept() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    recorder.digests(START, vec![digest("a", 100, 9_000)]).unwrap();
    recorder.digests(START + 60, vec![digest("a", 110, 9_500), digest("b", 1, 70_000)]).unwrap();
    // The table had forgotten `a`, and knows it again.
    recorder.digests(START + 120, vec![digest("a", 5, 300), digest("b", 1, 70_000)]).unwrap();
    let sums = History::of(&path).digests(Range { from_s: START, until_s: START + 1000 }, 10).unwrap();
    let shown: Vec<_> = sums.iter().map(|sum| (&*sum.hash, sum.statements, sum.time_us, sum.seen_s)).collect();
    assert_eq!(shown, [("b", 1, 70_000, (START + 60, START + 60)), ("a", 15, 800, (START + 60, START + 120))]);
    let many =
        |statements| (0..30).map(|number| digest(&format!("d{number}"), statements, number * statements)).collect();
    recorder.digests(START + 180, many(1)).unwrap();
    recorder.digests(START + 240, many(2)).unwrap();
    let last = History::of(&path).digests(Range { from_s: START + 240, until_s: START + 241 }, 100).unwrap();
    assert_eq!((last.len(), &*last[0].hash), (DIGESTS_KEPT, "d29"));
}

#[test]
fn a_longer_time_has_a_coarser_resolution() {
    let now = START;
    let step = |from: u64| Range { from_s: now - from, until_s: now }.resolution(now).step_s;
    let (hour, day) = (3600, 24 * 3600);
    assert_eq!((step(hour), step(6 * hour), step(day), step(7 * day), step(300 * day)), (10, 10, 60, 600, 600));
}

#[test]
fn a_step_that_is_left_out_costs_no_coarser_point() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    // No look comes at 60, 120 and 600, where a minute ends, and ten.
    for second in [0, 10, 20, 30, 40, 50, 70, 110, 130, 590, 610] {
        recorder.figures(START + second, &[gauge("sessions", 3.0)]).unwrap();
    }
    let minutes: Vec<u64> = points(&path, "sessions", 1).iter().map(|(at, _)| at - START).collect();
    assert_eq!(minutes, [0, 60, 120, 540]);
    assert_eq!(points(&path, "sessions", 2), [(START, 3.0)]);
}

/// A clock that is ahead by a day, or a year, for as long as six hours, and then right again.
#[test]
fn a_clock_that_jumps_ahead_and_back_deletes_nothing_that_is_wanted() {
    let (hour, day) = (3600, 24 * 3600);
    for ahead in [day, 365 * day] {
        for wrong_for in [600, 6 * hour] {
            let (_folder, path) = folder();
            let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
            let mut statements = 0;
            let mut run = |recorder: &mut super::Recorder, from: u64, length: u64| {
                recorder.clock_jumped();
                for at in (from..from + length).step_by(10) {
                    recorder.figures(at, &[gauge("sessions", 1.0)]).unwrap();
                    if at % 60 == 0 {
                        statements += 60;
                        recorder.digests(at, vec![digest("a", statements, statements * 10)]).unwrap();
                    }
                }
            };
            run(&mut recorder, START, day);
            run(&mut recorder, START + day + ahead, wrong_for);
            // Started again while the clock is wrong, the program knows no better.
            drop(recorder);
            let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
            run(&mut recorder, START + day + ahead + wrong_for, 600);
            let right = START + day + wrong_for + 600;
            run(&mut recorder, right, hour);

            let now = right + hour;
            let within = |step: usize, from: u64, until: u64| {
                points(&path, "sessions", step).iter().filter(|(at, _)| (from..until).contains(at)).count() as u64
            };
            // Ten minutes at a time: up to so many of the oldest go early, or stay.
            let (case, slack) = (format!("{ahead} ahead for {wrong_for}"), 61);
            let lost = (wrong_for + 600 + hour) / 10;
            let kept = within(0, START, now);
            assert!(kept + slack >= (day + hour) / 10 - lost && kept <= day / 10 + slack, "{case}: {kept}");
            assert_eq!(within(0, right, now), hour / 10, "{case}: new rows come");
            assert!(within(1, START, now) + 3 >= (day + hour) / 60, "{case}: {}", within(1, START, now));
            assert!(within(2, START, now) + 3 >= (day + hour) / 600, "{case}: {}", within(2, START, now));
            // Those of the wrong time go first, and there is never more than a day.
            let all = points(&path, "sessions", 0).len() as u64;
            assert!(all <= day / 10 + slack, "{case}: {all}");
            run(&mut recorder, now, wrong_for + hour);
            assert_eq!(
                points(&path, "sessions", 0).iter().filter(|(at, _)| *at > now + wrong_for + hour).count(),
                0,
                "{case}"
            );
            let kept = within(0, START, now + wrong_for + hour);
            assert!(kept + slack >= day / 10, "{case}: {kept}");

            let history = History::of(&path);
            let sum = history.digests(Range { from_s: START, until_s: right }, 10).unwrap();
            assert_eq!(sum[0].statements, day / 60 * 60 - 60, "{case}: a look less than there are");
            let sum = history.digests(Range { from_s: right, until_s: now }, 10).unwrap();
            assert_eq!(sum[0].statements, hour / 60 * 60 - 60, "{case}");
            let connection = crate::file::open_to_read(&path).unwrap();
            let longest: u64 =
                connection.query_row("SELECT MAX(seconds) FROM windows WHERE step = 0", [], |row| row.get(0)).unwrap();
            assert_eq!(longest, 60, "{case}: no window has a time that did not pass");
        }
    }
}

/// A clock that is a year behind, as after a start without NTP: what was written by the right one stays.
#[test]
fn a_clock_that_is_behind_deletes_nothing_that_is_wanted() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, NO_BOUND).unwrap();
    let (hour, day) = (3600, 24 * 3600);
    let fill = |recorder: &mut super::Recorder, from: u64, length: u64| {
        for at in (from..from + length).step_by(10) {
            recorder.figures(at, &[gauge("sessions", 1.0)]).unwrap();
        }
    };
    fill(&mut recorder, START, day + 600);
    fill(&mut recorder, START - 365 * day, hour);
    let kept = points(&path, "sessions", 0);
    let (wrong, right): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(at, _): &(u64, f64)| *at < START);
    assert_eq!(wrong.len() as u64, hour / 10, "new rows come");
    assert!(right.len() as u64 + 61 >= (day - hour) / 10, "{}", right.len());
    assert_eq!(right.last().unwrap().0, START + day + 590, "the newest stay");
    fill(&mut recorder, START + day + 600 + hour, 2 * hour);
    assert!(points(&path, "sessions", 0)[0].0 >= START, "the wrong ones are the oldest then");
}

/// The bound on bytes gives up a tenth of the rows, not of the time between the first and the last.
#[test]
fn rows_of_a_wrong_time_cost_no_others_when_room_is_made() {
    let (_folder, path) = folder();
    let (mut recorder, _) = open(&path, 160 << 10).unwrap();
    let figures: Vec<Figure> = (0..50).map(|number| gauge(&format!("series{number}"), 1.0)).collect();
    for tick in 0..50 {
        recorder.figures(START + tick * 10, &figures).unwrap();
    }
    let year = 365 * 24 * 3600;
    recorder.figures(START + year, &figures).unwrap();
    for tick in 50..500 {
        recorder.figures(START + tick * 10, &figures).unwrap();
        let kept = points(&path, "series7", 0);
        assert!(kept.len() > 30 && kept.iter().any(|(at, _)| *at == START + tick * 10), "{tick}: {}", kept.len());
    }
    assert!(points(&path, "series7", 0).iter().all(|(at, _)| *at < START + year));
}
