//! Within a crate, imports between folders run one way: whoever reads a folder need not read another one that reads it.
//!
//! A file that has a folder of its own, as `foo.rs` beside `foo/`, belongs to that folder. Files of one folder and of those below
//! it may import each other, and a file may import what is above or below it. `circles.txt` keeps the folders whose imports were part of a circle
//! when the rule came: none may be added.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use anyhow::Context as _;

use crate::Finding;
use crate::source::{self, Source};
use crate::tree::Crate;

/// `FOLDER FOLDER`, a line each: a file of the first one imports a file of the second one, and that leads back to it.
const KNOWN: &str = "crates/house/circles.txt";
/// Most names that are followed from one `use` to the next.
const NAMES_MAX: usize = 16;

/// Finds imports that are part of a circle, and lines of `circles.txt` that are not needed any more.
///
/// # Errors
/// `circles.txt` cannot be read.
pub fn check(root: &Path, crates: &[Crate]) -> anyhow::Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(KNOWN)).context(KNOWN)?;
    let known: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (mut found, mut findings) = (BTreeSet::new(), Vec::new());
    for modules in crates.iter().map(|found| Modules::new(&found.files)) {
        for circle in modules.circles() {
            if known.contains(&*circle.folders) {
                found.insert(circle.folders);
                continue;
            }
            let back: Vec<String> = circle.back.iter().map(|source| source.path.display().to_string()).collect();
            let message = format!(
                "imports {}, which leads back: {}; imports between folders run one way ({KNOWN})",
                circle.to.path.display(),
                back.join(" -> ")
            );
            findings.push(Finding::refuse(&circle.from.path, circle.line, message));
        }
    }
    for line in known.into_iter().filter(|line| !found.contains(*line)) {
        findings.push(Finding::refuse(Path::new(KNOWN), 0, format!("{line} is in no circle now: take its line out")));
    }
    Ok(findings)
}

/// A module's place below the crate's root: `["session", "cache"]`.
type Place = Vec<String>;

/// The modules of a crate that have a file of their own.
struct Modules<'a>(BTreeMap<Place, &'a Source>);

/// An import that is part of a circle.
struct Circle<'a> {
    /// The folders of both files, as a line of `circles.txt`.
    folders: String,
    from: &'a Source,
    line: usize,
    to: &'a Source,
    /// The shortest way back, from the second file to the first one.
    back: Vec<&'a Source>,
}

impl<'a> Modules<'a> {
    fn new(files: &'a [Source]) -> Modules<'a> {
        let mut modules = BTreeMap::new();
        for source in files {
            // `lib.rs` comes first; a `main.rs` beside it is another crate.
            modules.entry(place(source)).or_insert(source);
        }
        Modules(modules)
    }

    fn circles(&self) -> Vec<Circle<'a>> {
        let imports: BTreeMap<&Place, BTreeMap<&Place, usize>> =
            self.0.iter().map(|(at, source)| (at, self.imports(at, source))).collect();
        let mut found = Vec::new();
        for (from, targets) in &imports {
            for (to, line) in targets.iter().filter(|(to, _)| !is_one_part(self.folder(from), self.folder(to))) {
                let Some(back) = way(&imports, to, from) else { continue };
                let back = back.into_iter().map(|at| self.0[at]).collect();
                let folders = format!("{} {}", self.shown_folder(from), self.shown_folder(to));
                found.push(Circle { folders, from: self.0[*from], line: *line, to: self.0[*to], back });
            }
        }
        found
    }

    /// The modules that a file names, those above and below it left out, with the first line that does.
    fn imports(&self, at: &Place, source: &Source) -> BTreeMap<&Place, usize> {
        let mut imports = BTreeMap::new();
        for (name, line) in &source.names {
            let own =
                name.split_once("::").and_then(|(first, rest)| Some(format!("{}::{rest}", source.own.get(first)?)));
            let Some(to) = self.module_of(at, own.as_deref().unwrap_or(name), NAMES_MAX) else { continue };
            if !to.starts_with(at) && !at.starts_with(to) {
                imports.entry(to).or_insert(*line);
            }
        }
        imports
    }

