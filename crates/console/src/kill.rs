//! `KILL`: a session or its statement ends, by the operation that the API has, too.

use std::fmt;

use admin::Kill;
use wire::errno;

use crate::error::SqlError;
use crate::keys::Role;
use crate::session::Session;
use crate::tokens::Token;

/// `KILL [QUERY | CONNECTION] ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KillOrder {
    pub(crate) id: u32,
    /// The statement alone.
    pub(crate) query_only: bool,
}

impl KillOrder {
    /// Reads all behind `KILL`.
    pub(crate) fn read(rest: &[Token<'_>]) -> Result<KillOrder, SqlError> {
        let query_only = rest.first().is_some_and(|token| token.is_word("QUERY"));
        let named = query_only || rest.first().is_some_and(|token| token.is_word("CONNECTION"));
        match rest.get(usize::from(named)..) {
            Some([id]) => match id.text.parse() {
                Ok(id) => Ok(KillOrder { id, query_only }),
                Err(_) => Err(SqlError::syntax("KILL takes the id of a session, as the view sessions has it")),
            },
            _ => Err(SqlError::syntax("write KILL [QUERY | CONNECTION] ID")),
        }
    }
}

impl fmt::Display for KillOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KILL {}{}", if self.query_only { "QUERY " } else { "" }, self.id)
    }
}

/// Carries a KILL out for a session of the console. It is an event, whatever becomes of it.
///
/// # Errors
/// The role may not, or there is no such session.
pub(crate) async fn carry_out(session: &Session, order: KillOrder) -> Result<(), SqlError> {
    let done = try_to(session, order).await;
    let (role, client) = (session.role.to_string(), session.client.as_str());
    let result = done.as_ref().map_or_else(|error| error.text.clone(), |()| "done".to_owned());
    session.shared.note(role, client, order.to_string(), done.is_ok(), result);
    done
}

async fn try_to(session: &Session, order: KillOrder) -> Result<(), SqlError> {
    let KillOrder { id, query_only } = order;
    // A client's Ctrl-C is a KILL of its own id.
    if session.seats.kill(id, query_only, session.role) {
        return Ok(());
    }
    if session.role < Role::Operate {
        let text = format!("Access denied; you need the role {} or {} for KILL", Role::Operate, Role::Admin);
        return Err(SqlError::new(errno::ER_SPECIFIC_ACCESS_DENIED_ERROR, text));
    }
    let ended = session.shared.sources.sessions.kill(Kill { id, query_only, seen: None }).await;
    tracing::info!(user = %session.role, client = session.client, id, query_only, ended = ?ended, "KILL on the SQL console");
    match ended {
        Ok(true) => Ok(()),
        Ok(false) if query_only => Ok(()),
        Ok(false) => Err(no_session(id)),
        Err(_) if !is_there(session, id).await => Err(no_session(id)),
        Err(words) => Err(SqlError::new(errno::ER_UNKNOWN_ERROR, words)),
    }
}

fn no_session(id: u32) -> SqlError {
    SqlError::new(errno::ER_NO_SUCH_THREAD, format!("Unknown thread id: {id}"))
}

async fn is_there(session: &Session, id: u32) -> bool {
    session.shared.sources.sessions.list().await.iter().any(|facts| facts.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    #[test]
    fn orders_are_read() {
        let read = |text: &str| KillOrder::read(&tokens(text).unwrap()).map_err(|error| error.code);
        assert_eq!(read("7"), Ok(KillOrder { id: 7, query_only: false }));
        assert_eq!(read("query 7;"), Ok(KillOrder { id: 7, query_only: true }));
        assert_eq!(read("CONNECTION 4294967295"), Ok(KillOrder { id: u32::MAX, query_only: false }));
        for wrong in ["", "x", "7 8", "QUERY", "4294967296", "USER 'a'", "-1"] {
            assert_eq!(read(wrong), Err(errno::ER_PARSE_ERROR), "{wrong}");
        }
    }
}
