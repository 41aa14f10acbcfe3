//! The form of a message: RFC 5424, section 6.

use std::io::Write as _;

use crate::block::Class;

/// The severities that are used: warning, informational.
const WARNING: u8 = 4;
const INFORMATIONAL: u8 = 6;
/// Longest name of a host in a message.
const HOST_BYTES_MAX: usize = 255;

/// The parts of messages that stay the same.
#[derive(Debug)]
pub(super) struct Sender {
    facility: u8,
    host: String,
    process: u32,
    message: Vec<u8>,
}

impl Sender {
    pub(super) fn new(facility: u8, node: &str) -> Sender {
        // Printable characters without a space; `-` is no name.
        let host: String = node.chars().filter(char::is_ascii_graphic).take(HOST_BYTES_MAX).collect();
        let host = if host.is_empty() { "-".to_owned() } else { host };
        Sender { facility, host, process: std::process::id(), message: Vec::new() }
    }

    /// Appends the message of an event's line.
    pub(super) fn message(&self, class: Class, line: &[u8], out: &mut Vec<u8>) {
        let kind = field(line, "kind").unwrap_or("-");
        let warns = class.has(Class::FAILED) || kind == "gap";
        let priority = self.facility * 8 + if warns { WARNING } else { INFORMATIONAL };
        let time = field(line, "ts").unwrap_or("-");
        // Memory takes all bytes. Without a byte order mark: those who read JSON do not want it.
        let _ = write!(out, "<{priority}>1 {time} {} sqluice {} {kind} - ", self.host, self.process);
        out.extend_from_slice(line);
    }

    /// The same with its length ahead: RFC 6587, section 3.4.1.
    pub(super) fn counted(&mut self, class: Class, line: &[u8], out: &mut Vec<u8>) {
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        self.message(class, line, &mut message);
        let _ = write!(out, "{} ", message.len());
        out.extend_from_slice(&message);
        self.message = message;
    }
}

/// The value of a field that stands ahead of all texts of clients. A quote within a text has a backslash ahead, so that no text
/// looks like the field.
fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    /// The fields stand within so many bytes; the longest is the name of the process.
    const HEAD_BYTES_MAX: usize = 1_024;
    let mut end = line.len().min(HEAD_BYTES_MAX);
    if let Err(error) = str::from_utf8(&line[..end]) {
        end = error.valid_up_to();
    }
    let head = str::from_utf8(&line[..end]).ok()?;
    let begin = format!("\"{name}\":\"");
    let (_, value) = head.split_once(&*begin)?;
    value.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"v":1,"seq":3,"ts":"2026-11-26T12:00:01.000000Z","node":"a\"b","kind":"query","user":"ü"}"#;

    #[test]
    fn the_form_is_that_of_the_rfc() {
        let sender = Sender { process: 77, ..Sender::new(16, "proxy 1") };
        let mut out = Vec::new();
        sender.message(Class::QUERY, LINE.as_bytes(), &mut out);
        let expected = format!("<134>1 2026-11-26T12:00:01.000000Z proxy1 sqluice 77 query - {LINE}");
        assert_eq!(str::from_utf8(&out).unwrap(), expected);
        out.clear();
        sender.message(Class::FAILED, LINE.as_bytes(), &mut out);
        assert!(out.starts_with(b"<132>1 "));
    }

    #[test]
    fn the_length_is_that_of_the_bytes() {
        let mut out = Vec::new();
        Sender::new(3, "").counted(Class::default(), LINE.as_bytes(), &mut out);
        let text = str::from_utf8(&out).unwrap();
        let (length, message) = text.split_once(' ').unwrap();
        assert_eq!(length.parse::<usize>().unwrap(), message.len());
        assert!(message.starts_with("<30>1 2026-11-26T12:00:01.000000Z - sqluice "), "{message}");
    }
}
