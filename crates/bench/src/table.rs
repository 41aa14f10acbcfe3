//! Tables of ratios.

use std::fmt::Write as _;

use crate::figures::{Against, Cell, Figure, Record, Sample};
use crate::load::Load;
use crate::statistics::{self, Ratio};

/// The tables of a record, one for each group, as Markdown.
pub(crate) fn tables(record: &Record, load: Load) -> String {
    let mut text = String::new();
    let groups = distinct(record.cells.iter().map(|cell| cell.group.as_str()));
    for group in &groups {
        if groups.len() > 1 {
            let _ = writeln!(text, "**{group}**\n");
        }
        text.push_str(&table(record, load, group));
        text.push('\n');
    }
    text
}

fn table(record: &Record, load: Load, group: &str) -> String {
    let cells: Vec<&Cell> = record.cells.iter().filter(|cell| cell.group == group).collect();
    let columns: Vec<Column> = columns(load.figures(), &cells);
    let mut head = vec![load.axis().to_owned(), "contender".to_owned()];
    head.extend(columns.iter().map(Column::title));
    let mut rows = vec![head];
    for label in distinct(cells.iter().map(|cell| cell.label.as_str())) {
        let block: Vec<&Cell> = cells.iter().filter(|cell| cell.label == label).copied().collect();
        for cell in &block {
            let mut row = vec![label.to_owned(), cell.contender.clone()];
            row.extend(columns.iter().map(|column| column.text(cell, &block)));
            rows.push(row);
        }
    }
    markdown(&rows)
}

/// A column: a figure, or its ratio to another contender's.
struct Column {
    figure: Figure,
    against: Option<String>,
}

/// The columns that have anything in them. Without HAProxy, such as when two builds are compared, the first
/// contender takes its place.
fn columns(figures: &[Figure], cells: &[&Cell]) -> Vec<Column> {
    let there = |name: &str| cells.iter().any(|cell| cell.contender == name);
    let mut columns = Vec::new();
    for figure in figures {
        if !cells.iter().any(|cell| values(*figure, cell, cells).iter().any(Option::is_some)) {
            continue;
        }
        columns.push(Column { figure: *figure, against: None });
        for against in figure.against() {
            let first = || {
                let proxies = cells.iter().map(|cell| cell.contender.as_str()).filter(|name| *name != "direct");
                proxies.map(str::to_owned).next()
            };
            let name = match against {
                _ if there(against.name()) => Some(against.name().to_owned()),
                Against::HaProxy => first().filter(|first| cells.iter().any(|cell| another(cell, first))),
                Against::Direct | Against::Unpipelined | Against::Fixed => None,
            };
            columns.extend(name.map(|name| Column { figure: *figure, against: Some(name) }));
        }
    }
    columns
}

fn another(cell: &Cell, first: &str) -> bool {
    cell.contender != first && cell.contender != "direct"
}

impl Column {
    fn title(&self) -> String {
        match &self.against {
            None => self.figure.title().to_owned(),
            Some(name) => format!("÷ {name}"),
        }
    }

    fn text(&self, cell: &Cell, block: &[&Cell]) -> String {
        let own = values(self.figure, cell, block);
        match &self.against {
            None => median_and_best(self.figure, &own),
            Some(name) if *name == cell.contender => "1".to_owned(),
            Some(name) if cell.contender == "direct" && name != "direct" => none(),
            Some(name) => {
                let base = block.iter().find(|other| other.contender == *name);
                let ratio = base.and_then(|base| statistics::ratio(&own, &values(self.figure, base, block)));
                ratio.map_or_else(none, ratio_text)
            }
        }
    }
}

/// The figure of each round.
pub(crate) fn values(figure: Figure, cell: &Cell, block: &[&Cell]) -> Vec<Option<f64>> {
    if let Some(value) = cell.warm_up.as_ref().and_then(|warm_up| figure.of_warm_up(warm_up)) {
        return vec![Some(value)];
    }
    let same = |other: &&&Cell| other.contender == "direct" && other.label == cell.label;
    let direct = block.iter().find(same).map(|direct| direct.samples.as_slice()).unwrap_or_default();
    if matches!(figure, Figure::User | Figure::System) {
        // Too coarse for one round: all rounds together.
        return vec![figure.value(&pooled(&cell.samples), None)];
    }
    if matches!(figure, Figure::Added | Figure::AddedP50) && cell.contender == "direct" {
        return Vec::new();
    }
    let value = |(round, sample): (usize, &Sample)| figure.value(sample, direct.get(round));
    cell.samples.iter().enumerate().map(value).collect()
}

/// Times of all rounds together: the system counts those in user space in ticks of ten milliseconds.
fn pooled(samples: &[Sample]) -> Sample {
    Sample {
        cpu_ns: samples.iter().map(|sample| sample.cpu_ns).sum(),
        user_ns: samples.iter().map(|sample| sample.user_ns).sum(),
        queries: samples.iter().map(|sample| sample.queries).sum(),
        ..Sample::default()
    }
}

