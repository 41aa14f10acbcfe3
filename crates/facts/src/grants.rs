//! Privileges of users to read, as far as they are known for sure: the result cache shares cached results by them.
//!
//! A user's rights are taken together by its **name**: which of several accounts of a name a server chooses depends on the
//! address that it sees, so something counts as readable only if each account of the name may read it, and the anonymous
//! accounts, too, which can hide a named one. Default roles count with all that was granted to them; SET ROLE keeps a session on its
//! connection, and such a session asks no cache. Privileges on columns, and privileges that this module does not read, are not known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::accounts::like_by;

/// Privileges on `*.*` by which an account may kill the connections of others, and goes without `init_connect`.
const ADMIN_PRIVILEGES: [&str; 4] = ["ALL PRIVILEGES", "SUPER", "CONNECTION ADMIN", "CONNECTION_ADMIN"];

/// Stands for the same rights in every process: a SHA-256 of them.
pub type Fingerprint = [u8; 32];

/// Roles that are looked at for one account.
const ROLES_MAX: usize = 256;

/// An account or a role, by user and host; in MariaDB a role's host is empty.
pub type Name = (String, String);

/// The grants that a server reported.
#[derive(Clone, Debug, Default)]
pub struct GrantRows {
    /// Accounts, and roles; MySQL does not tell them apart.
    pub accounts: Vec<AccountRow>,
    /// `mysql.db`: whose, the schema's pattern, and whether SELECT is among the rights.
    pub schemas: Vec<(Name, String, bool)>,
    /// `mysql.tables_priv`: whose, schema and table, and whether SELECT is among the rights.
    pub tables: Vec<(Name, String, String, bool)>,
    /// Which role (second) is granted to whom (first).
    pub roles: Vec<(Name, Name)>,
    /// Default roles: the user first, the role second.
    pub defaults: Vec<(Name, Name)>,
    /// Users who may become others when they log in (`PROXY`).
    pub proxies: BTreeSet<String>,
    /// All granted roles are active (`activate_all_roles_on_login`).
    pub all_roles: bool,
    /// `%` and `_` stand for themselves in names of schemas (`partial_revokes`).
    pub literal_patterns: bool,
}

/// Rights on everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountRow {
    /// Its name.
    pub name: Name,
    /// It can only be granted, and cannot log in.
    pub is_role: bool,
    /// It has SELECT on everything, without exceptions.
    pub reads: bool,
    /// Other privileges that may change answers, such as going without `init_connect`.
    pub more: String,
}

/// The data that one account may read; ordered so that equal rights are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rights {
    everything: bool,
    more: BTreeSet<String>,
    /// A schema's pattern, and whether it may be read or it is not sure that it may.
    schemas: BTreeSet<(String, bool)>,
    tables: BTreeMap<(String, String), bool>,
    literal_patterns: bool,
}

/// The rights of one user, and what they are in short.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    /// Of each of its accounts, and of its roles; each role alone.
    accounts: BTreeSet<Vec<Rights>>,
    fingerprint: Fingerprint,
}

/// A snapshot of what users may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    users: HashMap<String, User>,
}

/// The snapshot as both planes share it.
pub type PublishedGrants = crate::believed::Believed<Grants>;

impl Grants {
    /// The snapshot that these rows make.
    pub fn new(rows: &GrantRows) -> Grants {
        let builder = Builder::new(rows);
        let logins = || rows.accounts.iter().filter(|account| !account.is_role);
        let names: BTreeSet<&str> = logins().map(|account| &*account.name.0).collect();
        if rows.proxies.contains("") {
            return Grants::default();
        }
        let anonymous: Vec<&AccountRow> = logins().filter(|account| account.name.0.is_empty()).collect();
        let mut by_name: HashMap<&str, Vec<&AccountRow>> = HashMap::new();
        for account in logins() {
            by_name.entry(&account.name.0).or_default().push(account);
        }
        let mut users = HashMap::new();
        for name in names.into_iter().filter(|name| !name.is_empty() && !rows.proxies.contains(*name)) {
            let own = by_name.get(name).into_iter().flatten().chain(&anonymous);
            let accounts: BTreeSet<Vec<Rights>> = own.map(|account| builder.of_account(account)).collect();
            let fingerprint = fingerprint(&accounts);
            users.insert(name.to_owned(), User { accounts, fingerprint });
        }
        Grants { users }
    }

    /// Whether anybody's rights are known.
    pub fn is_known(&self) -> bool {
        !self.users.is_empty()
    }

    /// Stands for what this user may read; users with the same one may read the same. `None` if it is not known.
    pub fn fingerprint(&self, user: &str) -> Option<&Fingerprint> {
        self.users.get(user).map(|user| &user.fingerprint)
    }

    /// Whether it is sure that this user may read everything.
    pub fn reads_everything(&self, user: &str) -> bool {
        self.surely(user, |rights| rights.everything)
    }

    /// Whether it is sure that this user may read this table with all its columns.
    pub fn reads(&self, user: &str, schema: &str, table: &str) -> bool {
        self.surely(user, |rights| rights.reads(schema, table))
    }

    fn surely(&self, user: &str, may: impl Fn(&Rights) -> bool) -> bool {
        self.users.get(user).is_some_and(|user| user.accounts.iter().all(|account| account.iter().any(&may)))
    }
}

