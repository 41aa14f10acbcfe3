//! Errors of a server that the client does not hear while another server may do better.

use facts::view::ServerId;
use wire::reply::ServerError;
use wire::{Status, errno};

use super::Session;
use super::query::Query;
use route::{Reason, Route, Target};

/// With this Galera says that it has not prepared the node.
pub const NOT_IN_GROUP: u16 = errno::ER_UNKNOWN_COM_ERROR;
/// With this Galera says that a member lost its group while it committed.
pub const GROUP_LOST: u16 = errno::ER_ERROR_DURING_COMMIT;
/// With this a replication group refuses everything on a primary that it moves within a limit of time.
const GROUP_MOVES: u16 = errno::ER_OPERATION_NOT_ALLOWED_WHILE_PRIMARY_CHANGE_IS_RUNNING;

/// Which errors of the statement are not for the client while another server may do better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withhold {
    /// None.
    #[default]
    Nothing,
    /// Those of a server that is read-only: it is the primary no more, and has done nothing.
    ReadOnly,
    /// Those of a member of a Galera group that serves no session, shuts down or lost its group in a commit, and of a single write
    /// that lost against another one there.
    Group {
        /// Those of a server that is read-only, too.
        read_only: bool,
        /// The statement is a write that is its own transaction.
        alone: bool,
    },
    /// Those of a server that is read-only, shuts down or has cut the connection, within a transaction that can be replayed.
    Lost,
    /// Those of a replica that has not heard of a schema, table, column, routine or right yet, that is read-only, or shuts down.
    NotYetHere,
    /// Those of a server that shuts down: that a cluster's only server is read-only, the client hears from itself.
    ShutsDown,
    /// The same, and those of a connection that the server has cut, within a transaction that can be replayed.
    Cut,
    /// All of a replica, which may be set up otherwise than the primary: a SET that it refuses is the primary's to judge.
    All,
}

impl Withhold {
    /// The same where there is no other server.
    pub(super) fn of_only_server(self) -> Withhold {
        match self {
            Withhold::ReadOnly => Withhold::ShutsDown,
            Withhold::Lost => Withhold::Cut,
            other => other,
        }
    }

    /// Whether this error is one of them.
    pub(super) fn applies(self, error: &ServerError<'_>) -> bool {
        match self {
            Withhold::Nothing => false,
            Withhold::ShutsDown => error.code == errno::ER_SERVER_SHUTDOWN,
            Withhold::Cut => matches!(error.code, errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED),
            Withhold::All => true,
            Withhold::Group { read_only, alone } => {
                is_not_in_group(error)
                    || is_group_lost(error)
                    || alone && error.code == errno::ER_LOCK_DEADLOCK
                    || error.code == errno::ER_SERVER_SHUTDOWN
                    || read_only && is_read_only(error)
            }
            // A server that shuts down, or whose connection was killed, has not run the statement.
            Withhold::ReadOnly => error.code == errno::ER_SERVER_SHUTDOWN || is_read_only(error),
            Withhold::Lost => {
                matches!(error.code, errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED)
                    || is_read_only(error)
                    || is_not_in_group(error)
                    || is_group_lost(error)
            }
            // A read that a read-only replica refuses hides a write: in a view, a column's default, or a function.
            Withhold::NotYetHere => {
                matches!(
                    error.code,
                    errno::ER_BAD_DB_ERROR
                        | errno::ER_BAD_FIELD_ERROR
                        | errno::ER_NO_SUCH_TABLE
                        | errno::ER_SP_DOES_NOT_EXIST
                        | errno::ER_PROCACCESS_DENIED_ERROR
                        | errno::ER_DBACCESS_DENIED_ERROR
                        | errno::ER_TABLEACCESS_DENIED_ERROR
                        | errno::ER_COLUMNACCESS_DENIED_ERROR
                        | errno::ER_SPECIFIC_ACCESS_DENIED_ERROR
                ) || is_read_only(error)
                    || is_not_in_group(error)
                    || error.code == errno::ER_SERVER_SHUTDOWN
            }
        }
    }
}

/// A member of a Galera group without its group, or one that an operator has set to refuse, says so before it does anything.
/// The same code is that of commands that a server does not know.
pub fn is_not_in_group(error: &ServerError<'_>) -> bool {
    error.code == NOT_IN_GROUP && memchr::memmem::find(error.message, b"WSREP").is_some()
}

/// The member has taken back what it was to commit. Other members have it if it reached them before the group broke: most often it was
/// never sent, but the words are the same in both cases.
fn is_group_lost(error: &ServerError<'_>) -> bool {
    error.code == GROUP_LOST && memchr::memmem::find(error.message, b"Not connected to Primary Component").is_some()
}

