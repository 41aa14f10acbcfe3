//! The reports that a client gets with an OK packet: those of the server that it wants, and those that it has still to hear.

use std::ops::Range;

use wire::codec::Write;
use wire::reply::{Change, Ok};

use super::{ClientTracking, Gtids, Transactions, late};

/// A transaction that a statement began, as MySQL tells of it with OFF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Explicit {
    #[default]
    None,
    Begun,
    /// WITH CONSISTENT SNAPSHOT: it counts as having read.
    Snapshot,
}

/// The thing that a session holds, where a change that ends as it was is announced and not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Held {
    #[default]
    Nothing,
    /// Locks of tables.
    Locks,
    /// The transaction of a CREATE TABLE … START TRANSACTION.
    Table,
}

impl Held {
    /// By a report of a transaction's state.
    fn by(state: &[u8]) -> Held {
        if state.last() == Some(&b'L') { Held::Locks } else { Held::Nothing }
    }
}

impl Explicit {
    fn text(self) -> &'static [u8] {
        match self {
            Explicit::None => b"________",
            Explicit::Begun => b"T_______",
            Explicit::Snapshot => b"T_R_____",
        }
    }

    /// The transaction after an OK packet with this state.
    fn after(self, state: &[u8], ok: &Ok<'_>) -> Explicit {
        if state.first() != Some(&b'T') {
            return Explicit::None;
        }
        // Behind the state of a transaction that begins stands how it began.
        let began = ok.changes().map_while(Result::ok).find_map(|change| match change {
            Change::TransactionCharacteristics(text) if !text.is_empty() => Some(text),
            _ => None,
        });
        match (self, began) {
            (_, Some(text)) if memchr::memmem::find(text, b"CONSISTENT SNAPSHOT").is_some() => Explicit::Snapshot,
            (_, Some(_)) | (Explicit::None, None) => Explicit::Begun,
            (before, None) => before,
        }
    }
}

impl ClientTracking {
    /// The reports in the OK packet of a login into this schema, encoded.
    pub fn beginning(&self, schema: Option<&str>) -> Vec<u8> {
        let mut reported = Vec::new();
        if let Some(schema) = schema.filter(|_| self.schema) {
            let mut data = Vec::new();
            data.put_lenenc_bytes(schema.as_bytes());
            reported.push(1);
            reported.put_lenenc_bytes(&data);
        }
        reported
    }

    /// The reports of an OK packet that answers a question of Sqluice's, but for that about the variable that the question sets: the
    /// client hears them with a later OK, as the servers of this family would tell them.
    pub fn note_late(&self, ok: &Ok<'_>, question: Option<&str>, mariadb: bool) {
        let before = self.explicit.get();
        let mut reports = self.filter(ok);
        if let Some(variable) = question {
            reports = late::without(&reports, variable);
        }
        if !reports.is_empty() {
            let mut late = self.late.borrow_mut();
            let late = late.get_or_insert_default();
            late.note(&reports, !mariadb);
            late.explicit_before.get_or_insert(before);
        }
    }

    /// Whether the client has reports still to hear.
    #[inline]
    pub fn has_late(&self) -> bool {
        self.late.borrow().is_some()
    }

    /// The reports that come with an OK packet to the client, encoded, and whether the packet announces changes without any: MySQL does
    /// so when it had one to report, and it is none any more.
    pub fn reported_with(&self, ok: &Ok<'_>) -> (Vec<u8>, bool) {
        self.with_late(self.filter(ok))
    }

    fn with_late(&self, reported: Vec<u8>) -> (Vec<u8>, bool) {
        let Some(late) = self.late.borrow_mut().take_if(|late| late.come_with(&reported)) else {
            return (reported, false);
        };
        // MySQL does not report a transaction that has ended before it was reported.
        let is_as_before = late.explicit_before == Some(self.explicit.get());
        let all = late.with(&reported);
        match self.transactions {
            Some(Transactions::Explicit) if is_as_before => {
                let rest = late::without_transaction(&all);
                let is_empty = rest.is_empty();
                (rest, is_empty)
            }
            _ => (all, false),
        }
    }