    /// The module that has what this path names; `None` if another crate has it.
    fn module_of(&self, at: &[String], path: &str, names_left: usize) -> Option<&Place> {
        let mut parts = path.split("::").peekable();
        let mut place = match parts.peek() {
            Some(&"crate") => Place::new(),
            Some(&"self" | &"super") => at.to_vec(),
            Some(first) if self.has_child(at, first) => at.to_vec(),
            _ => return None,
        };
        while let Some(part) = parts.next() {
            match part {
                "crate" | "self" => {}
                "super" => drop(place.pop()),
                part if self.has_child(&place, part) => place.push(part.to_owned()),
                part => {
                    let (_, source) = self.0.get_key_value(&place)?;
                    let Some(names_left) = names_left.checked_sub(1) else { break };
                    if let Some(own) = source.own.get(part) {
                        let path = std::iter::once(own.as_str()).chain(parts).collect::<Vec<_>>().join("::");
                        return self.module_of(&place, &path, names_left);
                    }
                    break;
                }
            }
        }
        self.0.get_key_value(&place).map(|(place, _)| place)
    }

    fn has_child(&self, at: &[String], name: &str) -> bool {
        self.0.get(at).is_some_and(|source| source::modules(source).iter().any(|module| module == name))
    }

    /// The folder that a file belongs to, below the root of the repository.
    fn shown_folder(&self, at: &Place) -> String {
        let path = &self.0[at].path;
        let above: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let below = above.iter().position(|part| part == "src").map_or(0, |src| src + 1);
        above[..below]
            .iter()
            .map(|part| &**part)
            .chain(self.folder(at).iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join("/")
    }

    /// The folder that a file belongs to, below the crate's root.
    fn folder<'b>(&self, at: &'b Place) -> &'b [String] {
        let has_folder = self.0.get(at).is_some_and(|source| !source::modules(source).is_empty());
        if has_folder { at } else { at.split_last().map_or(&[], |(_, above)| above) }
    }
}

/// Whether one folder holds the other. The root of a crate holds all, and is a folder like others here.
fn is_one_part(one: &[String], other: &[String]) -> bool {
    one == other || !one.is_empty() && !other.is_empty() && (one.starts_with(other) || other.starts_with(one))
}

fn place(source: &Source) -> Place {
    let parts: Vec<String> =
        source.path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let below = parts.iter().position(|part| part == "src").map_or(&*parts, |src| &parts[src + 1..]);
    match below {
        [root] if root == "lib" || root == "main" => Place::new(),
        below => below.to_vec(),
    }
}

