//! A server's quote of a text that it could not read: the client gets its own text quoted, where Sqluice has put something into it.

/// Most bytes that servers quote.
const QUOTED_MAX: usize = 80;
/// The end of a quote that MariaDB has cut.
const CUT: &[u8] = b"...";

/// A text as the client sent it, and as the server got it.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The client's own.
    pub own: &'a [u8],
    /// The server's.
    pub sent: &'a [u8],
}

impl Texts<'_> {
    /// The message of a syntax error, `… near 'quote' at line 1`, with the quote out of the client's own text. `None` where
    /// it is the same, or where something was put in ahead of it, too.
    pub(super) fn requoted(&self, message: &str, mariadb: bool) -> Option<String> {
        let (start, end) = (message.find('\'')? + 1, message.rfind('\'')?);
        let quote = message.as_bytes().get(start..end)?;
        let (own, sent) = (read_by_servers(self.own), read_by_servers(self.sent));
        let same = own.iter().zip(sent).take_while(|(own, sent)| own == sent).count();
        let is_cut = quote.len() == QUOTED_MAX && (!mariadb || quote.ends_with(CUT));
        let begins = if is_cut && mariadb { quote.strip_suffix(CUT)? } else { quote };
        let is_there = |at: &usize| {
            let rest = &sent[*at..];
            (is_cut || rest.len() == begins.len()) && rest.starts_with(begins)
        };
        let mut places = (0..=same).filter(is_there);
        let at = places.next().filter(|_| places.next().is_none())?;
        let rest = own.get(at..)?;
        let new = match rest.len() {
            0..=QUOTED_MAX => rest.to_vec(),
            _ if mariadb => [&rest[..QUOTED_MAX - CUT.len()], CUT].concat(),
            _ => rest[..QUOTED_MAX].to_vec(),
        };
        // A cut may stand in the middle of a character, and other character sets have other bytes.
        let new = String::from_utf8(new).ok().filter(|new| new.is_ascii())?;
        (new.as_bytes() != quote).then(|| format!("{}{new}{}", &message[..start], &message[end..]))
    }
}

/// Servers do not read the end of a text that is blank, or semicolons.
fn read_by_servers(text: &[u8]) -> &[u8] {
    let is_read = |byte: &u8| *byte != b';' && !byte.is_ascii_whitespace();
    text.iter().rposition(is_read).map_or(&[], |last| &text[..=last])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] =
        b"SELECT 1; SELEC 2; SELECT CONNECTION_ID(), 'a text that is longer than what servers quote', ROW_COUNT();";
    const SENT: &[u8] =
        b"SELECT 1; SELEC 2; SELECT CAST(7 AS UNSIGNED), 'a text that is longer than what servers quote', ROW_COUNT();";

    fn message(quote: &str) -> String {
        format!("You have an error near '{quote}' at line 1")
    }

    #[test]
    fn the_clients_text_is_quoted() {
        let texts = Texts { own: OWN, sent: SENT };
        let quote = |text: &[u8], bytes: usize| String::from_utf8(text[10..10 + bytes].to_vec()).unwrap();
        let (got, own) = (message(&quote(SENT, 80)), message(&quote(OWN, 80)));
        assert_eq!(texts.requoted(&got, false), Some(own));
        let cut = |text| message(&format!("{}...", quote(text, 77)));
        assert_eq!(texts.requoted(&cut(SENT), true), Some(cut(OWN)));
        let short = Texts { own: b"SELEC; SELECT ROW_COUNT() ;", sent: b"SELEC; SELECT 000 ;" };
        assert_eq!(short.requoted(&message("SELEC; SELECT 000"), true), Some(message("SELEC; SELECT ROW_COUNT()")));
    }

    #[test]
    fn other_messages_stay() {
        let texts = Texts { own: OWN, sent: SENT };
        for other in [message("nowhere"), message(""), "no quote".into(), message("', ROW_COUNT()")] {
            assert_eq!(texts.requoted(&other, false), None, "{other}");
        }
        let twice = Texts { own: b"x x CONNECTION_ID()", sent: b"x x 7" };
        assert_eq!(twice.requoted(&message("x"), false), None);
    }
}
