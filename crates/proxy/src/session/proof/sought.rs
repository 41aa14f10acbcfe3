//! The texts that a log is searched for, and the questions and answers about them.

use crate::session::belief::Belief;
use crate::session::environment::Environment;
use facts::gtid::WrittenGtids;
use proof::answer::{self, Answer, Column, Columns};
use proof::changed::{Changed, Target};
use proof::logged::{Execution, Text};
use proof::mark;
use proof::tail::{Name, Sought};
use sql::{Access, Asks, Kind, RowChange, TransactionStep, Verb, Why};
use wire::Capabilities;
use wire::command::Command;

use super::READ_WAIT;
use crate::session::diagnostics::read_back::rows;
use crate::session::query::{Body, Query};
use crate::session::reset::ask;
use crate::session::{Held, Session};

const WRITES: Access = Access::Primary(Why::Writes);
/// Servers have no tables with more columns.
const COLUMNS_MAX: u32 = 4096;

/// The writes that a log is searched for.
#[derive(Debug)]
pub struct SoughtWrites {
    /// The statements that may have written, in order.
    pub texts: Vec<Text>,
    /// The one statement, and the schema of its table, if the client must hear more of it than that it was done.
    pub change: Option<(RowChange, String)>,
}

impl SoughtWrites {
    /// The same, for the table with these columns.
    pub fn sought(&mut self, columns: &Columns) -> Sought {
        let target = self.change.as_ref().map(|(change, schema)| Target {
            schema: schema.clone(),
            table: change.table.clone(),
            columns: columns.columns.len(),
            counter: columns.counter(),
        });
        Sought { logged_on: None, mark: None, texts: std::mem::take(&mut self.texts), target }
    }
}

