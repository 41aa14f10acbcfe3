//! `[admin]`

use super::secrets;
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::process as keys;
use crate::{Address, Admin, AdminKeys, AdminTls, Secret, TlsMode, TlsVersion};

pub(super) fn read(reader: &mut Reader, root: &Table, places: &mut Places) -> Option<Admin> {
    let table = reader.table(root, &keys::ADMIN);
    let address = reader.address(&table, &keys::ADDRESS);
    let tls = read_tls(reader, &table);
    if let Some(address) = &address {
        places.admin = Some(table.place(&keys::ADDRESS));
        check_address(reader, &table, address, tls.mode);
    }
    let sql_address = read_sql_address(reader, &table, address.is_some(), tls.mode, places);
    let keys = read_keys(reader, &table);
    address.map(|address| Admin { address, sql_address, keys, tls })
}

fn check_address(reader: &mut Reader, table: &Table, address: &Address, mode: TlsMode) {
    let (place, key) = (table.place(&keys::ADDRESS), table.key(&keys::ADDRESS));
    match address {
        Address::Unix(_) => reader.problem(place, key, "the admin listener is TCP only, as in \"127.0.0.1:9104\""),
        Address::Tcp { .. } if mode == TlsMode::Off && !address.is_loopback() => reader.warn(
            place,
            key,
            "the admin listener is not on a loopback address and speaks plain HTTP: the network can read keys and \
             answers; set admin.tls.cert_file",
        ),
        Address::Tcp { .. } => {}
    }
}

/// The address of the SQL console. Over TCP the network can read the answers of a client that does not ask for TLS.
fn read_sql_address(
    reader: &mut Reader,
    table: &Table,
    has_admin: bool,
    mode: TlsMode,
    places: &mut Places,
) -> Option<Address> {
    let address = reader.address(table, &keys::SQL_ADDRESS)?;
    let (place, key) = (table.place(&keys::SQL_ADDRESS), table.key(&keys::SQL_ADDRESS));
    places.console = Some((place.clone(), key.clone()));
    match &address {
        Address::Unix(_) => reader.problem(place, key, "the SQL console is TCP only, as in \"127.0.0.1:6032\""),
        _ if !has_admin => reader.problem(place, key, "the SQL console belongs to the admin listener: set admin.address"),
        _ if mode != TlsMode::Required && !address.is_loopback() => reader.warn(
            place,
            key,
            "the SQL console is not on a loopback address and does not insist on TLS: the network can read what a client \
             without TLS is answered",
        ),
        _ => {}
    }
    Some(address)
}

fn read_tls(reader: &mut Reader, admin: &Table) -> AdminTls {
    let table = reader.table(admin, &keys::ADMIN_TLS);
    let given = reader.choice(&table, &keys::ADMIN_TLS_MODE, TlsMode::ALL, TlsMode::word);
    secrets::paired(reader, &table, &keys::ADMIN_CERT_FILE, &keys::ADMIN_KEY_FILE);
    let min_version = reader.choice(&table, &keys::ADMIN_TLS_MIN_VERSION, TlsVersion::ALL, TlsVersion::word);
    let cert = secrets::certificate(reader, &table, &keys::ADMIN_CERT_FILE);
    let key = secrets::private_key(reader, &table, &keys::ADMIN_KEY_FILE);
    let mode = given.unwrap_or(if cert.is_some() { TlsMode::Required } else { TlsMode::Off });
    if cert.is_some() && mode == TlsMode::Off {
        let message = "with mode = \"off\" only the SQL console shows this certificate; the admin listener is plain";
        reader.warn(table.place(&keys::ADMIN_CERT_FILE), table.key(&keys::ADMIN_CERT_FILE), message);
    }
    AdminTls { mode, min_version: min_version.unwrap_or(TlsVersion::V12), cert, key }
}

/// The settings of each role's key.
const ROLES: [secrets::PasswordKeys; 3] = [
    [&keys::KEY, &keys::KEY_FILE, &keys::KEY_ENV],
    [&keys::OPERATE_KEY, &keys::OPERATE_KEY_FILE, &keys::OPERATE_KEY_ENV],
    [&keys::VIEW_KEY, &keys::VIEW_KEY_FILE, &keys::VIEW_KEY_ENV],
];

fn read_keys(reader: &mut Reader, table: &Table) -> AdminKeys {
    let [own, operate, view] = ROLES.map(|settings| read_key(reader, table, settings));
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let read = [&own, &operate, &view];
        if read[one].is_some()
            && read[one] == read[other]
            && let Some(setting) = ROLES[other].into_iter().find(|setting| table.has(setting))
        {
            let message = "two roles have the same key; each role needs a key of its own";
            reader.problem(table.place(setting), table.key(setting), message);
        }
    }
    AdminKeys { admin: own, operate, view }
}

fn read_key(reader: &mut Reader, table: &Table, settings: secrets::PasswordKeys) -> Option<Secret> {
    secrets::exclude(reader, table, &settings);
    let key = secrets::password(reader, table, settings)?;
    let [inline, ..] = settings;
    if key.is_empty() && table.has(inline) {
        let message = "an empty key would open the API to everybody";
        reader.problem(table.place(inline), table.key(inline), message);
    }
    Some(key).filter(|key| !key.is_empty())
}
