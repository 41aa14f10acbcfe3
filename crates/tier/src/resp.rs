//! RESP2, what Valkey and Redis speak: commands out, replies in.
//!
//! It is written here and not taken from the package `redis`, because the [membership](crate::membership) stands on what that keeps to itself: in which order
//! commands go out, and that what was not answered on one connection is not sent again on the next. It takes a page.

/// Nested deeper is no reply to anything that is asked here.
const DEPTH_MAX: usize = 3;
/// Elements of an array.
const ELEMENTS_MAX: usize = 4096;
/// Bytes of a line.
const LINE_MAX: usize = 4096;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespReply {
    /// `+OK`
    Simple(Box<[u8]>),
    /// `-ERR …`
    Error(Box<[u8]>),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Box<[u8]>),
    /// There is none.
    Nil,
    /// Several.
    Array(Vec<RespReply>),
}

/// Bytes that are no reply, or a larger one than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it says something that is not RESP, or too much")]
pub struct Malformed;

impl RespReply {
    /// The elements.
    pub fn elements(&self) -> &[RespReply] {
        match self {
            RespReply::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The whole number.
    pub fn integer(&self) -> Option<i64> {
        match self {
            RespReply::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            RespReply::Bulk(bytes) | RespReply::Simple(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Adds a command to what is sent.
pub fn put_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    let head = |out: &mut Vec<u8>, sign: u8, count: usize| {
        out.push(sign);
        out.extend_from_slice(count.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    head(out, b'*', words.len());
    for word in words {
        head(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first reply in these bytes, and how many of them it takes; `None` while it is not whole. No part of it may be larger than `bulk_max`.
///
/// # Errors
/// It is no reply.
pub fn parse(bytes: &[u8], bulk_max: usize) -> Result<Option<(RespReply, usize)>, Malformed> {
    value(bytes, bulk_max, 0)
}

fn value(bytes: &[u8], bulk_max: usize, depth: usize) -> Result<Option<(RespReply, usize)>, Malformed> {
    let Some((line, mut taken)) = line(bytes)? else { return Ok(None) };
    let (&sign, rest) = line.split_first().ok_or(Malformed)?;
    let reply = match sign {
        b'+' => RespReply::Simple(rest.into()),
        b'-' => RespReply::Error(rest.into()),
        b':' => RespReply::Integer(number(rest)?),
        b'$' => match number(rest)? {
            -1 => RespReply::Nil,
            length => {
                let length = usize::try_from(length).ok().filter(|length| *length <= bulk_max).ok_or(Malformed)?;
                let Some(body) = bytes.get(taken..taken + length + 2) else { return Ok(None) };
                taken += length + 2;
                RespReply::Bulk(body.strip_suffix(b"\r\n").ok_or(Malformed)?.into())
            }
        },
        b'*' => match number(rest)? {
            -1 => RespReply::Nil,
            count => {
                let count = usize::try_from(count).ok().filter(|count| *count <= ELEMENTS_MAX).ok_or(Malformed)?;
                if depth >= DEPTH_MAX {
                    return Err(Malformed);
                }
                let mut elements = Vec::new();
                for _ in 0..count {
                    let Some((element, more)) = value(&bytes[taken..], bulk_max, depth + 1)? else { return Ok(None) };
                    elements.push(element);
                    taken += more;
                }
                RespReply::Array(elements)
            }
        },
        _ => return Err(Malformed),
    };
    Ok(Some((reply, taken)))
}

/// The first line, and its length with its end.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let seen = &bytes[..bytes.len().min(LINE_MAX)];
    match seen.windows(2).position(|two| two == b"\r\n") {
        Some(end) => Ok(Some((&bytes[..end], end + 2))),
        None if bytes.len() >= LINE_MAX => Err(Malformed),
        None => Ok(None),
    }
}

fn number(bytes: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_bytes() {
        let mut out = Vec::new();
        put_command(&mut out, &[b"SET", b"k\r\n", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_read_when_they_are_whole() {
        let bulk = |bytes: &[u8]| RespReply::Bulk(bytes.into());
        let whole: [(&[u8], RespReply); 7] = [
            (b"+OK\r\n", RespReply::Simple(b"OK"[..].into())),
            (b"-ERR no\r\n", RespReply::Error(b"ERR no"[..].into())),
            (b":-7\r\n", RespReply::Integer(-7)),
            (b"$-1\r\n", RespReply::Nil),
            (b"*-1\r\n", RespReply::Nil),
            (b"$4\r\na\r\nb\r\n", bulk(b"a\r\nb")),
            (
                b"*3\r\n:1\r\n*1\r\n$0\r\n\r\n$-1\r\n",
                RespReply::Array(vec![RespReply::Integer(1), RespReply::Array(vec![bulk(b"")]), RespReply::Nil]),
            ),
        ];
        for (bytes, reply) in whole {
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end], 100), Ok(None), "{bytes:?} up to {end}");
            }
            let more = [bytes, b"+more"].concat();
            assert_eq!(parse(&more, 100), Ok(Some((reply, bytes.len()))));
        }
    }

    #[test]
    fn what_is_no_reply_or_too_much_is_refused() {
        for bytes in [
            &b"hello\r\n"[..],
            b"\r\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$101\r\n",
            b"$99999999999999999999\r\n",
            b"$1\r\nabc",
            b"*5000\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        ] {
            assert_eq!(parse(bytes, 100), Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(parse(&[b'+'; LINE_MAX], 100), Err(Malformed));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        // All kinds of replies, in all orders.
        let parts: [&[u8]; 14] =
            [b"+", b"-", b":", b"$", b"*", b"\r", b"\n", b"\r\n", b"0", b"1", b"-1", b"3", b"x", b"\xff"];
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..200_000 {
            let mut bytes = Vec::new();
            for _ in 0..12 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                bytes.extend_from_slice(parts[(random >> 20) as usize % parts.len()]);
            }
            if let Ok(Some((_, taken))) = parse(&bytes, 16) {
                assert!(taken <= bytes.len());
            }
        }
    }
}