impl Session {
    /// The statements whose transaction is sought.
    pub(super) fn wanted(&self, query: &Query<'_>) -> Result<SoughtWrites, &'static str> {
        let statement = &*query.statement;
        if statement.parts != 1 {
            return Err("it is a text of several statements");
        }
        if !self.here.cluster.shared.settings.load().logs_tell {
            return Err("servers of this kind do not have it in their logs");
        }
        match (statement.transaction, statement.kind) {
            (Some(TransactionStep::Commit { chain: false, release: None | Some(false) }), _) => {
                let Some(log) = self.transaction.log.as_ref().filter(|log| log.obstacle().is_none()) else {
                    return Err("its transaction was not kept");
                };
                let (mut texts, mut state) = (Vec::new(), &log.state);
                for entry in log.entries() {
                    if entry.kept.statement.access == WRITES {
                        let request = log.request(entry);
                        let query = entry.kept.query(&request);
                        let is_plain = is_plain(&query, Asks::empty());
                        let types = entry.types.as_ref().map(|(_, types)| &**types);
                        let text = self.text(&query, types, state.schema());
                        texts.push(text.filter(|_| is_plain).ok_or("the log has other texts than were sent")?);
                    }
                    state = entry.state.as_ref().unwrap_or(state);
                }
                Ok(SoughtWrites { texts, change: None })
            }
            // Values that only the session knows may have made other rows of the very same text.
            (None, Kind::Insert | Kind::Update | Kind::Delete) if is_plain(query, Asks::LAST_INSERT_ID) => {
                let text = self.text(query, None, self.belief.state.schema()).ok_or("its text is not known")?;
                let change = sql::row_change(&text.text, &text.dialect);
                let calls = statement.asks.contains(Asks::STORED_FUNCTIONS);
                let change = change.filter(|_| !calls).zip(text.table_schema.clone());
                Ok(SoughtWrites { texts: vec![text], change })
            }
            _ => Err("only commits and single writes are looked for"),
        }
    }

    /// A statement as a log may have it, of a session with this schema.
    fn text(&self, query: &Query<'_>, types: Option<&[u8]>, schema: Option<&str>) -> Option<Text> {
        let (text, dialect) = query.text().map(|text| (text.bytes.to_vec(), text.dialect))?;
        let mut names_in = schema;
        let execution = match query.body {
            Body::Execute(id) => {
                let known = self.belief.statements.find(id)?;
                names_in = known.prepared.state.schema();
                let types =
                    types.map_or_else(|| known.types_executed(query.request, self.client.capabilities), Box::from);
                let payload = query.request.payload().get(1..)?.to_vec();
                let capabilities = self.client.capabilities;
                Some(Execution { payload, types, count: known.parameters, capabilities })
            }
            _ => None,
        };
        let change = sql::row_change(&text, &dialect);
        let table_schema = change.and_then(|change| change.schema.or(names_in.map(str::to_owned)));
        let is_marked = mark::belongs_to(&query.statement, &text);
        Some(Text { text, is_marked, execution, dialect, schema: schema.map(str::to_owned), table_schema })
    }

    /// The reply that the client gets to a write that was done; `None` where that is not certain.
    pub(super) fn answer_of(
        &self,
        query: &Query<'_>,
        wanted: &SoughtWrites,
        columns: &Columns,
        changed: &Changed,
    ) -> Option<Answer> {
        let (change, _) = wanted.change.as_ref()?;
        let text = self.text(query, None, self.belief.state.schema())?;
        let values = text.values()?;
        let counts_found = self.client.capabilities.contains(Capabilities::FOUND_ROWS);
        answer::ProvenWrite { change, values: &values, columns, changed, counts_found }.answer()
    }
}

impl Environment {
    /// Asks the new primary what the table is like. `None` if the connection is of no more use.
    pub(super) async fn ask_columns(&self, held: &mut Held, change: &RowChange, schema: &str) -> Option<Columns> {
        let literal = |name: &str| sql::text::literal(name.as_bytes(), sql::Encoding::Utf8).unwrap_or_default();
        let (schema, table) = (literal(schema), literal(&change.table));
        // Rows that went with others are in no log before MySQL 9.6, which does not matter.
        let itself = match change.verb {
            Verb::Insert => "0".to_owned(),
            _ => format!(
                "(SELECT COUNT(*) FROM information_schema.referential_constraints WHERE constraint_schema={schema} \
                 AND table_name={table} AND referenced_table_name={table})"
            ),
        };
        let question = format!(
            "SELECT HEX(CONVERT(column_name USING utf8mb4)),extra,column_key,data_type,{itself} FROM \
             information_schema.columns WHERE table_schema={schema} AND table_name={table} ORDER BY ordinal_position \
             LIMIT {COLUMNS_MAX}"
        );
        let capabilities = held.lease.origin.capabilities;
        // It names tables: what messages there were on the connection are gone.
        held.lease.origin.messages = None;
        let reply = tokio::time::timeout(READ_WAIT, ask(&mut held.lease, &question, &self.worker)).await.ok()?.ok()?;
        let rows = reply.and_then(|reply| rows(&reply, 5, capabilities).ok()).unwrap_or_default();
        let refers_to_itself = rows.first().is_some_and(|row| row.get(4) != Some(&Some(b"0".to_vec())));
        let columns: Option<Vec<Column>> = rows.iter().map(|row| column(row)).collect();
        Some(Columns { columns: columns.unwrap_or_default(), refers_to_itself })
    }
}

impl Belief {
    /// The position of a transaction, as a server would tell it.
    pub(super) fn position_of(&self, (origin, number): Name, server: u32) -> Option<WrittenGtids> {
        if self.is_mariadb() {
            return WrittenGtids::parse(true, &format!("{origin}-{server}-{number}"));
        }
        let digits = format!("{origin:032x}");
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range).unwrap_or_default());
        WrittenGtids::parse(false, &format!("{}:{number}", parts.join("-")))
    }
}

/// Whether the log has the statement as it was sent, and whether it does the same in any session. `asks` is what else it must
/// not ask for.
fn is_plain(query: &Query<'_>, asks: Asks) -> bool {
    let asks =
        asks | Asks::ROW_COUNT | Asks::FOUND_ROWS | Asks::CONNECTION_ID | Asks::SYSTEM_VARIABLES | Asks::USER_VARIABLES;
    matches!(query.body, Body::AsCame | Body::Execute(_))
        && query.command != Command::StmtBulkExecute
        && query.statement.parts == 1
        && query.statement.effects.is_empty()
        && !query.statement.asks.intersects(asks)
}

/// A column by a row of the answer.
fn column(row: &[Option<Vec<u8>>]) -> Option<Column> {
    let text = |at: usize| std::str::from_utf8(row.get(at)?.as_ref()?).ok().map(str::to_ascii_lowercase);
    let (name, extra, key, kind) = (text(0)?, text(1)?, text(2)?, text(3)?);
    let digits = name.as_bytes().as_chunks::<2>().0;
    let name: Option<Vec<u8>> =
        digits.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    Some(Column {
        name: String::from_utf8(name?).ok()?,
        counts: extra.contains("auto_increment"),
        is_invisible: extra.contains("invisible"),
        is_key: key == "pri",
        is_int: matches!(&*kind, "tinyint" | "smallint" | "mediumint" | "int" | "bigint"),
    })
}
