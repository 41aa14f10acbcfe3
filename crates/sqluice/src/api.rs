//! A client of the running process's API: one request, one answer, everything limited.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest silence; a switchover is waited for up to a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(75);
/// Largest answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The options that every command for a running process has: its file and its address.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// The configuration file of the running process. It has the admin listener's address and key.
    #[arg(long, short, value_name = "FILE", default_value = "sqluice.toml")]
    config: PathBuf,
    /// The address of the API, instead of the file's admin.address.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
}

/// A client with its key.
pub(crate) struct Api {
    address: String,
    key: config::Secret,
    /// The clusters that the file names.
    clusters: Vec<String>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) page: Value,
}

impl Api {
    /// Finds address and key in the configuration.
    ///
    /// # Errors
    /// It has mistakes, or no admin listener with a key.
    pub(crate) fn find(args: &ApiArgs) -> anyhow::Result<Api> {
        let file = args.config.display();
        let loaded = config::load(&args.config).map_err(|errors| anyhow!("{errors}"))?;
        let Some(admin) = loaded.config.admin else {
            bail!("{file} has no [admin] address, so there is nothing to ask");
        };
        let Some(key) = admin.keys.strongest() else {
            bail!("{file} has no admin.key, so the API is closed");
        };
        let address = match (&args.admin, &admin.address) {
            (Some(address), _) => address.clone(),
            (None, config::Address::Tcp { port: 0, .. }) => {
                bail!("admin.address in {file} lets the system choose the port; say with --admin which it is")
            }
            // A listener on all addresses is reached here.
            (None, config::Address::Tcp { host, port }) => match &**host {
                "0.0.0.0" => format!("127.0.0.1:{port}"),
                "::" => format!("[::1]:{port}"),
                _ => admin.address.to_string(),
            },
            (None, config::Address::Unix(path)) => bail!("admin.address is {}, not TCP", path.display()),
        };
        let clusters = loaded.config.clusters.keys().map(|name| name.to_string()).collect();
        Ok(Api { address, key, clusters })
    }

    /// The cluster that is meant: the named one, or the only one.
    ///
    /// # Errors
    /// There are several and none is named.
    pub(crate) fn cluster(&self, named: Option<&str>) -> anyhow::Result<String> {
        match (named, &self.clusters[..]) {
            (Some(name), _) => Ok(name.to_owned()),
            (None, [only]) => Ok(only.clone()),
            (None, several) => bail!("say with --cluster which is meant: {}", several.join(", ")),
        }
    }

    /// Asks for `/api/v1` and this path.
    ///
    /// # Errors
    /// Nobody answers, or not as the API does.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let text = self
            .exchange(method, &format!("/api/v1{path}"), body)
            .with_context(|| format!("cannot ask http://{}", self.address))?;
        let (head, body) = text.split_once("\r\n\r\n").context("the answer has no head")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer has no status")?;
        let page = match serde_json::from_str(body) {
            Ok(page) => page,
            // Refusals ahead of the API are a line of text.
            Err(_) if status >= 400 => bail!("http://{} says {status}: {}", self.address, body.trim()),
            Err(error) => bail!("the answer of http://{} is not JSON: {error}", self.address),
        };
        Ok(Answer { status, page })
    }

    /// The page `/metrics`.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) fn metrics(&self) -> anyhow::Result<String> {
        let text =
            self.exchange("GET", "/metrics", "").with_context(|| format!("cannot ask http://{}", self.address))?;
        let (_, body) = text.split_once("\r\n\r\n").context("the answer has no head")?;
        Ok(body.to_owned())
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let mut last = anyhow!("{} has no address", self.address);
        for address in self.address.to_socket_addrs()? {
            let mut stream = match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error.into();
                    continue;
                }
            };
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            stream.set_write_timeout(Some(CONNECT_LIMIT))?;
            let mut request =
                format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer ", self.address).into_bytes();
            request.extend_from_slice(self.key.expose());
            write!(request, "\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())?;
            let sent = stream.write_all(&request);
            zeroize::Zeroize::zeroize(&mut request);
            sent?;
            let mut answer = Vec::new();
            stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
            return Ok(String::from_utf8(answer)?);
        }
        Err(last)
    }
}

/// One part of a path; names have characters that need no escape, anything else is refused by the API as unknown.
pub(crate) fn part(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let escape = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths_stay_parts() {
        assert_eq!(part("db-1_x"), "db-1_x");
        assert_eq!(part("a/b?c d"), "a%2Fb%3Fc%20d");
    }

    #[test]
    fn the_only_cluster_need_not_be_named() {
        let api = |names: &[&str]| Api {
            address: String::new(),
            key: config::Secret::new("k"),
            clusters: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(api(&["main"]).cluster(None).unwrap(), "main");
        assert_eq!(api(&["main", "b"]).cluster(Some("b")).unwrap(), "b");
        assert!(api(&["main", "b"]).cluster(None).unwrap_err().to_string().contains("main, b"));
    }
}
