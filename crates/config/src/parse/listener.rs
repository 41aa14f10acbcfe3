//! `[listener.NAME]`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{name_good, or_empty, secrets};
use crate::checks::Places;
use crate::read::{Reader, Table};
use crate::settings::{listener as keys, replay};
use crate::{
    ClientCert, ClientCompression, Consistency, Listener, ListenerTls, Pipelines, ProxyIn, Replay, ReplayMode, Split,
    TlsMode, TlsVersion,
};

pub(super) fn read_all(reader: &mut Reader, root: &Table, places: &mut Places) -> BTreeMap<Arc<str>, Listener> {
    let mut listeners = BTreeMap::new();
    for (name, table) in reader.named(root, &keys::LISTENER, name_good) {
        let address = reader.address(&table, &keys::ADDRESS);
        let listener = Listener {
            address: address.clone().unwrap_or(crate::Address::Tcp { host: "".into(), port: 0 }),
            cluster: or_empty(reader.text(&table, &keys::CLUSTER)),
            split: reader.choice(&table, &keys::SPLIT, Split::ALL, Split::word).unwrap_or(Split::Auto),
            consistency: reader
                .choice(&table, &keys::CONSISTENCY, Consistency::ALL, Consistency::word)
                .unwrap_or(Consistency::Session),
            pipelines: reader
                .choice(&table, &keys::PIPELINES, Pipelines::ALL, Pipelines::word)
                .unwrap_or(Pipelines::On),
            consistency_wait: reader.duration(&table, &keys::CONSISTENCY_WAIT),
            consistency_window: Some(reader.duration(&table, &keys::CONSISTENCY_WINDOW)).filter(|time| !time.is_zero()),
            max_sessions: reader.number(&table, &keys::MAX_SESSIONS),
            max_sessions_per_user: reader.number(&table, &keys::MAX_SESSIONS_PER_USER),
            max_sessions_per_address: reader.number(&table, &keys::MAX_SESSIONS_PER_ADDRESS),
            max_logins_per_address: reader.number(&table, &keys::MAX_LOGINS_PER_ADDRESS),
            login_delay_after: reader.number(&table, &keys::LOGIN_DELAY_AFTER),
            login_delay_max: reader.duration(&table, &keys::LOGIN_DELAY_MAX),
            addresses_exempt: reader.networks(&table, &keys::ADDRESSES_EXEMPT),
            prepared_memory_max: reader.size(&table, &keys::PREPARED_MEMORY_MAX),
            login_timeout: reader.duration(&table, &keys::LOGIN_TIMEOUT),
            idle_timeout: reader.duration(&table, &keys::IDLE_TIMEOUT),
            hold: reader.duration(&table, &keys::HOLD),
            replay: read_replay(reader, &table),
            max_packet: reader.size(&table, &keys::MAX_PACKET),
            local_infile: reader.flag(&table, &keys::LOCAL_INFILE),
            server_version: reader.text(&table, &keys::SERVER_VERSION),
            compression: reader
                .choice(&table, &keys::COMPRESSION, ClientCompression::ALL, ClientCompression::word)
                .unwrap_or(ClientCompression::All),
            proxy_protocol: reader
                .choice(&table, &keys::PROXY_PROTOCOL, ProxyIn::ALL, ProxyIn::word)
                .unwrap_or(ProxyIn::Off),
            proxy_protocol_from: reader.networks(&table, &keys::PROXY_PROTOCOL_FROM),
            keepalive: reader.duration(&table, &keys::KEEPALIVE),
            user_timeout: reader.duration(&table, &keys::USER_TIMEOUT),
            backlog: reader.number(&table, &keys::BACKLOG),
            socket_mode: read_socket_mode(reader, &table),
            tls: read_tls(reader, &table),
        };
        check_proxy_protocol(reader, &table, &listener);
        if address.is_some() {
            let place = (table.place(&keys::ADDRESS), table.key(&keys::ADDRESS));
            places.listeners.insert(name.clone(), place);
        }
        if !listener.cluster.is_empty() {
            places.clusters_used.push((
                listener.cluster.clone(),
                table.place(&keys::CLUSTER),
                table.key(&keys::CLUSTER),
            ));
        }
        listeners.insert(name, listener);
    }
    listeners
}

