//! Users of the console: one for each role, whose password is the role's key.

use std::fmt;

use config::{Config, Secret};

/// The role of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    View,
    /// Reads, ends sessions and statements, drains, sets maintenance and marks.
    Operate,
    /// Everything.
    Admin,
}

impl Role {
    const ALL: [Role; 3] = [Role::View, Role::Operate, Role::Admin];

    /// The role of this user.
    pub(crate) fn of_user(name: &[u8]) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word().as_bytes() == name)
    }

    /// The user's name.
    pub fn word(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The key of each role. A role without a key logs in nobody.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Of `admin`.
    pub admin: Option<Secret>,
    /// Of `operate`.
    pub operate: Option<Secret>,
    /// Of `view`.
    pub view: Option<Secret>,
}

impl Keys {
    /// The keys of a configuration: the one place that knows which setting belongs to which role.
    pub fn of(config: &Config) -> Keys {
        let Some(admin) = &config.admin else { return Keys::default() };
        let config::AdminKeys { admin, operate, view } = admin.keys.clone();
        Keys { admin, operate, view }
    }

    pub(crate) fn of_role(&self, role: Role) -> Option<&Secret> {
        let key = match role {
            Role::Admin => &self.admin,
            Role::Operate => &self.operate,
            Role::View => &self.view,
        };
        key.as_ref().filter(|key| !key.is_empty())
    }

    /// Whether anybody can log in.
    pub(crate) fn are_given(&self) -> bool {
        Role::ALL.into_iter().any(|role| self.of_role(role).is_some())
    }
}
