//! Passwords and PEM files.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::read::{Reader, Table};
use crate::settings::Setting;
use crate::{FileContent, Pem, Secret};

/// The longest password; servers' own limits are lower.
const PASSWORD_MAX: usize = 4096;

/// The keys of a table that can carry a password: itself, a file, a variable of the environment.
pub(super) type PasswordKeys = [&'static Setting; 3];

/// Reports all but the first of the keys that exclude each other.
pub(super) fn exclude(reader: &mut Reader, table: &Table, keys: &[&'static Setting]) {
    let mut present = keys.iter().filter(|key| table.has(key));
    let Some(first) = present.next() else { return };
    for other in present {
        let message = format!("`{}` and `{}` exclude each other", first.key, other.key);
        reader.problem(table.place(other), table.key(other), message);
    }
}

/// The password from whichever key is there.
pub(super) fn password(
    reader: &mut Reader,
    table: &Table,
    [inline_key, file_key, variable_key]: PasswordKeys,
) -> Option<Secret> {
    let inline = reader.secret(table, inline_key).map(|bytes| (inline_key, bytes));
    let file = reader.file(table, file_key).map(|(_, content)| {
        warn_if_open(reader, table, file_key, &content);
        (file_key, without_line_end(&content.bytes).to_vec())
    });
    let variable = reader.variable(table, variable_key).map(|bytes| (variable_key, bytes));
    let (key, bytes) = inline.or(file).or(variable)?;
    let bytes = Zeroizing::new(bytes);
    if bytes.len() > PASSWORD_MAX || bytes.contains(&0) {
        let message = format!("a password has at most {PASSWORD_MAX} bytes and no zero byte");
        reader.problem(table.place(key), table.key(key), message);
    } else if bytes.is_empty() && key.key != inline_key.key {
        reader.problem(table.place(key), table.key(key), "the password there is empty");
    }
    Some(Secret::new(bytes.as_slice()))
}

/// A user and its password, where both may be absent, but no password stands without its user.
pub(super) fn account(
    reader: &mut Reader,
    table: &Table,
    user_key: &'static Setting,
    keys: PasswordKeys,
) -> (Option<Arc<str>>, Option<Secret>) {
    let user = reader.text(table, user_key);
    exclude(reader, table, &keys);
    let password = password(reader, table, keys);
    if user.is_none()
        && let Some(key) = keys.into_iter().find(|key| table.has(key))
    {
        let message = format!("`{}` needs `{}` beside it", key.key, user_key.key);
        reader.problem(table.place(key), table.key(key), message);
    }
    (user, password)
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Warns when others than owner and group can read a secret's file.
fn warn_if_open(reader: &mut Reader, table: &Table, setting: &'static Setting, content: &FileContent) {
    if let Some(mode) = content.mode
        && mode & 0o007 != 0
    {
        let message = format!("everybody can read that file (mode {:04o}); chmod 600 it", mode & 0o7777);
        reader.warn(table.place(setting), table.key(setting), message);
    }
}

/// A certificate file; a text that holds none is a mistake.
pub(super) fn certificate(reader: &mut Reader, table: &Table, setting: &'static Setting) -> Option<Pem> {
    let (path, content) = reader.file(table, setting)?;
    if !holds(&content.bytes, b"-----BEGIN CERTIFICATE-----") {
        reader.problem(table.place(setting), table.key(setting), "the file holds no PEM certificate");
    }
    Some(Pem { path, text: content.bytes.as_slice().into() })
}

/// A private key's file; a text that holds none is a mistake.
pub(super) fn private_key(reader: &mut Reader, table: &Table, setting: &'static Setting) -> Option<Secret> {
    let (_, content) = reader.file(table, setting)?;
    warn_if_open(reader, table, setting, &content);
    if !holds(&content.bytes, b"PRIVATE KEY-----") {
        reader.problem(table.place(setting), table.key(setting), "the file holds no PEM private key");
    }
    Some(Secret::new(content.bytes.as_slice()))
}

/// Reports a certificate without key or the other way around.
pub(super) fn paired(reader: &mut Reader, table: &Table, cert: &'static Setting, key: &'static Setting) {
    for (present, absent) in [(cert, key), (key, cert)] {
        if table.has(present) && !table.has(absent) {
            let message = format!("`{}` needs `{}` beside it", present.key, absent.key);
            reader.problem(table.place(present), table.key(present), message);
        }
    }
}

fn holds(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|window| window == mark)
}
