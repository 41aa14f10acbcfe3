//! The first difference between a server and Sqluice in front of one.

use std::fmt;

/// Where both sides first said something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The step's index.
    pub step: usize,
    /// The step, with the schemas' names put in.
    pub action: String,
    /// The server's answer.
    pub direct: Vec<String>,
    /// The answer that came through Sqluice.
    pub through: Vec<String>,
}

impl Mismatch {
    /// Whether both seem to be one difference: the same kind of line is the first that differs.
    pub fn is_like(&self, other: &Mismatch) -> bool {
        let kinds = |mismatch: &Mismatch| {
            let differs = mismatch.direct.iter().zip(&mismatch.through).find(|(direct, through)| direct != through);
            let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            differs.map(|(direct, through)| (word(direct), word(through)))
        };
        kinds(self) == kinds(other)
    }

    /// A text that differences of one kind have in common: the step and what differed, without numbers.
    pub fn kind(&self) -> String {
        let at = self.direct.iter().zip(&self.through).take_while(|(direct, through)| direct == through).count();
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
        let whole = format!("{} | {} | {}", self.action, line(&self.direct), line(&self.through));
        let mut kind = String::new();
        for c in whole.chars().take(300) {
            match c {
                '0'..='9' if kind.ends_with('#') => {}
                '0'..='9' => kind.push('#'),
                _ => kind.push(c),
            }
        }
        kind
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step {}: {}", self.step + 1, self.action)?;
        let same = self.direct.iter().zip(&self.through).take_while(|(a, b)| a == b).count();
        if same > 0 {
            writeln!(f, "  (the first {same} lines are equal)")?;
        }
        self.direct[same..].iter().take(8).try_for_each(|line| writeln!(f, "  - {line}"))?;
        self.through[same..].iter().take(8).try_for_each(|line| writeln!(f, "  + {line}"))
    }
}
