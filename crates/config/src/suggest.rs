//! Suggestions for misspelled keys and words.

/// The candidate that is nearest to `word`, when one is near enough to be worth saying.
pub(crate) fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase().replace('-', "_");
    // A long "word" is no typing mistake, and the table below grows with the square of its length.
    if lower.len() > 64 {
        return None;
    }
    candidates
        .filter_map(|candidate| {
            let unit = candidate.strip_suffix("_ms").or_else(|| candidate.strip_suffix("_s"));
            let score = match unit {
                Some(stem) if stem == lower || lower.strip_prefix(stem).is_some_and(is_unit) => 0,
                _ => distance(&lower, candidate),
            };
            (score <= (lower.chars().count().max(3) / 3)).then_some((score, candidate))
        })
        .min_by_key(|(score, _)| *score)
        .map(|(_, candidate)| candidate)
}

fn is_unit(rest: &str) -> bool {
    matches!(rest, "_ms" | "_s" | "_sec" | "_secs" | "_seconds" | "_millis" | "_min" | "_m")
}

/// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["weight", "zone", "interval_ms", "idle_timeout_s", "max_connections"];
        let near = |word| nearest(word, keys.into_iter());
        assert_eq!(near("wieght"), Some("weight"));
        assert_eq!(near("interval"), Some("interval_ms"));
        assert_eq!(near("idle_timeout_ms"), Some("idle_timeout_s"));
        assert_eq!(near("max-connections"), Some("max_connections"));
        assert_eq!(near("Zone"), Some("zone"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(&"z".repeat(100_000)), None);
    }
}
