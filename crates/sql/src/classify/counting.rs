//! The value of FOUND_ROWS() behind a statement.

use super::Classifier;
use crate::dialect::Family;
use crate::effect::Effect;
use crate::lexer::TokenKind;
use crate::statement::{Asks, FoundRows, Kind};
use crate::words::W;

/// The tokens seen so far that decide it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counting {
    /// SELECTs, wherever they stand.
    queries: u16,
    set_operation: bool,
    /// LIMIT that is not that of a part in parentheses.
    limited: bool,
    /// The rows that its OFFSET skips, as far as it is a number.
    skipped: u64,
    /// MariaDB's VALUES, whose rows are counted only where they are gathered first.
    values: Option<Gathered>,
    /// An UPDATE or DELETE of several tables, or something explained that runs all the same.
    unsure: bool,
    /// The query begins with a parenthesis.
    in_parentheses: bool,
    /// It does so, and a part of it has a LIMIT of its own.
    part_limited: bool,
    /// A query that is cut off by other words than LIMIT, or whose rows are not those that were found.
    reported_by_server: bool,
    /// SHOW of what is no list.
    no_list: bool,
    /// Another verb may have changed it.
    other_counts: bool,
    /// An aggregate function, wherever it stands.
    aggregates: bool,
}

/// Aggregate functions.
const AGGREGATES: [&[u8]; 19] = [
    b"avg",
    b"bit_and",
    b"bit_or",
    b"bit_xor",
    b"count",
    b"group_concat",
    b"json_arrayagg",
    b"json_objectagg",
    b"max",
    b"median",
    b"min",
    b"std",
    b"stddev",
    b"stddev_pop",
    b"stddev_samp",
    b"sum",
    b"var_pop",
    b"var_samp",
    b"variance",
];

/// Whether the rows of VALUES are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathered {
    No,
    Yes,
}

impl Counting {
    pub(super) fn query(&mut self) {
        self.queries = self.queries.saturating_add(1);
    }

    pub(super) fn set_operation(&mut self) {
        self.set_operation = true;
    }

    /// A function of this name is called.
    pub(super) fn function(&mut self, name: &[u8]) {
        self.aggregates |= AGGREGATES.iter().any(|aggregate| name.eq_ignore_ascii_case(aggregate));
    }

    pub(super) fn begins_in_parentheses(&mut self) {
        self.in_parentheses = true;
    }

    /// Neither the rows that come nor a number in the text tell how many were found.
    pub(super) fn reported_by_server(&mut self) {
        self.reported_by_server = true;
    }

    /// The verb of a further statement, or of one inside of another.
    pub(super) fn other_verb(&mut self, kind: Kind) {
        self.other_counts |= !leaves_count(kind);
    }

    /// MariaDB's VALUES, in lower case.
    pub(super) fn values(&mut self, text: &[u8]) {
        let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        let gathers = [&b"union"[..], b"except", b"intersect", b"order"].iter().any(|word| has(word));
        self.values = Some(if gathers { Gathered::Yes } else { Gathered::No });
    }

    /// SHOW of what is a list to FOUND_ROWS() or not.
    pub(super) fn shows(&mut self, list: bool) {
        self.no_list = !list;
    }

    /// EXPLAIN of a statement, which ANALYZE runs.
    pub(super) fn explains(&mut self, executes: bool) {
        self.unsure |= executes;
    }
}