    /// The same behind a statement that leaves the session in this schema (empty for none). MariaDB notes a change of schema when a
    /// routine of another one runs or is read, and reports it with its next OK that has a report to make. That may be one that this
    /// client has not asked for: it hears of the schema with its own next report.
    pub fn reported_without_move(&self, ok: &Ok<'_>, schema: &str) -> (Vec<u8>, bool) {
        let reported = self.filter(ok);
        if reported.is_empty() || reported != self.beginning(Some(schema)) {
            return self.with_late(reported);
        }
        self.late.borrow_mut().get_or_insert_default().note(&reported, false);
        (Vec::new(), false)
    }

    /// Whether a server would announce changes with this OK packet and list none, as the client wants to hear of the state of
    /// transactions alone: the connection tells how the next one begins.
    pub fn announces_characteristics(&self, ok: &Ok<'_>) -> bool {
        let is_it = |change| matches!(change, Change::TransactionCharacteristics(_));
        self.transactions == Some(Transactions::State) && ok.changes().map_while(Result::ok).any(is_it)
    }

    /// The reports of MariaDB for a client that turns on those of transactions: the connection has told of them before,
    /// and does not begin anew.
    pub fn with_no_transaction(&self, reported: &[u8]) -> Vec<u8> {
        let (mut none, mut data) = (vec![5], Vec::new());
        data.put_lenenc_bytes(Explicit::None.text());
        none.put_lenenc_bytes(&data);
        late::merged(&none, reported)
    }

    /// These reports without that of a change that has no name: GET DIAGNOSTICS announces none, but a SET that runs in its place does.
    pub fn without_change(&self, reported: Vec<u8>) -> Vec<u8> {
        if self.state { late::without(&reported, "") } else { reported }
    }

    /// The session has locked tables, or has none locked.
    pub fn note_locks(&self, locked: bool) {
        self.locked.set(locked);
    }

    /// The choice of the client was another one for a statement's own reply: what it has heard by that one.
    pub fn heard_by(&mut self, after: ClientTracking) {
        (self.explicit, self.held, self.late) = (after.explicit, after.held, after.late);
    }

    /// The session changes of an OK packet that the client wants to hear, encoded.
    fn filter(&self, ok: &Ok<'_>) -> Vec<u8> {
        let mut reported = Vec::new();
        let mut charsets = Vec::new();
        for change in ok.changes().map_while(Result::ok) {
            let mut data = Vec::new();
            let kind = match change {
                Change::Variable { name, value } if self.wants(name) => {
                    data.put_lenenc_bytes(name);
                    data.put_lenenc_bytes(value);
                    0
                }
                Change::Schema(name) if self.schema => {
                    data.put_lenenc_bytes(name);
                    1
                }
                Change::State if self.state => {
                    data.push(b'1');
                    2
                }
                Change::Gtids(gtids) if self.gtids != Gtids::Off => {
                    data.push(0);
                    data.put_lenenc_bytes(gtids);
                    3
                }
                Change::TransactionCharacteristics(text)
                    if self.transactions.is_none_or(|wanted| wanted == Transactions::Characteristics) =>
                {
                    data.put_lenenc_bytes(text);
                    4
                }
                Change::TransactionState(text) => {
                    self.held.set(Held::by(text));
                    // BEGIN releases them.
                    self.locked.set(self.locked.get() && text.first() != Some(&b'T'));
                    let explicit = self.explicit.get().after(text, ok);
                    let is_news = self.explicit.replace(explicit) != explicit;
                    match self.transactions {
                        None | Some(Transactions::State | Transactions::Characteristics) => data.put_lenenc_bytes(text),
                        Some(Transactions::Explicit) if is_news => data.put_lenenc_bytes(explicit.text()),
                        Some(Transactions::Explicit | Transactions::Off) => continue,
                    }
                    5
                }
                Change::Other { kind, data: raw } => {
                    data.extend_from_slice(raw);
                    kind
                }
                Change::Variable { .. } | Change::Schema(_) | Change::State | Change::Gtids(_) => continue,
                Change::TransactionCharacteristics(_) => continue,
            };
            let start = reported.len();
            reported.push(kind);
            reported.put_lenenc_bytes(&data);
            if let Change::Variable { name, .. } = change
                && name.starts_with(b"character_set_")
            {
                charsets.push((name, start..reported.len()));
            }
        }
        let sorted = charsets.is_sorted_by_key(|(name, _)| *name);
        if sorted { reported } else { in_order(&reported, charsets) }
    }

