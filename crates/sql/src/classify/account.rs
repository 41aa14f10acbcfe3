//! Accounts and privileges.

use super::Classifier;
use crate::statement::{Kind, Why};

impl Classifier<'_> {
    /// GRANT, REVOKE, and USER and ROLE statements.
    pub(super) fn account(&mut self) {
        self.committing();
        self.plain(Kind::Account, Why::Account);
    }
}
