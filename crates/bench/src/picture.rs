//! Pictures of a load: bars, one panel for each figure, as SVG.

use std::fmt::Write as _;

use crate::figures::{Cell, Figure, Record};
use crate::load::Load;
use crate::statistics;
use crate::table::{distinct, number, values};

/// Sizes in pixels.
const WIDTH: f64 = 860.0;
const PANEL: f64 = 240.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 44.0;
const LEGEND: f64 = 34.0;
/// Lines across a panel.
const LINES: u32 = 4;
/// Colours that those can tell apart who see few (Okabe and Ito).
const COLOURS: [&str; 8] = ["#999999", "#e69f00", "#0072b2", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442"];

/// Draws a load's picture.
pub(crate) fn picture(record: &Record, load: Load) -> String {
    let figures: Vec<Figure> = load.pictured().iter().copied().filter(|figure| has(record, *figure)).collect();
    let contenders = distinct(record.cells.iter().map(|cell| cell.contender.as_str()));
    let height = LEGEND + PANEL * figures.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut x = LEFT;
    for (index, contender) in contenders.iter().enumerate() {
        let _ = writeln!(svg, "<rect x=\"{x:.0}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{}\"/>", colour(index));
        text(&mut svg, x + 16.0, 22.0, "start", contender);
        x += 34.0 + 7.5 * contender.chars().count() as f64;
    }
    for (index, figure) in figures.iter().enumerate() {
        panel(&mut svg, record, *figure, &contenders, LEGEND + PANEL * index as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, record: &Record, figure: Figure, contenders: &[&str], top: f64) {
    let points = points(record);
    let bars: Vec<(usize, usize, f64)> = points
        .iter()
        .enumerate()
        .flat_map(|(place, point)| contenders.iter().enumerate().map(move |(who, name)| (place, who, *point, *name)))
        .filter_map(|(place, who, point, name)| Some((place, who, median(record, figure, point, name)?)))
        .collect();
    let highest = bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
    let limit = round_up(highest);
    let (y0, plot) = (top + PANEL - BOTTOM, PANEL - TOP - BOTTOM);
    let better = if figure.less_is_better() { "less is better" } else { "more is better" };
    text(svg, LEFT, top + 24.0, "start", &format!("{}, {better}; median of {} rounds", figure.title(), record.rounds));
    for line in 0..=LINES {
        let share = f64::from(line) / f64::from(LINES);
        let y = y0 - plot * share;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>",
            WIDTH - RIGHT
        );
        text(svg, LEFT - 6.0, y + 4.0, "end", &number(limit * share, usize::from(limit < 10.0)));
    }
    let room = (WIDTH - LEFT - RIGHT) / points.len().max(1) as f64;
    let bar = (room * 0.8 / contenders.len().max(1) as f64).min(60.0);
    let offset = (room - bar * contenders.len() as f64) / 2.0;
    for (place, who, value) in &bars {
        let height = (value / limit).max(0.0) * plot;
        let x = LEFT + room * *place as f64 + offset + bar * *who as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{}</title></rect>",
            y0 - height,
            bar * 0.92,
            colour(*who),
            number(*value, figure.decimals())
        );
    }
    let groups = distinct(points.iter().map(|point| point.0)).len();
    for (place, (group, label)) in points.iter().enumerate() {
        let shown = if groups > 1 { format!("{group} {label}") } else { (*label).to_owned() };
        text(svg, LEFT + room * (place as f64 + 0.5), y0 + 16.0, "middle", &shown);
    }
}

/// Groups and labels in the order in which they were measured.
fn points(record: &Record) -> Vec<(&str, &str)> {
    let mut points = Vec::new();
    for cell in &record.cells {
        let point = (cell.group.as_str(), cell.label.as_str());
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

fn median(record: &Record, figure: Figure, point: (&str, &str), contender: &str) -> Option<f64> {
    let block: Vec<&Cell> =
        record.cells.iter().filter(|cell| (cell.group.as_str(), cell.label.as_str()) == point).collect();
    let cell = block.iter().find(|cell| cell.contender == contender)?;
    let values: Vec<f64> = values(figure, cell, &block).into_iter().flatten().collect();
    statistics::median(&values)
}

fn has(record: &Record, figure: Figure) -> bool {
    record.cells.iter().any(|cell| cell.samples.iter().any(|sample| figure.value(sample, Some(sample)).is_some()))
}

fn colour(index: usize) -> &'static str {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or("#000000")
}

/// A round number above a value: 1, 2, 2.5 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0].map(|step| step * power).into_iter().find(|round| *round >= value).unwrap_or(10.0 * power)
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, shown: &str) {
    let shown = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#333333\">{shown}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Sample;
    use crate::machine::Machine;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.03, 1.0, 1.1, 2.2, 26_000.0, 51.0].map(round_up),
            [1.0, 0.05, 1.0, 2.0, 2.5, 50_000.0, 100.0]
        );
    }

    #[test]
    fn every_contender_has_a_bar_at_every_point() {
        let cell = |label: &str, contender: &str, queries: u64| Cell {
            group: "text".into(),
            label: label.into(),
            contender: contender.into(),
            samples: vec![Sample { seconds: 1.0, clients: 1, queries, ..Sample::default() }],
            warm_up: None,
        };
        let cells = vec![cell("1", "a<b", 100), cell("1", "b", 50), cell("2", "a<b", 80), cell("2", "b", 20)];
        let record = Record {
            load: "point".into(),
            date: String::new(),
            command: String::new(),
            rounds: 1,
            seconds: 1,
            workers: 1,
            machine: Machine::default(),
            versions: Vec::new(),
            notes: Vec::new(),
            cells,
        };
        let svg = picture(&record, Load::Point);
        assert_eq!(svg.matches("<title>").count(), 4, "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"), "{svg}");
        // CPU time was not measured: no panel.
        assert!(!svg.contains("CPU"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
