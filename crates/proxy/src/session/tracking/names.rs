//! The list of variables whose changes a client wants to hear of.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A list as the client gave it, and its names: servers report several variables with one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    text: String,
    /// Lower or upper case, as they were given.
    names: Arc<[Box<[u8]>]>,
    all: bool,
}

impl Names {
    /// Comma-separated names; `*` is all variables.
    pub fn new(text: String) -> Names {
        let names: Arc<[Box<[u8]>]> = text.split(',').map(|name| name.trim().as_bytes().into()).collect();
        let all = names.iter().any(|name| **name == *b"*");
        Names { text, names, all }
    }

    /// Whether a change of this variable is to be reported; that of `*` is one of all.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.all || self.names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    }

    /// The list as a server shows it: MariaDB sorts it, and names each variable once.
    pub fn as_shown(&self, mariadb: bool) -> Cow<'_, str> {
        if !mariadb || !self.text.contains(',') {
            return Cow::Borrowed(&self.text);
        }
        let names: BTreeSet<_> = self.text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        Cow::Owned(names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(","))
    }
}
