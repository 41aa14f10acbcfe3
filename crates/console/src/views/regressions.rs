//! `regressions`: digests that are new, slower, more frequent, larger or more often wrong since a moment.

use std::time::SystemTime;

use history::{COARSE_KEEP_S, Change, Compared, Grown, History, Limits, Range, RegressionKind};

use super::{Need, Rows, Schema, View};
use crate::cells::{Row, row, seconds};
use crate::columns::{int, real, text};
use crate::views::gather::Gathered;

/// The moment of the rows without a mark is so long ago, as that of the API.
const SINCE_S: u64 = 3600;
/// Marks that the time since is compared for: the newest.
const MARKS_MAX: usize = 3;
/// The bounds of the API without parameters, and all digests that these let through.
const LIMITS: Limits = Limits { factor: 3.0, samples: 20, limit: 200 };

pub(super) const VIEWS: &[View] = &[View {
    name: "regressions",
    schema: Schema::Main,
    about: "Digests that changed in the last hour, and since each of the last three marks; one row for each change.",
    columns: &[
        int("since"),
        int("mark"),
        text("mark_text"),
        text("change"),
        real("factor"),
        text("digest"),
        text("text"),
        text("user"),
        text("schema"),
        int("statements"),
        real("per_second"),
        int("time_us_p95"),
        real("time_us_mean"),
        real("rows_each"),
        real("error_share"),
        int("before_statements"),
        real("before_per_second"),
        int("before_time_us_p95"),
        real("before_time_us_mean"),
        real("before_rows_each"),
        real("before_error_share"),
        int("extra_us"),
        int("plan_changed"),
        text("plan"),
        text("before_plan"),
    ],
    needs: &[Need::Growth],
    rows: Rows::Compared(regressions),
}];

/// The moment that a row is compared at.
struct Moment {
    since_s: u64,
    /// The mark's number and text.
    mark: Option<(i64, String)>,
}

fn regressions(gathered: &Gathered) -> Result<Vec<Row>, String> {
    let Some(grown) = gathered.grown.as_ref().map_err(String::clone)? else { return Ok(Vec::new()) };
    let path = gathered.settings.history().ok_or("there is no history: set path in [history]")?;
    compare(&History::of(&path), grown, seconds(SystemTime::now())).map_err(|error| error.to_string())
}

fn compare(history: &History, grown: &Grown, now_s: u64) -> Result<Vec<Row>, history::HistoryError> {
    let mut moments = vec![Moment { since_s: now_s.saturating_sub(SINCE_S), mark: None }];
    let range = Range { from_s: now_s.saturating_sub(COARSE_KEEP_S), until_s: now_s + 1 };
    let marks = history.marks(range, MARKS_MAX)?;
    moments.extend(marks.into_iter().map(|mark| Moment { since_s: mark.at_s, mark: Some((mark.id, mark.text)) }));
    let mut rows = Vec::new();
    for moment in &moments {
        let found = history.regressions(moment.since_s, grown, LIMITS)?;
        let since_s = found.after.0;
        for digest in &found.digests {
            rows.extend(digest.kinds.iter().map(|kind| change(since_s, moment, digest, *kind)));
        }
    }
    Ok(rows)
}

fn change(since_s: u64, moment: &Moment, digest: &Compared, kind: (RegressionKind, Option<f64>)) -> Row {
    let (hash, user, schema) = &digest.key;
    let (after, before) = (&digest.after, digest.before.as_ref());
    let (id, words) = moment.mark.as_ref().map(|(id, text)| (*id, &**text)).unzip();
    let was = |pick: fn(&Change) -> f64| before.map(pick);
    row![
        since_s,
        id,
        words,
        kind.0.word(),
        kind.1,
        &**hash,
        &*digest.text,
        &**user,
        &**schema,
        after.statements,
        after.per_second,
        after.p95_us,
        after.mean_us,
        after.rows_each,
        after.error_share,
        before.map(|before| before.statements),
        was(|before| before.per_second),
        before.map(|before| before.p95_us),
        was(|before| before.mean_us),
        was(|before| before.rows_each),
        was(|before| before.error_share),
        digest.extra_us,
        digest.plan.as_ref().and_then(|plan| plan.changed),
        digest.plan.as_ref().map(|plan| &*plan.after.hash),
        digest.plan.as_ref().and_then(|plan| plan.before.as_ref()).map(|before| &*before.hash),
    ]
}

#[cfg(test)]
mod tests {
    use history::{DigestFigures, Times};

    use super::*;
    use crate::cells::Value;

    /// A moment at which a window begins.
    const START_S: u64 = 1_800_000_000;

    fn figures(statements: u64, each_us: u64) -> DigestFigures {
        DigestFigures {
            hash: "000000000000000a".into(),
            text: "SELECT a".into(),
            user: "app".into(),
            schema: "shop".into(),
            statements,
            errors: 0,
            rows: statements,
            time_us: statements * each_us,
            times: Times::of([(each_us, statements)]),
            first_seen_s: START_S,
        }
    }

    fn cell<'r>(row: &'r Row, name: &str) -> &'r Value {
        &row[VIEWS[0].columns.iter().position(|column| column.name == name).unwrap()]
    }

    #[test]
    fn a_digest_is_compared_for_the_last_hour_and_for_the_newest_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.sqlite");
        let (mut recorder, _) = history::open(&path, u64::MAX).unwrap();
        // Two hours as usual, with old marks in it; then a deploy, and half an hour at ten times the time.
        let mut all = figures(0, 0);
        recorder.digests(START_S, Vec::new()).unwrap();
        let mut run = |recorder: &mut history::Recorder, minute: u64, each_us: u64| {
            let more = figures(60, each_us);
            all.statements += more.statements;
            all.rows += more.rows;
            all.time_us += more.time_us;
            all.times.add(&more.times);
            recorder.digests(START_S + minute * 60, vec![all.clone()]).unwrap();
            all.clone()
        };
        for minute in 1..=120 {
            run(&mut recorder, minute, 2_000);
        }
        for (at_s, text) in [(60, "one"), (120, "two"), (180, "three"), (7_200, "deploy")] {
            recorder.mark(START_S + at_s, "ann", text).unwrap();
        }
        let mut last = figures(0, 0);
        for minute in 121..=150 {
            last = run(&mut recorder, minute, 20_000);
        }
        let now_s = START_S + 9_000;
        let grown = recorder.grown(now_s, &[last]);
        let rows = compare(&History::of(&path), &grown, now_s).unwrap();
        let marks: Vec<&Value> = rows.iter().map(|row| cell(row, "mark_text")).collect();
        assert!(marks.contains(&&Value::Null) && marks.contains(&&Value::Text("deploy".into())), "{marks:?}");
        assert!(!marks.contains(&&Value::Text("one".into())), "the fourth mark is left out: {marks:?}");
        let deploy = rows.iter().find(|row| *cell(row, "mark_text") == Value::Text("deploy".into())).unwrap();
        assert_eq!(*cell(deploy, "since"), Value::Integer((START_S + 7_200) as i64));
        assert_eq!(*cell(deploy, "change"), Value::Text("slower".into()));
        let Value::Real(factor) = *cell(deploy, "factor") else { panic!("{deploy:?}") };
        assert!((8.0..12.0).contains(&factor), "{factor}");
        assert_eq!(*cell(deploy, "statements"), Value::Integer(1_800));
        assert_eq!(*cell(deploy, "text"), Value::Text("SELECT a".into()));
    }
}
