//! Reports of changes that a server made to a question of Sqluice's own, and that the client has still to hear.
//!
//! An error has no room for reports, nor has a result in the old framing; and SET STATEMENT takes its values back when its reply is
//! on its way. MySQL makes such reports with its next OK, MariaDB with its next OK that has another one to make, which COM_PING has
//! not (seen with MariaDB 10.11 and MySQL 9.7).

use wire::codec::{Reader, Write};

use super::reports::Explicit;

/// More reports are not kept: only commits can make so many.
const REPORTS_BYTES_MAX: usize = 16 * 1024;

/// The reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// Encoded, as the client wants to hear them.
    reports: Vec<u8>,
    /// They come with an OK that has no report of its own, too, as MySQL's do.
    with_any: bool,
    /// The transaction that a statement had begun before them.
    pub(super) explicit_before: Option<Explicit>,
}

/// One report.
struct Report<'a> {
    kind: u8,
    data: &'a [u8],
}

impl Late {
    /// The client has these to hear: with the next OK, or the next one that has a report of its own.
    pub(super) fn note(&mut self, reports: &[u8], with_any: bool) {
        let before = std::mem::take(&mut self.reports);
        let fits = before.len() + reports.len() <= REPORTS_BYTES_MAX;
        self.reports = merged(if fits { &before } else { &[] }, reports);
        self.with_any = with_any;
    }

    /// Whether they come with an OK that has these of its own.
    pub(super) fn come_with(&self, reported: &[u8]) -> bool {
        self.with_any || !reported.is_empty()
    }

    /// All reports of an OK that has these of its own.
    pub(super) fn with(self, reported: &[u8]) -> Vec<u8> {
        merged(&self.reports, reported)
    }
}

/// The reports of a list without those of this variable, and without that of a change that has no name.
pub(super) fn without(list: &[u8], variable: &str) -> Vec<u8> {
    let others = |report: &Report<'_>| report.kind != STATE && report.subject() != (VARIABLE, variable.as_bytes());
    written(reports(list).into_iter().filter(others))
}

/// The reports of a list without that of a transaction's state.
pub(super) fn without_transaction(list: &[u8]) -> Vec<u8> {
    written(reports(list).into_iter().filter(|report| report.kind != TRANSACTION))
}

/// Two lists of reports as one, in the order of servers. The newer one of two about the same thing counts, but each commit does.
pub(super) fn merged(older: &[u8], newer: &[u8]) -> Vec<u8> {
    let newer = reports(newer);
    let mut all = reports(older);
    all.retain(|report| report.kind == GTIDS || !newer.iter().any(|newer| newer.subject() == report.subject()));
    all.extend(newer);
    // The state of a transaction and its characteristics come in an order of their own.
    all.sort_by_key(|report| report.kind.min(GTIDS + 1));
    written(all)
}

fn written<'a>(reports: impl IntoIterator<Item = Report<'a>>) -> Vec<u8> {
    let mut out = Vec::new();
    for Report { kind, data } in reports {
        out.push(kind);
        out.put_lenenc_bytes(data);
    }
    out
}

const VARIABLE: u8 = 0;
const STATE: u8 = 2;
const GTIDS: u8 = 3;
const TRANSACTION: u8 = 5;

impl<'a> Report<'a> {
    /// The thing that it is about.
    fn subject(&self) -> (u8, &'a [u8]) {
        let name = || Reader::new(self.data).lenenc_bytes("tracked variable name").unwrap_or_default();
        (self.kind, if self.kind == VARIABLE { name() } else { &[] })
    }
}

/// The reports in a list that [`super::ClientTracking::filter`] has made.
fn reports(bytes: &[u8]) -> Vec<Report<'_>> {
    let mut reader = Reader::new(bytes);
    let mut reports = Vec::new();
    while let (Ok(kind), Ok(data)) = (reader.u8("report"), reader.lenenc_bytes("report")) {
        reports.push(Report { kind, data });
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &[u8] = b"\0\x07\x04zone\x011";
    const OTHER_ZONE: &[u8] = b"\0\x07\x04zone\x012";
    const MODE: &[u8] = b"\0\x07\x04mode\x011";
    const SCHEMA: &[u8] = b"\x01\x02\x01a";
    const GTID: &[u8] = b"\x03\x03\0\x01g";

    #[test]
    fn the_newest_report_counts_and_kinds_keep_their_order() {
        let mut late = Late::default();
        late.note(&[ZONE, SCHEMA].concat(), true);
        assert!(late.come_with(b""));
        late.note(GTID, false);
        assert!(!late.come_with(b"") && late.come_with(MODE));
        let all = late.with(&[OTHER_ZONE, MODE, GTID].concat());
        assert_eq!(all, [OTHER_ZONE, MODE, SCHEMA, GTID, GTID].concat());
    }

    #[test]
    fn the_report_of_the_question_itself_is_left_out() {
        assert_eq!(without(&[ZONE, MODE, SCHEMA, b"\x02\x02\x011"].concat(), "mode"), [ZONE, SCHEMA].concat());
    }

    #[test]
    fn a_list_that_is_cut_ends_there() {
        let list = [ZONE, SCHEMA].concat();
        for cut in 0..list.len() {
            let kept = if cut < ZONE.len() { &[][..] } else { ZONE };
            assert_eq!(merged(&list[..cut], b""), kept, "{cut}");
        }
    }
}