fn read_replay(reader: &mut Reader, table: &Table) -> Replay {
    Replay {
        mode: reader.choice(table, &replay::MODE, ReplayMode::ALL, ReplayMode::word).unwrap_or(ReplayMode::On),
        bytes_max: reader.size(table, &replay::BYTES_MAX),
        statements_max: reader.number(table, &replay::STATEMENTS_MAX),
        attempts_max: reader.number(table, &replay::ATTEMPTS_MAX),
        time: Some(reader.duration(table, &replay::TIME)).filter(|time| !time.is_zero()),
    }
}

fn read_socket_mode(reader: &mut Reader, table: &Table) -> u32 {
    let text = or_empty(reader.text(table, &keys::SOCKET_MODE));
    let octal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    match u32::from_str_radix(&text, 8).ok().filter(|mode| octal && *mode <= 0o777) {
        Some(mode) => mode,
        None => {
            let message = "permissions are octal digits up to 0777, as in \"0770\"";
            reader.problem(table.place(&keys::SOCKET_MODE), table.key(&keys::SOCKET_MODE), message);
            0
        }
    }
}

fn check_proxy_protocol(reader: &mut Reader, table: &Table, listener: &Listener) {
    let (mode, from) = (&keys::PROXY_PROTOCOL, &keys::PROXY_PROTOCOL_FROM);
    if listener.proxy_protocol == ProxyIn::Off {
        if table.has(from) {
            let message = "with proxy_protocol = \"off\" no header is taken, so this list has no effect";
            reader.warn(table.place(from), table.key(from), message);
        }
    } else if matches!(listener.address, crate::Address::Unix(_)) {
        let message = "a Unix socket shows no address of a proxy in front of it";
        reader.problem(table.place(mode), table.key(mode), message);
    } else if !table.has(from) {
        let message = "`proxy_protocol_from` must name the proxies in front: whoever it names may claim any address";
        reader.problem(table.place(mode), table.key(mode), message);
    }
}

fn read_tls(reader: &mut Reader, parent: &Table) -> ListenerTls {
    let table = reader.table(parent, &keys::TLS);
    let mode = reader.choice(&table, &keys::TLS_MODE, TlsMode::ALL, TlsMode::word).unwrap_or(TlsMode::Optional);
    secrets::paired(reader, &table, &keys::CERT_FILE, &keys::KEY_FILE);
    let tls = ListenerTls {
        mode,
        min_version: reader
            .choice(&table, &keys::TLS_MIN_VERSION, TlsVersion::ALL, TlsVersion::word)
            .unwrap_or(TlsVersion::V12),
        cert: secrets::certificate(reader, &table, &keys::CERT_FILE),
        key: secrets::private_key(reader, &table, &keys::KEY_FILE),
        client_ca: secrets::certificate(reader, &table, &keys::CLIENT_CA_FILE),
        client_cert: reader
            .choice(&table, &keys::CLIENT_CERT, ClientCert::ALL, ClientCert::word)
            .unwrap_or(ClientCert::Optional),
    };
    if tls.client_cert == ClientCert::Required && !table.has(&keys::CLIENT_CA_FILE) {
        let message = "a certificate can be demanded only with `client_ca_file`, which names its authority";
        reader.problem(table.place(&keys::CLIENT_CERT), table.key(&keys::CLIENT_CERT), message);
    }
    if tls.cert.is_some() && mode == TlsMode::Off {
        let message = "with mode = \"off\" no certificate is shown, so this file has no effect";
        reader.warn(table.place(&keys::CERT_FILE), table.key(&keys::CERT_FILE), message);
    }
    tls
}