    pub(super) fn wants(&self, name: &[u8]) -> bool {
        self.variables.has(name)
    }
}

/// Puts character sets into the order of their names, which is MySQL's and most often MariaDB's: that one goes by the places of
/// variables in a hash table, which grows by the variables that a connection has reported before, when it reports all.
fn in_order(reported: &[u8], charsets: Vec<(&[u8], Range<usize>)>) -> Vec<u8> {
    let places: Vec<_> = charsets.iter().map(|(_, place)| place.clone()).collect();
    let mut by_name = charsets;
    by_name.sort_unstable_by_key(|(name, _)| *name);
    let (mut ordered, mut at) = (Vec::with_capacity(reported.len()), 0);
    for (place, (_, moved)) in places.into_iter().zip(by_name) {
        ordered.extend_from_slice(&reported[at..place.start]);
        ordered.extend_from_slice(&reported[moved]);
        at = place.end;
    }
    ordered.extend_from_slice(&reported[at..]);
    ordered
}

#[cfg(test)]
mod tests {
    use facts::catalog::Catalog;
    use route::state::StateMap;
    use sql::{Effect, Value};
    use wire::Status;

    use super::super::{Hearing, TRANSACTION_INFO};
    use super::*;

    #[test]
    fn character_sets_are_reported_in_the_order_of_their_names() {
        let names = ["character_set_results", "time_zone", "character_set_client", "character_set_connection"];
        let mut state = Vec::new();
        for name in names {
            let mut data = Vec::new();
            data.put_lenenc_bytes(name.as_bytes());
            data.put_lenenc_bytes(b"latin1");
            state.push(0);
            state.put_lenenc_bytes(&data);
        }
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, ..Ok::default() };
        let reported = ClientTracking::of_servers(&Catalog::default()).filter(&ok);
        let ok = Ok { session_state: &reported, ..ok };
        let heard: Vec<_> = ok
            .changes()
            .map(|change| match change.unwrap() {
                Change::Variable { name, .. } => String::from_utf8_lossy(name).into_owned(),
                change => panic!("{change:?}"),
            })
            .collect();
        assert_eq!(heard, [names[2], "time_zone", names[3], names[0]]);
    }

    #[test]
    fn of_transactions_clients_hear_what_they_have_asked_for() {
        let mut state = Vec::new();
        for (kind, text) in [(4, "SET TRANSACTION READ ONLY;"), (5, "________")] {
            let mut data = Vec::new();
            data.put_lenenc_bytes(text.as_bytes());
            state.push(kind);
            state.put_lenenc_bytes(&data);
        }
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, ..Ok::default() };
        let heard = |tracking: &ClientTracking| {
            let reported = tracking.filter(&ok);
            Ok { session_state: &reported, ..ok }.changes().count()
        };
        let mut tracking = ClientTracking::of_servers(&Catalog::default());
        assert_eq!(tracking.beginning(Some("db")), b"\x01\x03\x02db");
        let dialect = sql::Dialect {
            family: sql::Family::MySql,
            version: 90_700,
            modes: sql::Modes::empty(),
            encoding: sql::Encoding::Utf8,
        };
        let (state, statement) = (StateMap::default(), sql::classify(b"DO 1", &dialect, &sql::NoFunctions));
        let hearing = Hearing::behind(&tracking, &state, (&statement, true));
        assert!(tracking.beginning(None).is_empty() && !hearing.is_of_any());
        let (moved, own) = ([1, 3, 2, b'd', b'b'], [1, 4, 3, b'd', b'b', b'2']);
        let ok_of = |state| Ok { session_state: state, ..Ok::default() };
        assert!(tracking.reported_without_move(&ok_of(&moved), "db").0.is_empty(), "it comes with the next report");
        assert!(tracking.reported_without_move(&ok_of(&[]), "db").0.is_empty());
        assert_eq!(tracking.reported_with(&ok_of(&own)).0, own, "a newer one takes its place");
        assert_eq!(tracking.reported_without_move(&ok_of(&own), "db").0, own);
        assert_eq!(heard(&tracking), 2, "the connection has the client's own setting");
        for (own, expected) in [(None, 0), (Some("OFF"), 0), (Some("STATE"), 1), (Some("characteristics"), 2)] {
            tracking.hide(true, own, true);
            assert_eq!(heard(&tracking), expected, "{own:?}");
        }
        tracking.hide(true, None, false);
        let reported: Vec<_> = ["T_______", "T_R__sS_", "________", "I_R__s__", "________"]
            .into_iter()
            .map(|text| {
                let state = [&[5, 9, 8][..], text.as_bytes()].concat();
                !tracking.filter(&Ok { session_state: &state, ..ok }).is_empty()
            })
            .collect();
        assert_eq!(reported, [true, false, true, false, false], "MySQL's OFF");
        let reported = [
            ("T_R_____", "START TRANSACTION WITH CONSISTENT SNAPSHOT;", "T_R_____"),
            ("T_R___S_", "", ""),
            ("T_______", "START TRANSACTION;", "T_______"),
            ("T_R___S_", "START TRANSACTION WITH CONSISTENT SNAPSHOT;", "T_R_____"),
            ("________", "", "________"),
            ("T_R___S_", "START TRANSACTION;", "T_______"),
        ];
        for (state, began, expected) in reported {
            let mut reported = [&[5, 9, 8][..], state.as_bytes()].concat();
            let mut data = Vec::new();
            data.put_lenenc_bytes(began.as_bytes());
            reported.push(4);
            reported.put_lenenc_bytes(&data);
            let heard = tracking.filter(&Ok { session_state: &reported, ..ok });
            assert_eq!(heard.get(3..).unwrap_or_default(), expected.as_bytes(), "{state} {began}");
        }
        let set = Effect::Variable { name: TRANSACTION_INFO.into(), value: Value::Literal("'STATE'".into()) };
        tracking.hide(true, None, true);
        assert_eq!(
            tracking.after(&[set], &Catalog::default()).map(|after| heard(&after)),
            Some(2),
            "its own from now on"
        );
    }

    #[test]
    fn clients_hear_what_they_would_have_heard() {
        let mut state = Vec::new();
        for (name, value) in [("autocommit", "OFF"), ("sql_mode", "ANSI")] {
            let mut data = Vec::new();
            data.put_lenenc_bytes(name.as_bytes());
            data.put_lenenc_bytes(value.as_bytes());
            state.push(0);
            state.put_lenenc_bytes(&data);
        }
        state.extend([2, 2, 1, b'1']);
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, ..Ok::default() };
        let heard = |tracking: &ClientTracking| {
            let reported = tracking.filter(&ok);
            let ok = Ok { session_state: &reported, ..ok };
            ok.changes().map(|change| format!("{:?}", change.unwrap())).collect::<Vec<_>>().len()
        };
        let mut tracking = ClientTracking::of_servers(&Catalog::default());
        assert_eq!(heard(&tracking), 1, "autocommit only");
        assert!(tracking.set("session_track_system_variables", "*,sql_mode"));
        assert_eq!(heard(&tracking), 2);
        assert!(tracking.set("session_track_state_change", "1"));
        assert_eq!(heard(&tracking), 3);
        assert!(!tracking.set("sql_mode", "''"));
    }
}
