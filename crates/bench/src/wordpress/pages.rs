//! Pages side by side: whoever serves them, they must be the same.

use anyhow::bail;

use super::crowd::Workers;
use super::site::{CATEGORIES_BEHIND, POSTS_BEHIND};
use crate::http::{Ask, Cookies};

/// The part of a page that the database took, as its last line tells: statements, and microseconds of waiting for them.
pub(super) fn of_database(page: &str) -> Option<(u64, u64)> {
    let (_, reported) = page.rsplit_once("<!-- database: ")?;
    let (statements, rest) = reported.split_once(" statements, ")?;
    Some((statements.parse().ok()?, rest.split_once(" us")?.0.parse().ok()?))
}

/// A page without what it tells of itself.
fn without_figures(page: &str) -> &str {
    page.rsplit_once("<!-- database: ").map_or(page, |(page, _)| page)
}

/// Pages of all kinds: the home page and older ones, stories, categories, a month, an author, searches, a feed, and one that is not there.
fn paths(posts: u32) -> Vec<String> {
    let last = POSTS_BEHIND + posts;
    let mut paths: Vec<String> =
        ["/", "/?paged=2", "/?m=201401", "/?author=3", "/?s=silver+story", "/?feed=rss2", "/?p=999999999"]
            .map(str::to_owned)
            .to_vec();
    paths.extend((0..3).map(|age| format!("/?p={}", last - age)));
    paths.extend((1..3).map(|number| format!("/?cat={}", CATEGORIES_BEHIND + number)));
    paths.push(format!("/?cat={}&paged=2", CATEGORIES_BEHIND + 1));
    paths
}

/// Compares pages, each of which is asked for twice, so that the second one may come out of a cache; gives how many were compared.
///
/// # Errors
/// Two pages differ.
pub(super) fn compare(direct: &Workers, other: &Workers, posts: u32) -> anyhow::Result<u64> {
    let mut compared = 0;
    for path in paths(posts) {
        let read = |workers: &Workers| workers.ask(&Ask::page(&path), &mut Cookies::new());
        let expected = read(direct)?;
        for _ in 0..2 {
            let page = read(other)?;
            let (one, two) = (without_figures(&expected.body), without_figures(&page.body));
            if (expected.status, one) != (page.status, two) {
                let differs = |(one, two): &(&str, &str)| one != two;
                let lines = one.lines().zip(two.lines()).find(differs).unwrap_or(("(its end)", "(its end)"));
                let (expected, found) = (expected.status, page.status);
                bail!("the page {path} is another one ({expected}, {found}):\n{}\n{}", lines.0, lines.1);
            }
            compared += 1;
        }
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_tells_of_itself_is_read_and_left_out() {
        let page = "<html>a</html>\n<!-- database: 29 statements, 1234 us -->\n";
        assert_eq!((of_database(page), without_figures(page)), (Some((29, 1234)), "<html>a</html>\n"));
        assert_eq!((of_database("<html>"), without_figures("<html>")), (None, "<html>"));
    }
}
