//! The page of metrics, in Prometheus' text format, as metrics of OTLP: the same names, labels and values.

use std::collections::BTreeMap;

use super::message::{KeyValue, text};
use super::metric_message::{Buckets, CUMULATIVE, Data, Gauge, Histogram, Metric, Number, Sum};

/// The kinds of families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// When the process began, and when the page was made, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// One family of the page.
#[derive(Debug)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: Kind,
    samples: Vec<Sample<'a>>,
}

/// One line of a family.
#[derive(Clone, Debug, PartialEq)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

/// The metrics of a page. Lines that cannot be read are left out.
pub(super) fn of_page(page: &str, times: Times) -> Vec<Metric> {
    families(page).into_iter().filter(|family| !family.samples.is_empty()).map(|family| metric(family, times)).collect()
}

fn families(page: &str) -> Vec<Family<'_>> {
    let mut all: Vec<Family<'_>> = Vec::new();
    let mut help = "";
    for line in page.lines() {
        if let Some(words) = line.strip_prefix("# HELP ") {
            help = words.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|words| words.split_once(' ')) {
            let kind = match kind {
                "counter" => Kind::Counter,
                "histogram" => Kind::Histogram,
                _ => Kind::Gauge,
            };
            all.push(Family { name, help, kind, samples: Vec::new() });
        } else if let (Some(family), Some(sample)) = (all.last_mut(), sample(line)) {
            family.samples.push(sample);
        }
    }
    all
}

/// A line such as `name{a="x",b="y"} 5`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while let Some((label, quoted)) = rest.trim_start_matches(',').split_once("=\"") {
            let (value, behind) = unquoted(quoted)?;
            labels.push((label, value));
            rest = behind;
            if let Some(behind) = rest.strip_prefix('}') {
                rest = behind;
                break;
            }
        }
    }
    let value = rest.trim().parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The value up to its quote, and what stands behind that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

fn metric(family: Family<'_>, times: Times) -> Metric {
    let Family { name, help, kind, samples } = family;
    let numbers = |samples: &[Sample<'_>]| samples.iter().map(|sample| number(sample, times)).collect();
    let data = match kind {
        Kind::Gauge => Data::Gauge(Gauge { points: numbers(&samples) }),
        Kind::Counter => Data::Sum(Sum { points: numbers(&samples), temporality: CUMULATIVE, is_monotonic: true }),
        Kind::Histogram => {
            Data::Histogram(Histogram { points: histograms(name, &samples, times), temporality: CUMULATIVE })
        }
    };
    Metric { name: name.to_owned(), description: help.to_owned(), data: Some(data) }
}

fn number(sample: &Sample<'_>, times: Times) -> Number {
    Number {
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(sample.value),
        attributes: attributes(&sample.labels),
    }
}

fn attributes(labels: &[(&str, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

/// The points of a histogram: the page counts in each bucket all values up to its bound, OTLP those above the bound before.
fn histograms(family: &str, samples: &[Sample<'_>], times: Times) -> Vec<Buckets> {
    let mut points: BTreeMap<Vec<(&str, String)>, (Buckets, u64)> = BTreeMap::new();
    for sample in samples {
        let mut labels = sample.labels.clone();
        let bound = labels.iter().position(|(name, _)| *name == "le").map(|at| labels.remove(at).1);
        let (point, below) = points.entry(labels).or_default();
        match (sample.name.strip_prefix(family), bound) {
            (Some("_sum"), _) => point.sum = Some(sample.value),
            (Some("_count"), _) => point.count = sample.value as u64,
            (Some("_bucket"), Some(bound)) => {
                let all = sample.value as u64;
                point.bucket_counts.push(all.saturating_sub(*below));
                *below = all;
                // Above the last bound there is one more bucket.
                point.explicit_bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
            }
            _ => {}
        }
    }
    let of_point = |(labels, (point, _)): (Vec<(&str, String)>, (Buckets, u64))| Buckets {
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        attributes: attributes(&labels),
        ..point
    };
    points.into_iter().map(of_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP a_total How many\n# TYPE a_total counter\na_total{x=\"q\\\"b\\\\c\\nd\",y=\"\"} 5\na_total 2\n\
        # HELP b What\n# TYPE b gauge\nb 1.5\nno line\nb{x=\"open 7\n\
        # TYPE h histogram\nh_bucket{s=\"1\",le=\"0.5\"} 2\nh_bucket{s=\"1\",le=\"1\"} 5\nh_bucket{s=\"1\",le=\"+Inf\"} 6\n\
        h_sum{s=\"1\"} 3.5\nh_count{s=\"1\"} 6\n# TYPE none gauge\n";

    #[test]
    fn families_become_metrics_with_their_kinds() {
        let metrics = of_page(PAGE, Times { start: 1, now: 2 });
        let names: Vec<(&str, &str)> = metrics.iter().map(|metric| (&*metric.name, &*metric.description)).collect();
        assert_eq!(names, [("a_total", "How many"), ("b", "What"), ("h", "What")]);
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!() };
        assert_eq!((sum.points[0].value, sum.points[1].value, sum.is_monotonic), (Some(5.0), Some(2.0), true));
        assert_eq!(sum.points[0].attributes, [text("x", "q\"b\\c\nd"), text("y", "")]);
        assert_eq!((sum.points[0].start_time_unix_nano, sum.points[0].time_unix_nano), (1, 2));
        let Some(Data::Gauge(gauge)) = &metrics[1].data else { panic!() };
        assert_eq!(gauge.points.iter().map(|point| point.value).collect::<Vec<_>>(), [Some(1.5)], "what is no line");
        let Some(Data::Histogram(histogram)) = &metrics[2].data else { panic!() };
        let [point] = &histogram.points[..] else { panic!() };
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[2, 3, 1][..], &[0.5, 1.0][..]));
        assert_eq!((point.count, point.sum, &*point.attributes), (6, Some(3.5), &[text("s", "1")][..]));
    }
}
