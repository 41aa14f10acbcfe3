//! Samples of the rounds, and their tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::visitor::Mix;
use crate::machine::Machine;
use crate::statistics::{self, Ratio};
use crate::table;

/// One turn of a way to the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) mix: Mix,
    pub(crate) mode: String,
    pub(crate) seconds: f64,
    /// Answers, forms among them.
    pub(crate) pages: u64,
    /// With the wait for a free process of PHP.
    pub(crate) mean_ms: f64,
    pub(crate) p95_ms: f64,
    /// Of a page that is shown: its statements, and how long PHP waited for them.
    pub(crate) statements: f64,
    pub(crate) waited_ms: f64,
    /// Statements that reached the server, for each page. Those of Sqluice's own are among them.
    pub(crate) at_server: f64,
    /// CPU for each page.
    pub(crate) server_ms: f64,
    pub(crate) php_ms: f64,
    pub(crate) proxy_ms: f64,
    /// The share of the machine's cores that each had.
    pub(crate) server_share: f64,
    pub(crate) php_share: f64,
    pub(crate) proxy_share: f64,
    /// Of a hundred statements so many were answered by the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hits: Option<f64>,
    /// Why others were not, for each page.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) not: BTreeMap<String, f64>,
    /// Comments that were written and seen at once.
    pub(crate) seen_at_once: u64,
    /// Pages that were the same as without Sqluice.
    pub(crate) compared: u64,
    /// Until a comment was seen that was written around Sqluice; `None` when nobody waited for the end of the TTL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) around_ms: Option<f64>,
}

/// All turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) machine: Machine,
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) visitors: u32,
    pub(crate) php: usize,
    pub(crate) posts: u32,
    pub(crate) turns: Vec<Turn>,
}

type Value = fn(&Turn) -> f64;

/// Columns behind pages a second, with their digits behind the point.
const COLUMNS: [(&str, usize, Value); 8] = [
    ("mean ms", 1, |turn| turn.mean_ms),
    ("p95 ms", 1, |turn| turn.p95_ms),
    ("PHP waits for the database, ms/page", 1, |turn| turn.waited_ms),
    ("statements at the server/page", 1, |turn| turn.at_server),
    ("server CPU ms/page", 2, |turn| turn.server_ms),
    ("PHP CPU ms/page", 2, |turn| turn.php_ms),
    ("Sqluice CPU ms/page", 2, |turn| turn.proxy_ms),
    ("hits %", 1, |turn| turn.hits.unwrap_or(f64::NAN)),
];

impl Record {
    /// Tables as Markdown, one for each mix.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        for mix in [Mix::Percona, Mix::Readers] {
            if self.turns.iter().any(|turn| turn.mix == mix) {
                let _ = writeln!(text, "**{}**\n\n{}", mix.name(), self.table(mix));
                text.push_str(&self.notes(mix));
                text.push('\n');
            }
        }
        text
    }

    fn of(&self, mix: Mix, mode: &str) -> Vec<&Turn> {
        self.turns.iter().filter(|turn| turn.mix == mix && turn.mode == mode).collect()
    }

    fn modes(&self) -> Vec<&str> {
        table::distinct(self.turns.iter().map(|turn| &*turn.mode))
    }

    fn table(&self, mix: Mix) -> String {
        let mut head = vec!["way".to_owned(), "pages/s".to_owned(), "÷ direct".to_owned()];
        head.extend(COLUMNS.iter().map(|(title, ..)| (*title).to_owned()));
        let mut rows = vec![head];
        let rate = |turn: &&Turn| Some(turn.pages as f64 / turn.seconds);
        let direct: Vec<Option<f64>> = self.of(mix, "direct").iter().map(rate).collect();
        for mode in self.modes() {
            let turns = self.of(mix, mode);
            let rates: Vec<Option<f64>> = turns.iter().map(rate).collect();
            let known: Vec<f64> = rates.iter().flatten().copied().collect();
            let mut row = vec![mode.to_owned(), shown(statistics::median(&known), 1)];
            row.push(match statistics::ratio(&rates, &direct) {
                Some(_) if mode == "direct" => "1".to_owned(),
                Some(Ratio { median, lowest, highest }) => format!("**{median:.2}** ({lowest:.2}–{highest:.2})"),
                None => "–".to_owned(),
            });
            for (_, decimals, value) in COLUMNS {
                let values: Vec<f64> = turns.iter().map(|turn| value(turn)).collect();
                row.push(shown(statistics::median(&values), decimals));
            }
            rows.push(row);
        }
        table::markdown(&rows)
    }

    /// Notes for which the tables have no room.
    fn notes(&self, mix: Mix) -> String {
        let mut text = String::new();
        for mode in self.modes() {
            let turns = self.of(mix, mode);
            let Some(last) = turns.last() else { continue };
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            let (server, php, proxy) = (last.server_share, last.php_share, last.proxy_share);
            let seen: u64 = turns.iter().map(|turn| turn.seen_at_once).sum();
            let compared: u64 = turns.iter().map(|turn| turn.compared).sum();
            let _ = write!(
                text,
                "- {mode}: server {}, PHP {}, Sqluice {} of the cores; {seen} times something new was seen by the next page; \
                 {compared} pages compared",
                percent(server),
                percent(php),
                percent(proxy)
            );
            if let Some(ms) = turns.iter().filter_map(|turn| turn.around_ms).max_by(f64::total_cmp) {
                let _ = write!(text, "; a comment written around it was seen after {ms:.0} ms at most");
            }
            if !last.not.is_empty() {
                let each: Vec<String> = last.not.iter().map(|(why, count)| format!("{why} {count:.2}")).collect();
                let _ = write!(text, "; not from the cache, for each page: {}", each.join(", "));
            }
            text.push_str(".\n");
        }
        text
    }
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}