/// The shortest way of imports from one module to another, both included.
fn way<'a>(
    imports: &BTreeMap<&'a Place, BTreeMap<&'a Place, usize>>,
    from: &'a Place,
    to: &'a Place,
) -> Option<Vec<&'a Place>> {
    let mut came_from: BTreeMap<&Place, &Place> = BTreeMap::new();
    let mut waiting = VecDeque::from([from]);
    while let Some(at) = waiting.pop_front() {
        if at == to {
            let mut way = vec![to];
            while let Some(before) = way.last().filter(|at| **at != from).and_then(|at| came_from.get(*at)) {
                way.push(before);
            }
            way.reverse();
            return Some(way);
        }
        for next in imports.get(at).into_iter().flat_map(BTreeMap::keys) {
            if *next != from && !came_from.contains_key(*next) {
                came_from.insert(next, at);
                waiting.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[(&str, &str)]) -> Vec<Source> {
        let path = |name: &str| Path::new("crates/a/src").join(name);
        files.iter().map(|(name, text)| Source::parse(&path(name), text).unwrap()).collect()
    }

    /// The circles of these files, as `from to`.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let files = parse(files);
        let shown = |source: &Source| place(source).join("/");
        Modules::new(&files)
            .circles()
            .iter()
            .map(|circle| format!("{} {}", shown(circle.from), shown(circle.to)))
            .collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod one;\nmod two;\npub use one::inner::Deep;");

    #[test]
    fn folders_that_import_each_other_are_found() {
        let two = ("two.rs", "mod leaf;");
        let leaf = ("two/leaf.rs", "use crate::one::Name;");
        let one = ("one.rs", "mod inner;\nuse crate::two::leaf::Thing;");
        let inner = ("one/inner.rs", "");
        assert_eq!(circles(&[ROOT, one, inner, two, leaf]), ["one two/leaf", "two/leaf one"]);
        assert_eq!(circles(&[ROOT, ("one.rs", "mod inner;"), inner, two, leaf]), Vec::<String>::new());
    }

    #[test]
    fn a_circle_may_take_several_steps_and_other_names() {
        let one = ("one.rs", "mod inner;\nuse super::two;\nfn f() { two::leaf::g(); }");
        let leaf = ("two/leaf.rs", "use super::other::h;");
        let other = ("two/other.rs", "fn h(_: crate::Deep) {}");
        // Nothing of `one.rs` itself is imported, and what it imports leads back to a file below it only.
        let found = circles(&[ROOT, one, ("one/inner.rs", ""), ("two.rs", "mod leaf;\nmod other;"), leaf, other]);
        assert_eq!(found, Vec::<String>::new());
        let inner = ("one/inner.rs", "use crate::two::leaf::g;");
        let found = circles(&[ROOT, ("one.rs", "mod inner;"), inner, ("two.rs", "mod leaf;\nmod other;"), leaf, other]);
        assert_eq!(found, ["one/inner two/leaf", "two/other one/inner"]);
    }

    #[test]
    fn files_of_one_folder_and_those_above_and_below_may_import_each_other() {
        let one = ("one.rs", "mod inner;\nmod side;\nuse self::inner::A;");
        let inner = ("one/inner.rs", "use super::B;\nuse super::side::C;");
        let side = ("one/side.rs", "use super::inner::A;");
        assert_eq!(circles(&[("lib.rs", "mod one;"), one, inner, side]), Vec::<String>::new());
    }

    #[test]
    fn a_folder_and_those_below_it_are_one_part() {
        let one = ("one.rs", "mod inner;\nmod side;");
        let inner = ("one/inner.rs", "mod deep;");
        let (deep, side) =
            (("one/inner/deep.rs", "use super::super::side::C;"), ("one/side.rs", "use super::inner::deep::A;"));
        assert_eq!(circles(&[("lib.rs", "mod one;"), one, inner, deep, side]), Vec::<String>::new());
        let side = ("one/side.rs", "mod low;\nuse super::inner::deep::A;");
        let found = circles(&[("lib.rs", "mod one;"), one, inner, deep, side, ("one/side/low.rs", "")]);
        assert_eq!(found, ["one/inner/deep one/side", "one/side one/inner/deep"]);
    }

    #[test]
    fn tests_may_import_all() {
        let one = ("one.rs", "mod inner;\n#[cfg(test)]\nmod tests { use crate::two::X; }");
        let two = ("two.rs", "use crate::one::Y;");
        assert_eq!(circles(&[ROOT, one, ("one/inner.rs", ""), two]), Vec::<String>::new());
    }

    #[test]
    fn known_circles_are_let_through_and_lines_without_one_are_refused() {
        let folder = std::env::temp_dir().join(format!("sqluice-circles-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("crates/house")).unwrap();
        let check = |listed: &str| {
            std::fs::write(folder.join(KNOWN), listed).unwrap();
            let one = ("one.rs", "mod inner;\nuse crate::two::Thing;");
            let files = parse(&[ROOT, one, ("one/inner.rs", ""), ("two.rs", "use crate::one::Name;")]);
            check(&folder, &[Crate { name: "a".into(), imports: Default::default(), files }]).unwrap().len()
        };
        assert_eq!(check(""), 2);
        let both = "crates/a/src crates/a/src/one\ncrates/a/src/one crates/a/src\n";
        assert_eq!(check(both), 0);
        assert_eq!(check(&format!("# why\n{both}crates/a/src/two crates/a/src\n")), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
