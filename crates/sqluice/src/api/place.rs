//! The address of the API, its TLS, and the key: from the arguments, and from the configuration file.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use config::{Config, Secret, ServerTlsMode, TlsMode};
use net::Address;
use net::tls::{ClientTls, ClientTlsOptions, Pem};

use super::ApiArgs;

/// The address of the API, and how it is spoken to.
pub(super) struct ApiAddress {
    pub(super) address: Address,
    pub(super) tls: ClientTls,
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_wanted() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.address)
    }
}

/// The scheme of the admin listener's URL.
pub(crate) fn scheme(mode: TlsMode) -> &'static str {
    match mode {
        TlsMode::Off => "http",
        TlsMode::Optional | TlsMode::Required => "https",
    }
}

/// The place of the API, the key, and the names of the clusters, as far as the file is read.
pub(super) fn find(args: &ApiArgs) -> anyhow::Result<(ApiAddress, Secret, Vec<String>)> {
    let key = args.key_file.as_deref().map(read_key).transpose()?;
    if let (Some(key), Some(url)) = (&key, args.url.as_deref().filter(|url| url.contains("://"))) {
        return Ok((of_url(url, args.ca.as_deref())?, key.clone(), Vec::new()));
    }
    let file = args.config.display();
    let loaded = config::load(&args.config).map_err(|errors| anyhow!("{errors}"))?;
    let Some(admin) = &loaded.config.admin else {
        bail!("{file} has no [admin] address, so there is nothing to ask");
    };
    let Some(key) = key.or_else(|| admin.keys.strongest()) else {
        bail!("{file} has no admin.key, so the API is closed");
    };
    let place = match &args.url {
        Some(url) if url.contains("://") => of_url(url, args.ca.as_deref())?,
        Some(address) => {
            let address: Address = address.parse()?;
            ApiAddress { tls: of_file(&loaded.config, &address, args.ca.as_deref())?, address }
        }
        None => {
            let address = address_of_file(&admin.address, &file.to_string())?;
            ApiAddress { tls: of_file(&loaded.config, &address, args.ca.as_deref())?, address }
        }
    };
    let clusters = loaded.config.clusters.keys().map(|name| name.to_string()).collect();
    Ok((place, key, clusters))
}

fn address_of_file(address: &config::Address, file: &str) -> anyhow::Result<Address> {
    let (host, port) = match address {
        config::Address::Tcp { port: 0, .. } => {
            bail!("admin.address in {file} lets the system choose the port; say with --url which it is")
        }
        config::Address::Tcp { host, port } => (&**host, *port),
        config::Address::Unix(path) => bail!("admin.address is {}, not TCP", path.display()),
    };
    // A listener on all addresses is reached here.
    let host = match host {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// The place of a URL. Its certificate is verified.
fn of_url(url: &str, ca: Option<&Path>) -> anyhow::Result<ApiAddress> {
    let form = || format!("{url} is no URL of the API, which is as https://proxy-1:9104");
    let (scheme, rest) = url.split_once("://").with_context(form)?;
    let address = rest.strip_suffix('/').unwrap_or(rest);
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port || address.contains('/') {
        bail!(form());
    }
    let address: Address = address.parse().with_context(form)?;
    match (scheme, ca) {
        ("http", None) => Ok(ApiAddress { address, tls: ClientTls::disabled() }),
        ("http", Some(_)) => bail!("--ca is for https, and {url} is http"),
        ("https", ca) => Ok(ApiAddress { address, tls: verified(ca)? }),
        _ => bail!(form()),
    }
}

/// The TLS of the process that has this file. Its certificate is known from the file.
fn of_file(config: &Config, address: &Address, ca: Option<&Path>) -> anyhow::Result<ClientTls> {
    let tls = config.admin.as_ref().map(|admin| admin.tls.clone()).unwrap_or_default();
    let host = match address {
        Address::Tcp { host, .. } => host.as_str(),
        Address::Unix(_) => "",
    };
    let is_near = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    match (tls.mode, ca, &tls.cert) {
        (TlsMode::Off, None, _) => Ok(ClientTls::disabled()),
        (TlsMode::Off, Some(_), _) => bail!("--ca is for https, and the file's admin listener is http"),
        (_, Some(ca), _) => verified(Some(ca)),
        (_, None, Some(cert)) => ClientTls::pinned(&Pem::of(cert)).context("admin.tls.cert_file"),
        // Nobody signed it; on this machine that is as good as no TLS.
        (_, None, None) if is_near => {
            Ok(ClientTls::new(&ClientTlsOptions { mode: ServerTlsMode::Required, ..ClientTlsOptions::default() })?)
        }
        (_, None, None) => bail!(
            "{address} shows a certificate that Sqluice makes at start, which proves nothing over a network: set \
             admin.tls.cert_file, or ask on the machine itself"
        ),
    }
}

fn verified(ca: Option<&Path>) -> anyhow::Result<ClientTls> {
    let ca_file = ca.map(Pem::from);
    let options = ClientTlsOptions { mode: ServerTlsMode::VerifyIdentity, ca_file, ..ClientTlsOptions::default() };
    ClientTls::new(&options).context("--ca")
}

fn read_key(path: &Path) -> anyhow::Result<Secret> {
    let text = zeroize::Zeroizing::new(
        std::fs::read(path).with_context(|| format!("cannot read --key-file {}", path.display()))?,
    );
    let key = text.strip_suffix(b"\n").unwrap_or(&text);
    let key = key.strip_suffix(b"\r").unwrap_or(key);
    if key.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_or_refused() {
        let shown = |url: &str| of_url(url, None).map(|place| place.to_string()).map_err(|error| format!("{error:#}"));
        assert_eq!(shown("http://proxy-1:9104").unwrap(), "http://proxy-1:9104");
        assert_eq!(shown("http://[::1]:9104/").unwrap(), "http://[::1]:9104");
        for wrong in ["ftp://a:1", "http://a", "http://a:1/x", "http://:1", "http://a:b"] {
            let words = shown(wrong).unwrap_err();
            assert!(words.contains(wrong) && words.contains("https://proxy-1:9104"), "{words}");
        }
        let words = of_url("http://a:1", Some(Path::new("ca.pem"))).err().unwrap().to_string();
        assert!(words.contains("--ca is for https"), "{words}");
    }

    #[test]
    fn a_certificate_that_nobody_signed_is_taken_on_the_machine_itself_only() {
        let text = "[cluster.main]\nkind = \"standalone\"\nmonitor = { user = \"m\", password = \"p\" }\n\
                    servers.a = { address = \"h:1\" }\n[listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n\
                    [admin]\naddress = \"0.0.0.0:9104\"\ntls.mode = \"required\"\n";
        let config = config::parse("x.toml", text, &config::MemorySource::default()).unwrap().config;
        let near = address_of_file(&config.admin.as_ref().unwrap().address, "x.toml").unwrap();
        assert_eq!(near.to_string(), "127.0.0.1:9104");
        assert!(of_file(&config, &near, None).unwrap().is_wanted());
        let far: Address = "10.0.0.7:9104".parse().unwrap();
        let words = of_file(&config, &far, None).unwrap_err().to_string();
        assert!(words.contains("admin.tls.cert_file"), "{words}");
    }
}
