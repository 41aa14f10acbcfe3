//! A client of the running process's API: one request, one answer, everything limited.

mod place;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use zeroize::Zeroizing;

use self::place::ApiAddress;
pub(crate) use self::place::scheme;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest silence; a switchover is waited for up to a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(75);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The options that every command for a running process has: its file and its address.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// The configuration file of the running process. It has the admin listener's address and key.
    #[arg(long, short, value_name = "FILE", default_value = "sqluice.toml")]
    config: PathBuf,
    /// The API instead of the file's admin.address: a URL as https://proxy-1:9104, or an address alone.
    #[arg(long, alias = "admin", value_name = "URL")]
    url: Option<String>,
    /// Authorities (PEM) of the API's certificate; without it, those of the system.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A file with the key. With it and a URL, the configuration file is not read.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// A client with its key.
pub(crate) struct Api {
    place: ApiAddress,
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
    /// Finds address and key in the arguments and in the configuration.
    ///
    /// # Errors
    /// It has mistakes, or no admin listener with a key; or the certificate cannot be verified.
    pub(crate) fn find(args: &ApiArgs) -> anyhow::Result<Api> {
        let (place, key, clusters) = place::find(args)?;
        Ok(Api { place, key, clusters })
    }

    /// The cluster that is meant: the named one, or the only one.
    ///
    /// # Errors
    /// There are several and none is named.
    pub(crate) fn cluster(&self, named: Option<&str>) -> anyhow::Result<String> {
        match (named, &self.clusters[..]) {
            (Some(name), _) => Ok(name.to_owned()),
            (None, [only]) => Ok(only.clone()),
            (None, []) => bail!("say with --cluster which is meant"),
            (None, several) => bail!("say with --cluster which is meant: {}", several.join(", ")),
        }
    }

    /// Asks for `/api/v1` and this path.
    ///
    /// # Errors
    /// Nobody answers, or not as the API does.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let text = self.exchange(method, &format!("/api/v1{path}"), body)?;
        let (head, body) = text.split_once("\r\n\r\n").context("the answer has no head")?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer has no status")?;
        let page = match serde_json::from_str(body) {
            Ok(page) => page,
            // Refusals ahead of the API are a line of text.
            Err(_) if status >= 400 => bail!("{} says {status}: {}", self.place, body.trim()),
            Err(error) => bail!("the answer of {} is not JSON: {error}", self.place),
        };
        Ok(Answer { status, page })
    }

    /// The page `/metrics`.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) fn metrics(&self) -> anyhow::Result<String> {
        let text = self.exchange("GET", "/metrics", "")?;
        let (_, body) = text.split_once("\r\n\r\n").context("the answer has no head")?;
        Ok(body.to_owned())
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(self.exchange_now(method, path, body));
        // A name that is being resolved is not waited for.
        runtime.shutdown_background();
        answer.with_context(|| format!("cannot ask {}", self.place))
    }

    async fn exchange_now(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let connected = timeout(CONNECT_LIMIT, net::open(&self.place.address, &self.place.tls)).await;
        let seconds = CONNECT_LIMIT.as_secs();
        let mut stream = connected.with_context(|| format!("no connection within {seconds} s"))??;
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer ", self.place.address);
        let length = body.len();
        let mut request = Zeroizing::new(head.into_bytes());
        request.extend_from_slice(self.key.expose());
        request
            .extend_from_slice(format!("\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").as_bytes());
        let sending = async {
            stream.write_all(&request).await?;
            stream.flush().await
        };
        timeout(CONNECT_LIMIT, sending).await.context("the request is not taken")??;
        let mut answer = Vec::new();
        while answer.len() < ANSWER_BYTES_MAX {
            let read = timeout(ANSWER_LIMIT, stream.read_buf(&mut answer)).await;
            if read.with_context(|| format!("no answer within {} s", ANSWER_LIMIT.as_secs()))?? == 0 {
                break;
            }
        }
        Ok(String::from_utf8(answer)?)
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
            place: ApiAddress {
                address: net::Address::Tcp { host: "h".into(), port: 1 },
                tls: net::tls::ClientTls::disabled(),
            },
            key: config::Secret::new("k"),
            clusters: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(api(&["main"]).cluster(None).unwrap(), "main");
        assert_eq!(api(&["main", "b"]).cluster(Some("b")).unwrap(), "b");
        assert!(api(&["main", "b"]).cluster(None).unwrap_err().to_string().contains("main, b"));
    }
}
