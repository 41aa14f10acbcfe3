//! The header `traceparent` of W3C's Trace Context.

/// Its name, as an attribute of a query and as a tag.
pub const TRACE_PARENT: &str = "traceparent";

/// Bytes of the first version: version, trace, span and flags in hexadecimal digits, with dashes between.
const BYTES: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;
/// The caller records this trace.
const SAMPLED: u8 = 1;

/// The place of a query in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span of the caller.
    pub span_id: [u8; 8],
    /// The caller records it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads the header; `None` for what is none.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let (text, behind) = text.split_at_checked(BYTES)?;
        let version = hex::<1>(text.get(..2)?)?;
        // Later versions may have more behind another dash.
        let is_known = match version {
            [0] => behind.is_empty(),
            [0xff] => false,
            _ => behind.first().is_none_or(|byte| *byte == b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| text.get(*at) == Some(&b'-'));
        let (trace_id, span_id) = (hex::<16>(text.get(3..35)?)?, hex::<8>(text.get(36..52)?)?);
        let [flags] = hex::<1>(text.get(53..)?)?;
        let is_good = is_known && dashes && trace_id != [0; 16] && span_id != [0; 8];
        is_good.then_some(TraceParent { trace_id, span_id, sampled: flags & SAMPLED != 0 })
    }
}

/// Bytes of which each is two digits; capital letters are none there.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_first_version_is_read() {
        let parent = TraceParent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!((parent.trace_id[..2].to_vec(), parent.span_id[7], parent.sampled), (vec![0x0a, 0xf7], 0x31, true));
        assert!(!TraceParent::parse(GOOD.replace("-01", "-02").as_bytes()).unwrap().sampled);
        assert!(TraceParent::parse(format!("cc{}-more", &GOOD[2..]).as_bytes()).unwrap().sampled, "a later version");
    }

    #[test]
    fn all_else_is_none() {
        for bad in [
            String::new(),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            format!("cc{}more", &GOOD[2..]),
            format!("ff{}", &GOOD[2..]),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace("b7", "é"),
        ] {
            assert_eq!(TraceParent::parse(bad.as_bytes()), None, "{bad}");
        }
        for cut in 0..GOOD.len() {
            assert_eq!(TraceParent::parse(&GOOD.as_bytes()[..cut]), None, "{cut}");
        }
    }
}
