//! Sentences begin with a noun of the glossary, not with "What", "Who" or "Whose", unless they ask something.
//!
//! Comments of all Rust files and the prose of pages are read; code blocks are not.

use std::path::Path;

use anyhow::Context as _;

use crate::Finding;
use crate::tree;

/// The words that only questions begin with.
const QUESTION_WORDS: [&str; 3] = ["What ", "Who ", "Whose "];
/// The ends of a sentence.
const ENDS: [char; 3] = ['.', '?', '!'];

/// Finds sentences that begin like a question and are none.
///
/// # Errors
/// A file cannot be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (kind, paragraphs) in [("rs", comments as fn(&str) -> Vec<Paragraph>), ("md", prose)] {
        let mut files = tree::files_of(root, kind)?;
        for folder in ["docs", "conform", "crates"] {
            files.append(&mut tree::all_files(&root.join(folder), kind)?);
        }
        for file in files {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let shown = file.strip_prefix(root).unwrap_or(&file);
            let found = paragraphs(&text).into_iter().filter_map(|paragraph| begins_like_a_question(&paragraph));
            findings.extend(found.map(|(line, word)| {
                let words = format!("a sentence begins with \"{}\" and is no question: name its subject", word.trim());
                Finding::refuse(shown, line, words)
            }));
        }
    }
    Ok(findings)
}

/// Lines that belong together, without their marks, and the number of the first, from 1.
struct Paragraph {
    line: usize,
    lines: Vec<String>,
}

/// Comments on lines of their own.
fn comments(text: &str) -> Vec<Paragraph> {
    let comment = |line: &str| {
        let marked = line.trim_start().strip_prefix("//")?;
        Some(marked.trim_start_matches(['/', '!']).trim().to_owned()).filter(|words| !words.is_empty())
    };
    paragraphs(text.lines().map(comment))
}

/// Paragraphs and items of lists. A table's row is one, too; a heading is no sentence.
fn prose(text: &str) -> Vec<Paragraph> {
    let mut code = false;
    paragraphs(text.lines().map(|line| {
        let words = line.trim();
        let fence = words.starts_with("```");
        code ^= fence;
        (!code && !fence && !words.is_empty() && !words.starts_with('#')).then(|| words.to_owned())
    }))
}

fn paragraphs(lines: impl Iterator<Item = Option<String>>) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut goes_on = false;
    for (at, line) in lines.enumerate() {
        let Some(line) = line else {
            goes_on = false;
            continue;
        };
        let begins = line.starts_with(['-', '#', '|', '*', '>']);
        match found.last_mut() {
            Some(last) if goes_on && !begins => last.lines.push(line),
            _ => found.push(Paragraph {
                line: at + 1,
                lines: vec![line.trim_start_matches(['-', '#', '|', '*', '>', ' ']).to_owned()],
            }),
        }
        goes_on = true;
    }
    found
}

/// The line and the first word of a sentence that begins like a question and does not end as one.
fn begins_like_a_question(paragraph: &Paragraph) -> Option<(usize, &'static str)> {
    for (at, line) in paragraph.lines.iter().enumerate() {
        let before_ends = at == 0 || paragraph.lines[at - 1].ends_with(ENDS);
        let starts = line.match_indices(". ").map(|(dot, _)| dot + 2).chain(before_ends.then_some(0));
        for start in starts {
            let Some(word) = QUESTION_WORDS.into_iter().find(|word| line[start..].starts_with(word)) else { continue };
            let rest = paragraph.lines[at + 1..].iter().flat_map(|line| line.chars());
            let end = line[start..].chars().chain(rest).find(|character| ENDS.contains(character));
            if end != Some('?') {
                return Some((paragraph.line + at, word));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paragraphs: &[Paragraph]) -> Vec<usize> {
        paragraphs.iter().filter_map(begins_like_a_question).map(|(line, _)| line).collect()
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        let text =
            "/// Who waits is answered.\nlet what = \"What is.\";\n// A thing. What is left\n// goes.\n// What now?\n";
        assert_eq!(found(&comments(text)), [1, 3]);
    }

    #[test]
    fn pages_may_ask() {
        let text = "# What it is\n\nWhat costs\nthe most? Whose query is it?\n\n- Who asks\n```\nWhat it is.\n```\n";
        assert_eq!(found(&prose(text)), [6]);
    }
}
