//! Users with the same rights share answers, if it is sure that they may read what was read.
//!
//! The rights' fingerprint takes the user's place in the question. An answer is kept so only if the rights that the fingerprint stands for
//! cover what was read, so that it does not matter which right the server went by when it answered: that may have been an
//! older one, of a connection that was there before. All else is kept for its user alone.

use facts::grants::Fingerprint;
use facts::published::Granting;
use sql::Kind;

use super::super::Session;
use super::super::query::Query;
use crate::session::belief::Belief;

/// Grants are tables of this schema.
const SCHEMA: &str = "mysql";

impl Session {
    /// The privileges of the session's user, in short; `None` if they are not known.
    pub(super) fn rights(&self) -> Option<Fingerprint> {
        let published = &self.here.cluster.shared.published;
        published.watch_grants();
        published.grants.current()?.fingerprint(&self.who.identity.user).copied()
    }

    /// Whether it is sure that whoever has these rights may read all that a statement reads.
    pub(super) fn rights_cover(&self, rights: &Fingerprint, query: &Query<'_>) -> bool {
        let published = &self.here.cluster.shared.published;
        let user = &*self.who.identity.user;
        let Some(grants) = published.grants.current().filter(|grants| grants.fingerprint(user) == Some(rights)) else {
            return false;
        };
        if grants.reads_everything(user) {
            return true;
        }
        let (Some(named), Some(tables)) = (query.tables(), published.tables.current()) else { return false };
        // The rows of a view may depend on the user.
        named.as_ref().is_ok_and(|named| {
            named.functions.is_empty()
                && named.read.iter().all(|table| {
                    let schema = table.schema.as_deref().or_else(|| self.belief.schema_of(query));
                    schema.is_some_and(|schema| {
                        tables.is_table(schema, &table.name) && grants.reads(user, schema, &table.name)
                    })
                })
        })
    }

    /// For as long as a statement runs that may change users' rights, and until they were read after it, what is known of
    /// them is not believed.
    #[inline]
    pub(in crate::session) fn granting(&self, query: &Query<'_>) -> Option<Granting> {
        let statement = &*query.statement;
        let published = &self.here.cluster.shared.published;
        if statement.access.only_reads() || !published.grants.is_watched() || query.prepares() {
            return None;
        }
        self.belief.may_grant(query).then(|| published.granting())
    }
}

impl Belief {
    /// Procedures count for what they are called for: what they grant is known with the next reading.
    fn may_grant(&self, query: &Query<'_>) -> bool {
        let statement = &*query.statement;
        match statement.kind {
            Kind::Account | Kind::Administration | Kind::PreparedText | Kind::Compound | Kind::Unknown => true,
            Kind::Set => statement.access == sql::Access::Primary(sql::Why::Administration),
            Kind::Insert | Kind::Update | Kind::Delete | Kind::Load => self.may_write_grants(query),
            _ => statement.parts > 1 && self.may_write_grants(query),
        }
    }

    fn may_write_grants(&self, query: &Query<'_>) -> bool {
        let is_schema = |schema: &str| schema.eq_ignore_ascii_case(SCHEMA);
        if self.schema_of(query).is_some_and(is_schema) {
            return true;
        }
        let Some(named) = query.tables() else { return true };
        match named {
            Ok(named) => named.written.iter().any(|table| table.schema.as_deref().is_some_and(is_schema)),
            Err(_) => query.statement.parts > 1,
        }
    }
}
