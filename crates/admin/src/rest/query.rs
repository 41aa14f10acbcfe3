//! The part of an address behind `?`.

/// Its keys and values, with `%20` and the like undone.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (plain(key), plain(value))
    })
}

fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_nothing_else_is_touched() {
        let read: Vec<_> = pairs("a=x%20y&&b&c=%&d=%zz=%c3%A4").collect();
        let expected = [("a", "x y"), ("b", ""), ("c", "%"), ("d", "%zz=ä")];
        assert_eq!(read, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
}
