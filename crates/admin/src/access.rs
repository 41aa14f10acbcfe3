//! Rights of operators: roles by key, logins of the page, and the record of changes.

mod attempts;
mod guard;
mod keys;
mod logins;
mod peer;
mod record;

pub(crate) use self::guard::{Giver, Guard};
pub(crate) use self::keys::{Access, Role};
pub(crate) use self::logins::{LIFE, Login};
pub(crate) use self::peer::Peer;
pub(crate) use self::record::{ChangeRecord, Record};
