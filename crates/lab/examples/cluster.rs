//! A primary and two replicas with TLS for programs that are not Rust: `cargo run -p sqluice-lab --example cluster`.
//!
//! Arguments: `mariadb` or `mysql`, then an SQL file that root runs on the primary, then lines for the servers'
//! configuration. One line of JSON on standard output says where everything is. The servers end with standard input.

use std::error::Error;
use std::io::Read;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sqluice_lab::{
    APP_DATABASE, APP_PASSWORD, APP_USER, Family, MONITOR_PASSWORD, MONITOR_USER, Replication, ReplicationOptions,
    TlsFiles,
};

const REPLICAS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let family = match arguments.next().as_deref() {
        Some("mariadb") => Family::MariaDb,
        Some("mysql") => Family::MySql,
        _ => return Err("arguments: mariadb|mysql INIT.sql [CONFIGURATION LINE]...".into()),
    };
    let init_sql = arguments.next().map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let folder = tempfile::Builder::new().prefix("sqluice-").tempdir()?;
    let tls = certificates(folder.path())?;
    let options = ReplicationOptions {
        tls: Some(tls.clone()),
        config: arguments.collect(),
        init_sql,
        ..ReplicationOptions::new(family, REPLICAS)
    };
    let cluster = Replication::start(options)?;
    let servers: Vec<String> = cluster
        .servers()
        .iter()
        .map(|server| {
            format!("{{\"address\": \"{}\", \"folder\": \"{}\"}}", server.address(), server.folder().display())
        })
        .collect();
    println!(
        "{{\"servers\": [{}], \"user\": \"{APP_USER}\", \"password\": \"{APP_PASSWORD}\", \
         \"database\": \"{APP_DATABASE}\", \"monitor_user\": \"{MONITOR_USER}\", \
         \"monitor_password\": \"{MONITOR_PASSWORD}\", \"ca\": \"{}\", \"certificate\": \"{}\", \"key\": \"{}\"}}",
        servers.join(", "),
        tls.authority.display(),
        tls.certificate.display(),
        tls.key.display()
    );
    // The runner holds the other end: it ends however that one ends.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// An authority and a certificate for 127.0.0.1 and localhost, which the servers and Sqluice share.
fn certificates(folder: &Path) -> Result<TlsFiles, Box<dyn Error>> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, "conform authority");
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    parameters.distinguished_name.push(DnType::CommonName, "127.0.0.1");
    let certificate = parameters.signed_by(&key, &issuer)?;
    let files = TlsFiles {
        authority: folder.join("ca.pem"),
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
    };
    std::fs::write(&files.authority, issuer.pem())?;
    std::fs::write(&files.certificate, certificate.pem())?;
    std::fs::write(&files.key, key.serialize_pem())?;
    Ok(files)
}
