//! `sha256_password` of MySQL: the password itself, as over TLS and local sockets, or encrypted with the server's RSA key,
//! which the client may ask for with [`KEY_REQUEST`]. Unlike `caching_sha2_password` it has no fast path, and servers store
//! [`super::sha_crypt`]. Source: MySQL's manual "SHA-256 Pluggable Authentication" and MariaDB's page "sha256_password
//! Plugin".

/// Client to server: send your RSA key.
pub const KEY_REQUEST: u8 = 0x01;
