//! The collation of a schema that was changed behind the sessions in it: each keeps the one that it found when it chose the schema.

use facts::catalog::Catalog;

use super::{OF_SCHEMA, StateMap};

const COLLATION: &str = OF_SCHEMA[1];

impl StateMap {
    /// Chooses a schema, with the collation of `now` if that is another one than before. MariaDB does not look at a schema that the
    /// session is in already (seen with 10.11).
    pub fn choose_schema(&mut self, schema: Option<&str>, now: &Catalog, mariadb: bool) {
        let new = schema.and_then(|schema| now.new_collation(schema));
        let stays = mariadb && new.is_some() && self.schema() == schema && self.variable(COLLATION).is_some();
        if stays {
            return;
        }
        self.set_schema(schema);
        if let Some(collation) = new {
            self.set_variable(COLLATION, collation);
        }
    }

    /// Whether a connection in this state has to choose its schema anew to be in the `wanted` one: it may have done so when that had
    /// another collation. MariaDB gives new tables the one of then.
    pub fn found_another_collation(&self, wanted: &StateMap, now: &Catalog) -> bool {
        let Some(schema) = wanted.schema().filter(|schema| now.new_collation(schema).is_some()) else { return false };
        self.schema() == Some(schema) && self.variable(COLLATION) != wanted.variable(COLLATION)
    }

    /// This state with the collation that the session found in its schema `before`, if another one is there `now`. `None` if it has one
    /// of its own, or the same one is there.
    pub fn with_former_collation(&self, before: &Catalog, now: &Catalog) -> Option<StateMap> {
        let found = before.former_collation(self.schema()?, now)?;
        if self.variable(COLLATION).is_some() {
            return None;
        }
        let mut kept = self.clone();
        kept.set_variable(COLLATION, found);
        Some(kept)
    }

    /// This state behind a statement by which the session has altered a schema: in its own one, it has the new collation.
    pub fn with_new_collation(&self, before: &Catalog, now: &Catalog) -> Option<StateMap> {
        let schema = self.schema()?;
        before.former_collation(schema, now)?;
        let mut new = self.clone();
        new.set_variable(COLLATION, now.new_collation(schema)?);
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catalogs of a schema with these collations, one after the other.
    fn catalogs(collations: &[&str]) -> Vec<Catalog> {
        let mut all: Vec<Catalog> = Vec::new();
        for collation in collations {
            let schemas = [("shop".to_owned(), (*collation).to_owned())].into();
            let mut catalog = Catalog { schemas, ..Catalog::default() };
            catalog.find_recollated(all.last().unwrap_or(&Catalog::default()));
            all.push(catalog);
        }
        all
    }

    #[test]
    fn sessions_keep_the_collation_that_they_found_in_their_schema() {
        let all = catalogs(&["a", "a", "b", "c"]);
        let mut old = StateMap::default();
        old.choose_schema(Some("shop"), &all[0], false);
        assert_eq!(old.with_former_collation(&all[0], &all[1]), None);
        let kept = old.with_former_collation(&all[0], &all[3]).unwrap();
        assert_eq!(kept.variable(COLLATION), Some("a"), "of several changes the first one counts");
        assert_eq!(kept.with_former_collation(&all[2], &all[3]), None);
        let mut newer = StateMap::default();
        newer.choose_schema(Some("shop"), &all[2], false);
        assert_eq!(newer.variable(COLLATION), Some("b"));
        assert_eq!(newer.with_new_collation(&all[2], &all[3]).unwrap().variable(COLLATION), Some("c"));
        assert_eq!(newer.with_new_collation(&all[3], &all[3]), None);
        newer.choose_schema(Some("other"), &all[3], false);
        assert_eq!(newer.variable(COLLATION), None);
    }

    #[test]
    fn a_connection_that_chose_a_schema_before_it_was_altered_chooses_it_anew() {
        let all = catalogs(&["a", "b"]);
        let (mut connection, mut session) = (StateMap::default(), StateMap::default());
        connection.set_schema(Some("shop"));
        session.choose_schema(Some("shop"), &all[1], true);
        assert!(connection.found_another_collation(&session, &all[1]));
        assert!(!connection.found_another_collation(&session, &all[0]));
        assert_eq!(connection.difference(&session).set, "SET collation_database='b'");
        assert!(!session.found_another_collation(&session, &all[1]));
    }
}