fn median_and_best(figure: Figure, values: &[Option<f64>]) -> String {
    let values: Vec<f64> = values.iter().flatten().copied().collect();
    let best = if figure.less_is_better() { statistics::lowest } else { statistics::highest };
    let (Some(median), Some(best)) = (statistics::median(&values), best(&values)) else { return none() };
    let decimals = figure.decimals();
    match values.len() {
        1 => number(median, decimals),
        _ => format!("{} ({})", number(median, decimals), number(best, decimals)),
    }
}

fn ratio_text(ratio: Ratio) -> String {
    let Ratio { median, lowest, highest } = ratio;
    if lowest == highest { format!("{median:.2}") } else { format!("**{median:.2}** ({lowest:.2}–{highest:.2})") }
}

fn none() -> String {
    "–".to_owned()
}

/// A number with commas between thousands.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

/// Rows as a Markdown table with columns of equal width, so that it is read well in a terminal, too.
pub(crate) fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |column| rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        text.push('|');
        for (column, width) in widths.iter().enumerate() {
            let _ = write!(text, " {:<width$} |", cell(row, column));
        }
        text.push('\n');
        if index == 0 {
            text.push('|');
            for width in &widths {
                let _ = write!(text, "{}|", "-".repeat(width + 2));
            }
            text.push('\n');
        }
    }
    text
}

/// Values in the order of their first appearance.
pub(crate) fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::WarmUp;
    use crate::machine::Machine;

    fn cell(contender: &str, queries: [u64; 3], cpu_us: Option<u64>) -> Cell {
        let sample = |queries: u64| Sample {
            seconds: 1.0,
            clients: 16,
            queries,
            cpu_ns: cpu_us.map(|cpu| cpu * 1000 * queries),
            user_ns: cpu_us.map(|_| 2000 * queries),
            ..Sample::default()
        };
        let (group, label, contender) = ("text".to_owned(), "16".to_owned(), contender.to_owned());
        Cell { group, label, contender, samples: queries.map(sample).to_vec(), warm_up: None }
    }

    fn record(cells: Vec<Cell>) -> Record {
        Record {
            load: "point".into(),
            date: String::new(),
            command: String::new(),
            rounds: 3,
            seconds: 1,
            workers: 2,
            machine: Machine::default(),
            versions: Vec::new(),
            notes: Vec::new(),
            cells,
        }
    }

    #[test]
    fn ratios_are_medians_of_rounds() {
        let cells = vec![
            cell("direct", [2000, 4000, 2000], None),
            cell("haproxy", [1000, 2000, 1000], Some(20)),
            cell("sqluice", [1100, 2000, 1000], Some(18)),
        ];
        let text = tables(&record(cells), Load::Point);
        let line = text.lines().find(|line| line.contains("sqluice")).unwrap();
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(&columns[1..6], ["16", "sqluice", "1,100 (2,000)", "**0.50** (0.50–0.55)", "**1.00** (1.00–1.10)"]);
        assert_eq!(&columns[6..10], ["18.0 (18.0)", "0.90", "2.00", "1.00"]);
        assert!(!text.contains("p99"), "a column without values:\n{text}");
    }

    #[test]
    fn builds_are_compared_with_the_first_when_haproxy_is_not_there() {
        let cells = vec![cell("a", [100, 100, 100], Some(20)), cell("b", [100, 100, 100], Some(10))];
        let text = tables(&record(cells), Load::Point);
        assert!(text.contains("÷ a") && text.contains("0.50"), "{text}");
        let alone = tables(&record(vec![cell("a", [1, 2, 3], Some(1))]), Load::Point);
        assert!(!alone.contains('÷'), "{alone}");
    }

    #[test]
    fn a_warm_up_is_reported_beside_the_figures() {
        let warm = WarmUp { seconds: 30.2, hits: vec![71.6, 83.0, 83.9] };
        let cells = vec![
            cell("direct", [100, 100, 100], None),
            Cell { warm_up: Some(warm), ..cell("sqluice cache", [200, 200, 200], Some(10)) },
        ];
        let text = tables(&record(cells), Load::Cache);
        let column = |row: &str, title: &str| {
            let head = text.lines().next().unwrap().split('|').position(|head| head.trim() == title).unwrap();
            text.lines().find(|line| line.contains(row)).unwrap().split('|').nth(head).unwrap().trim().to_owned()
        };
        assert_eq!(column("| sqluice cache |", "warm-up s"), "30");
        assert_eq!(column("| sqluice cache |", "warm-up hits %"), "83.9");
        let without = tables(&record(vec![cell("direct", [100, 100, 100], None)]), Load::Cache);
        assert!(!without.contains("warm-up"), "{without}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(-1234.56, 1), "-1,234.6");
        assert_eq!(number(0.5, 2), "0.50");
        assert_eq!(number(123.0, 0), "123");
    }
}
