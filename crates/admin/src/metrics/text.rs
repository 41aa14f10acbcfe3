//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

/// Builds a page. A family's header is written by [`Page::family`], its samples follow.
#[derive(Default)]
pub(crate) struct Page {
    out: String,
}

impl Page {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.out,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            help.replace('\\', "\\\\").replace('\n', "\\n")
        );
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.out.push(if index == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.out.push_str("\\\\"),
                    '"' => self.out.push_str("\\\""),
                    '\n' => self.out.push_str("\\n"),
                    other => self.out.push(other),
                }
            }
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_escaped() {
        let mut page = Page::default();
        page.family("x", "gauge", "one\ntwo");
        page.sample("x", &[("a", "q\"b\\c\nd"), ("e", "")], 1.5);
        page.sample("x", &[], 2);
        assert_eq!(page.finish(), "# HELP x one\\ntwo\n# TYPE x gauge\nx{a=\"q\\\"b\\\\c\\nd\",e=\"\"} 1.5\nx 2\n");
    }
}