impl Rights {
    fn reads(&self, schema: &str, table: &str) -> bool {
        let exact = |a: u8, b: u8| a == b;
        let (mut granted, mut unsure) = (self.everything, false);
        for (pattern, reads) in &self.schemas {
            let (pattern, schema) = (pattern.as_bytes(), schema.as_bytes());
            if *reads {
                granted |= if self.literal_patterns { pattern == schema } else { like_by(pattern, schema, exact) };
            } else {
                // The most specific pattern counts alone, and it may be this one.
                unsure |=
                    pattern.eq_ignore_ascii_case(schema) || like_by(pattern, schema, |a, b| a.eq_ignore_ascii_case(&b));
            }
        }
        self.everything
            || granted && !unsure
            || self.tables.get(&(schema.to_owned(), table.to_owned())).copied().unwrap_or(false)
    }
}

struct Builder<'a> {
    rows: &'a GrantRows,
    schemas: HashMap<&'a str, Vec<&'a (Name, String, bool)>>,
    tables: HashMap<&'a str, Vec<&'a (Name, String, String, bool)>>,
    accounts: HashMap<&'a Name, &'a AccountRow>,
    roles: HashMap<&'a Name, Vec<&'a Name>>,
    defaults: HashMap<&'a Name, Vec<&'a Name>>,
}

impl<'a> Builder<'a> {
    fn new(rows: &'a GrantRows) -> Builder<'a> {
        let mut builder = Builder {
            rows,
            schemas: HashMap::new(),
            tables: HashMap::new(),
            accounts: rows.accounts.iter().map(|account| (&account.name, account)).collect(),
            roles: HashMap::new(),
            defaults: HashMap::new(),
        };
        for row in &rows.schemas {
            builder.schemas.entry(&row.0.0).or_default().push(row);
        }
        for row in &rows.tables {
            builder.tables.entry(&row.0.0).or_default().push(row);
        }
        for (to, role) in &rows.roles {
            builder.roles.entry(to).or_default().push(role);
        }
        for (to, role) in &rows.defaults {
            builder.defaults.entry(to).or_default().push(role);
        }
        builder
    }

    /// An account's own rights and those of each role that it has by default.
    fn of_account(&self, account: &'a AccountRow) -> Vec<Rights> {
        let granted = self.roles.get(&account.name).map(Vec::as_slice).unwrap_or_default();
        let is_default = |role: &&&Name| {
            self.rows.all_roles || self.defaults.get(&account.name).is_some_and(|defaults| defaults.contains(*role))
        };
        let mut active: Vec<&Name> = granted.iter().filter(is_default).copied().collect();
        let mut next = 0;
        while let Some(role) = active.get(next).copied().filter(|_| active.len() < ROLES_MAX) {
            for inner in self.roles.get(role).into_iter().flatten() {
                if !active.contains(inner) {
                    active.push(inner);
                }
            }
            next += 1;
        }
        let roles: BTreeSet<Rights> = active.into_iter().map(|role| self.own(role)).collect();
        [self.own(&account.name)].into_iter().chain(roles).collect()
    }

    /// The privileges that were granted to an account or a role by its own name.
    fn own(&self, name: &Name) -> Rights {
        let mut rights = Rights { literal_patterns: self.rows.literal_patterns, ..Rights::default() };
        if let Some(account) = self.accounts.get(name) {
            rights.everything = account.reads;
            rights.more.insert(account.more.clone());
        }
        // The servers look for rights by the client's address: what was granted to another account of the name, or to
        // anybody, may take the place of what this one has.
        for user in [&*name.0, ""] {
            for (of, pattern, reads) in self.schemas.get(user).into_iter().flatten() {
                if of == name || !reads {
                    rights.schemas.insert((pattern.clone(), *reads));
                }
            }
            for (of, schema, table, reads) in self.tables.get(user).into_iter().flatten() {
                if of == name || !reads {
                    let known = rights.tables.entry((schema.clone(), table.clone())).or_insert(*reads);
                    *known &= reads;
                }
            }
        }
        rights
    }
}

/// Whether a line of SHOW GRANTS makes its account an administrator of connections.
pub fn is_admin_grant(grant: &str) -> bool {
    let Some((privileges, _)) = grant.strip_prefix("GRANT ").and_then(|grant| grant.split_once(" ON *.* TO ")) else {
        return false;
    };
    privileges.split(',').any(|privilege| ADMIN_PRIVILEGES.contains(&privilege.trim()))
}

/// The same bytes for the same privileges of any user.
fn fingerprint(accounts: &BTreeSet<Vec<Rights>>) -> Fingerprint {
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    };
    let count = |bytes: &mut Vec<u8>, count: usize| bytes.extend_from_slice(&(count as u64).to_le_bytes());
    count(&mut bytes, accounts.len());
    for account in accounts {
        count(&mut bytes, account.len());
        for rights in account {
            bytes.extend_from_slice(&[u8::from(rights.everything), u8::from(rights.literal_patterns)]);
            count(&mut bytes, rights.more.len());
            rights.more.iter().for_each(|more| put(&mut bytes, more));
            count(&mut bytes, rights.schemas.len());
            for (pattern, reads) in &rights.schemas {
                put(&mut bytes, pattern);
                bytes.push(u8::from(*reads));
            }
            count(&mut bytes, rights.tables.len());
            for ((schema, table), reads) in &rights.tables {
                put(&mut bytes, schema);
                put(&mut bytes, table);
                bytes.push(u8::from(*reads));
            }
        }
    }
    wire::auth::fingerprint(&bytes)
}

#[cfg(test)]
mod tests;