impl Classifier<'_> {
    /// LIMIT is in hand. Its numbers are taken along.
    pub(super) fn limit(&mut self) {
        self.cursor.bump();
        let first = self.number();
        let mut skipped = 0;
        if self.cursor.accept_kind(TokenKind::Comma) {
            skipped = first;
            self.number();
        } else if self.cursor.bytes().eq_ignore_ascii_case(b"offset") {
            self.cursor.bump();
            skipped = self.number();
        }
        // A LIMIT in parentheses limits a part.
        if self.cursor.kind() != TokenKind::Close {
            (self.counting.limited, self.counting.skipped) = (true, skipped);
        } else {
            self.counting.part_limited |= self.counting.in_parentheses;
        }
    }

    /// Takes a number or a placeholder, which counts as 0.
    fn number(&mut self) -> u64 {
        let digits = std::str::from_utf8(self.cursor.bytes()).unwrap_or_default();
        let number = digits.parse().unwrap_or(0);
        if matches!(self.cursor.kind(), TokenKind::Number | TokenKind::Placeholder) {
            self.cursor.bump();
        }
        number
    }

    /// Notes whether an UPDATE or DELETE, whose verb was taken, names several tables: those are found by a query.
    pub(super) fn note_tables(&mut self, kind: Kind) {
        let mut ahead = self.cursor;
        while ahead.at_any(&[W::LowPriority, W::Ignore]) || ahead.bytes().eq_ignore_ascii_case(b"quick") {
            ahead.step();
        }
        let from = ahead.accept(W::From);
        while ahead.at_name() {
            ahead.step();
            if !ahead.accept_kind(TokenKind::Dot) {
                break;
            }
        }
        let one = match kind {
            Kind::Update => {
                ahead.accept(W::As);
                if ahead.at_name() && !ahead.at(W::Set) {
                    ahead.step();
                }
                ahead.at(W::Set)
            }
            _ => {
                let ends = |word: &[u8]| ahead.bytes().eq_ignore_ascii_case(word);
                from && (ahead.at_end() || [&b"where"[..], b"order", b"limit", b"returning"].into_iter().any(ends))
            }
        };
        self.counting.unsure |= !one;
    }

    pub(super) fn found_rows(&self) -> FoundRows {
        let Some(kind) = self.kind else { return FoundRows::Left };
        let seen = &self.counting;
        let mariadb = self.cursor.dialect().family == Family::MariaDb;
        let calls = self.asks.contains(Asks::STORED_FUNCTIONS);
        let queries = seen.queries > 0 || calls;
        if self.parts > 1 && (!leaves_count(kind) || seen.other_counts || queries) {
            return FoundRows::Unsure;
        }
        // A SELECT that names no table is computed, not found.
        let asks_tables = queries && (self.uses_tables || seen.set_operation);
        let unsure = seen.unsure || asks_tables;
        let sure = |count| if unsure { FoundRows::Unsure } else { count };
        match kind {
            Kind::Select if self.effects.contains(&Effect::CalcFoundRows) => FoundRows::Unsure,
            Kind::Select if seen.reported_by_server || seen.limited && seen.part_limited => FoundRows::Unsure,
            Kind::Select if seen.values == Some(Gathered::No) => FoundRows::Left,
            // MariaDB counts what was gathered, before LIMIT.
            Kind::Select if mariadb && (seen.set_operation || seen.values.is_some()) => match seen.limited {
                true => FoundRows::Unsure,
                false => FoundRows::Uncut,
            },
            Kind::Select if mariadb && seen.aggregates && self.uses_tables && seen.skipped == 0 => FoundRows::Aggregate,
            Kind::Select => FoundRows::Rows { skipped: seen.skipped },
            Kind::Update if !mariadb => sure(FoundRows::Matched),
            Kind::Do if !mariadb => FoundRows::One,
            Kind::Show if seen.no_list => FoundRows::Left,
            Kind::Show => FoundRows::Rows { skipped: 0 },
            // MariaDB runs what is constant: a query without a table, a derived table of one row, a function.
            Kind::Explain if seen.unsure || mariadb && (!self.uses_tables || seen.queries > 1 || calls) => {
                FoundRows::Unsure
            }
            Kind::Set | Kind::Definition if !mariadb && !self.asks.contains(Asks::STORED_FUNCTIONS) => FoundRows::Left,
            Kind::Explain => FoundRows::Left,
            Kind::PreparedText if self.effects.iter().any(only_prepares) => FoundRows::Left,
            Kind::Call | Kind::Compound | Kind::PreparedText | Kind::Unknown => FoundRows::Unsure,
            // The query comes first there, whatever it names.
            Kind::Insert | Kind::Definition if seen.queries > 0 => FoundRows::Unsure,
            _ => sure(FoundRows::Left),
        }
    }
}

/// Whether a statement with this verb leaves FOUND_ROWS() as it was, unless it holds a query.
fn leaves_count(kind: Kind) -> bool {
    use Kind::{Call, Compound, Do, Explain, PreparedText, Select, Show, Unknown, Update};
    !matches!(kind, Select | Show | Explain | Call | Compound | PreparedText | Unknown | Do | Update)
}

fn only_prepares(effect: &Effect) -> bool {
    matches!(effect, Effect::PrepareText { .. } | Effect::DeallocateText { .. })
}
