//! Prepared statements on their way to another worker: nothing of them may be shared with the thread that they leave.

use std::rc::Rc;
use std::sync::Arc;

use route::state::StateMap;
use sql::{Dialect, Statement};

use super::{ClientStatement, ClientStatements, PreparedText, Refused};
use crate::bytes_in_use::BytesShare;
use crate::pool::StatementKey;
use crate::session::typed::Typed;

impl ClientStatements {
    /// They leave the worker's thread.
    pub fn pack(self) -> PackedStatements {
        let ClientStatements { last_id, last_prepared, known, share } = self;
        let pack = |statement: ClientStatement| {
            let ClientStatement {
                id,
                prepared,
                parameters,
                types,
                typed,
                cursor_of: _,
                rows_stay,
                rows_come,
                long_data_of: _,
                refused,
            } = statement;
            let PreparedText { key, state, dialect, statement, long_form, tags, rewritten } =
                Rc::unwrap_or_clone(prepared);
            let statement = Rc::unwrap_or_clone(statement);
            PackedStatement {
                id,
                parameters,
                types,
                typed,
                rows_stay,
                rows_come,
                refused,
                key,
                state,
                dialect,
                statement,
                long_form,
                tags,
                rewritten,
            }
        };
        let known = known.map(|known| known.into_values().map(pack).collect());
        PackedStatements { last_id, last_prepared, known, share }
    }
}

/// A client's prepared statements between two workers.
#[derive(Debug)]
pub struct PackedStatements {
    last_id: u32,
    last_prepared: Option<u32>,
    known: Option<Vec<PackedStatement>>,
    share: Option<Box<BytesShare>>,
}

/// A [`ClientStatement`] with its [`PreparedText`]; the fields are theirs.
#[derive(Debug)]
struct PackedStatement {
    id: u32,
    parameters: u16,
    types: Option<(u64, Box<[u8]>)>,
    typed: Option<Box<Typed>>,
    rows_stay: bool,
    rows_come: bool,
    refused: Option<Box<Refused>>,
    key: StatementKey,
    state: Arc<StateMap>,
    dialect: Dialect,
    statement: Statement,
    long_form: Option<String>,
    tags: Option<Box<[u8]>>,
    rewritten: bool,
}

impl PackedStatements {
    /// They are on their new worker.
    pub fn unpack(self) -> ClientStatements {
        let PackedStatements { last_id, last_prepared, known, share } = self;
        let unpack = |packed: PackedStatement| {
            let PackedStatement {
                id,
                parameters,
                types,
                typed,
                rows_stay,
                rows_come,
                refused,
                key,
                state,
                dialect,
                statement,
                long_form,
                tags,
                rewritten,
            } = packed;
            let statement = Rc::new(statement);
            let prepared = PreparedText { key, state, dialect, statement, long_form, tags, rewritten };
            let prepared = Rc::new(prepared);
            (
                id,
                ClientStatement {
                    id,
                    prepared,
                    parameters,
                    types,
                    typed,
                    cursor_of: None,
                    rows_stay,
                    rows_come,
                    long_data_of: None,
                    refused,
                },
            )
        };
        let known = known.map(|known| known.into_iter().map(unpack).collect());
        ClientStatements { last_id, last_prepared, known, share }
    }
}
