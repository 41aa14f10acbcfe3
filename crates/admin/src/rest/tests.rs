//! Every request: its place in the docs, its method, its role.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::*;

/// The status of the reply to a request with this header.
fn status(address: SocketAddr, method: &str, path: &str, header: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} /api/v1{path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{header}");
    write!(stream, "{head}Content-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("content-security-policy: default-src 'none'; "), "{answer}");
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn every_request_asks_for_its_role() {
    let keys = "key = \"a\"\noperate_key = \"o\"\nview_key = \"v\"\n";
    let config = crate::testing::config(&format!("[admin]\naddress = \"127.0.0.1:0\"\n{keys}"));
    let bound = crate::bind(&config::Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap();
    let admin =
        crate::start(bound, &config, crate::AdminTls::default(), crate::testing::sources(Arc::new([]))).unwrap();
    let address = admin.address().unwrap();
    for endpoint in ENDPOINTS {
        let parts = endpoint.path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        let (method, path) = (endpoint.method.to_uppercase(), parts.collect::<Vec<_>>().join("/"));
        let with = |header: &str| status(address, &method, &path, header);
        if endpoint.role == Role::Nobody {
            assert_eq!(with(""), 400, "{path} needs a body, not a key");
            continue;
        }
        assert_eq!(with(""), 401, "{method} {path}");
        assert_eq!(with("Authorization: Bearer x\r\n"), 401, "{method} {path}");
        assert_eq!(with("Authorization: Bearer a\r\nSec-Fetch-Site: cross-site\r\n"), 403, "{method} {path}");
        for (key, role) in [("v", Role::View), ("o", Role::Operate), ("a", Role::Admin)] {
            let is_refused = with(&format!("Authorization: Bearer {key}\r\n")) == 403;
            assert_eq!(is_refused, role < endpoint.role, "{method} {path} as {key}");
        }
    }
    admin.shutdown();
}

/// Programs are made from this document: it changes on purpose only. `UPDATE=1` writes it.
#[test]
fn the_document_is_the_one_in_the_docs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let made = format!("{:#}\n", endpoint::document(ENDPOINTS));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(made == kept, "docs/reference/openapi.json differs: run UPDATE=1 cargo test -p sqluice-admin");
}

#[test]
fn every_request_is_there_once_and_answered_by_its_method() {
    let mut known = std::collections::BTreeSet::new();
    for endpoint in ENDPOINTS {
        assert!(known.insert((endpoint.method, endpoint.path)), "{} {}", endpoint.method, endpoint.path);
        let routes = format!("{:?}", (endpoint.answer)());
        let method = format!("{}: ", endpoint.method);
        let part = routes.split(&method).nth(1).unwrap_or_default();
        assert!(!part.is_empty() && !part.starts_with("None"), "{} {}: {routes}", endpoint.method, endpoint.path);
    }
}
