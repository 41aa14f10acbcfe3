//! A client of HTTP that asks once on each connection: all that PHP's own server and the API need.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Longest that a page may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Larger pages are none of ours.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// The blog's name in requests and links, whoever serves it.
const HOST: &str = "blog.test";

/// Cookies by their names.
pub(crate) type Cookies = BTreeMap<String, String>;

/// The page that is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask<'a> {
    /// Path and query.
    pub(crate) path: &'a str,
    /// Fields of a form, which is posted; without any the page is read.
    pub(crate) form: &'a [(&'a str, &'a str)],
    /// A method besides GET and POST.
    pub(crate) method: Option<&'a str>,
    /// More headers.
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

impl<'a> Ask<'a> {
    /// To read a page.
    pub(crate) fn page(path: &'a str) -> Ask<'a> {
        Ask { path, ..Ask::default() }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// 200 and the like.
    pub(crate) status: u16,
    /// Headers with their names in lower case; those that come several times, such as cookies, several times.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

/// Asks, sends the cookies along, and takes new ones into them.
///
/// # Errors
/// Nobody answers in time, or it is no answer.
pub(crate) fn ask(address: SocketAddr, ask: &Ask<'_>, cookies: &mut Cookies) -> anyhow::Result<Page> {
    let mut socket = TcpStream::connect_timeout(&address, LIMIT)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    socket.write_all(request(ask, cookies).as_bytes())?;
    let mut bytes = Vec::with_capacity(64 * 1024);
    socket.take(PAGE_BYTES_MAX).read_to_end(&mut bytes).context("the page broke off")?;
    let page = answer(&bytes).with_context(|| format!("no answer to {}", ask.path))?;
    for (_, value) in page.headers.iter().filter(|(name, _)| name == "set-cookie") {
        let pair = value.split(';').next().unwrap_or_default();
        if let Some((name, value)) = pair.split_once('=') {
            cookies.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    Ok(page)
}

fn request(ask: &Ask<'_>, cookies: &Cookies) -> String {
    let pairs: Vec<String> = ask.form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let body = pairs.join("&");
    let method = ask.method.unwrap_or(if ask.form.is_empty() { "GET" } else { "POST" });
    let mut text = format!("{method} {} HTTP/1.0\r\nHost: {HOST}\r\nUser-Agent: bench\r\n", ask.path);
    for (name, value) in ask.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !cookies.is_empty() {
        let cookies: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        text.push_str(&format!("Cookie: {}\r\n", cookies.join("; ")));
    }
    if !body.is_empty() {
        let length = body.len();
        text.push_str(&format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"));
    }
    text + "\r\n" + &body
}

/// As forms have it.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn answer(bytes: &[u8]) -> anyhow::Result<Page> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").context("its head has no end")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).context("it has no status")?;
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let body = bytes.get(end + 4..).unwrap_or_default();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    if length.is_some_and(|length: usize| length > body.len()) {
        bail!("it broke off");
    }
    Ok(Page { status, headers, body: String::from_utf8_lossy(body).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_cookies_are_written() {
        let cookies = Cookies::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let ask = Ask { path: "/x", form: &[("text", "ä & b"), ("n", "1")], ..Ask::default() };
        let text = request(&ask, &cookies);
        assert!(text.starts_with("POST /x HTTP/1.0\r\nHost: blog.test\r\n"), "{text}");
        assert!(text.contains("Cookie: a=1; b=2\r\n") && text.contains("Content-Length: 21\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\ntext=%C3%A4+%26+b&n=1"), "{text}");
        assert!(request(&Ask::page("/"), &Cookies::new()).ends_with("User-Agent: bench\r\n\r\n"));
    }

    #[test]
    fn answers_are_read() {
        let page = answer(b"HTTP/1.0 302 Found\r\nLocation: /y\r\nSet-Cookie: a=1; path=/\r\n\r\nbody").unwrap();
        assert_eq!((page.status, &*page.headers[0].1, &*page.body), (302, "/y", "body"));
        for bad in ["", "HTTP/1.0 200 OK\r\n", "nothing\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nfour"] {
            assert!(answer(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
