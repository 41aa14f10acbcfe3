//! PROXY headers: any first bytes have an answer, and no byte of what follows a header is asked for.

use wire::proxy_header::{Front, HEADER_BYTES_MAX, HeaderContent, Version, read, write};

/// See the module.
pub fn run(data: &[u8]) {
    match read(data) {
        Ok(Front::Needs(n)) => assert!(n > data.len() && n <= HEADER_BYTES_MAX),
        Ok(Front::Other) | Err(_) => {}
        Ok(Front::Header { content, taken }) => {
            assert!(taken <= data.len() && taken <= HEADER_BYTES_MAX);
            for cut in 0..taken {
                match read(&data[..cut]) {
                    Ok(Front::Needs(n)) => assert!(n > cut && n <= taken, "asks for {n} with {cut} of {taken} there"),
                    other => panic!("{other:?} for {cut} bytes of a header of {taken}"),
                }
            }
            for version in [Version::V1, Version::V2] {
                round_trip(version, content);
            }
        }
    }
}

fn round_trip(version: Version, content: HeaderContent) {
    let mut out = Vec::new();
    write(version, content, &mut out);
    let taken = out.len();
    out.push(b'x');
    assert_eq!(read(&out), Ok(Front::Header { content, taken }));
}