/// An option that prevents a statement stands in the message; only read_only says that this is the wrong server.
fn is_read_only(error: &ServerError<'_>) -> bool {
    matches!(error.code, errno::ER_READ_ONLY_MODE | GROUP_MOVES)
        || error.code == errno::ER_OPTION_PREVENTS_STATEMENT
            && memchr::memmem::find(error.message, b"read-only").is_some()
}

impl Session {
    /// Which errors of this server another one may not have.
    pub(super) fn withheld(&self, query: &Query<'_>, route: &Route, server: ServerId) -> Withhold {
        let withhold = self.withheld_among_servers(query, route, server);
        if self.here.cluster.is_standalone.get() { withhold.of_only_server() } else { withhold }
    }

    fn withheld_among_servers(&self, query: &Query<'_>, route: &Route, server: ServerId) -> Withhold {
        let (status, primary) = (self.belief.status, self.here.cluster.primary());
        if let Some(withhold) = self.withheld_in_group(query, route, server) {
            return withhold;
        }
        match route.target {
            Target::Primary => Withhold::ReadOnly,
            // A READ ONLY transaction is refused its writes as such, wherever it runs.
            Target::Pinned if status.contains(Status::IN_READ_ONLY_TRANSACTION) => Withhold::ReadOnly,
            // Behind a statement that failed nothing tells whether one is open; that it would be READ ONLY is sure.
            Target::Pinned if !status.contains(Status::IN_TRANSACTION) && self.belief.facts().reads_only => {
                Withhold::ReadOnly
            }
            Target::Reader if route.reason == Reason::ReadOnlySession => Withhold::ReadOnly,
            Target::Reader if primary.is_some_and(|primary| primary != server) => match query.statement.kind {
                sql::Kind::Set => Withhold::All,
                _ => Withhold::NotYetHere,
            },
            Target::Pinned if self.transaction.log.is_some() => Withhold::Lost,
            Target::Reader => Withhold::ShutsDown,
            Target::Pinned | Target::Named(_) => Withhold::Nothing,
        }
    }

    /// The same in a Galera group, where that is another.
    fn withheld_in_group(&self, query: &Query<'_>, route: &Route, server: ServerId) -> Option<Withhold> {
        let view = self.here.cluster.view();
        view.group?;
        let group = |read_only, alone| Some(Withhold::Group { read_only, alone });
        match route.target {
            Target::Primary => group(true, query.is_one_write() && self.belief.facts().autocommit),
            Target::Named(_) => group(false, false),
            Target::Reader
                if route.reason == Reason::ReadOnlySession || view.primary.is_none_or(|primary| primary == server) =>
            {
                group(false, false)
            }
            Target::Pinned if self.transaction.log.is_some() => Some(Withhold::Lost),
            Target::Reader | Target::Pinned => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_lost_its_group_is_kept_from_the_client_and_other_errors_of_commits_are_not() {
        let applies = |withhold: Withhold, code, message: &str| {
            withhold.applies(&ServerError { code, sqlstate: *b"HY000", message: message.as_bytes() })
        };
        let lost =
            "Error while appending streaming replication fragment(provider status: Not connected to Primary Component)";
        let full = "Got error 28 \"No space left on device\" during COMMIT";
        for withhold in [Withhold::Group { read_only: true, alone: false }, Withhold::Lost] {
            assert!(applies(withhold, GROUP_LOST, lost) && !applies(withhold, GROUP_LOST, full), "{withhold:?}");
            assert!(applies(withhold, NOT_IN_GROUP, "WSREP has not yet prepared node for application use"));
        }
        for withhold in [Withhold::Nothing, Withhold::ReadOnly, Withhold::NotYetHere] {
            assert!(!applies(withhold, GROUP_LOST, lost), "{withhold:?}");
        }
    }

    #[test]
    fn a_server_that_shuts_down_is_left_by_all_statements_that_another_one_may_run() {
        let error = ServerError { code: errno::ER_SERVER_SHUTDOWN, sqlstate: *b"08S01", message: b"" };
        let group = [true, false].map(|read_only| Withhold::Group { read_only, alone: false });
        let others = [Withhold::ReadOnly, Withhold::NotYetHere, Withhold::ShutsDown, Withhold::Lost, Withhold::Cut];
        for withhold in group.into_iter().chain(others) {
            assert!(withhold.applies(&error), "{withhold:?}");
        }
        assert!(!Withhold::Nothing.applies(&error));
    }
}
