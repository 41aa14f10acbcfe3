//! Session tracking as the client asked for it, whatever Sqluice uses towards servers.
//!
//! Sqluice makes its backend connections tell every change. A client that negotiated session tracking must hear what the
//! server's own defaults, or its own SET of a `session_track_…` variable, would have told it, and nothing else.

use cluster::catalog::Catalog;
use wire::codec::Write;
use wire::reply::{Change, Ok};

/// What the client wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackWish {
    /// Comma-separated names, or `*`.
    variables: String,
    schema: bool,
    state: bool,
}

const DEFAULT_VARIABLES: &str =
    "autocommit,character_set_client,character_set_connection,character_set_results,time_zone";

impl TrackWish {
    /// What the servers' global variables say.
    pub fn of_servers(catalog: &Catalog) -> TrackWish {
        let global = |name: &str, default: &str| catalog.globals.get(name).map_or(default.to_owned(), Clone::clone);
        TrackWish {
            variables: global("session_track_system_variables", DEFAULT_VARIABLES),
            schema: is_on(&global("session_track_schema", "ON")),
            state: is_on(&global("session_track_state_change", "OFF")),
        }
    }

    /// The client set a tracking variable. Gives whether it was one.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            // A client that adds to what it found has found Sqluice's own `*`, which it did not ask for.
            "session_track_system_variables" if value.starts_with("*,") => {
                self.variables = format!("{DEFAULT_VARIABLES}{}", &value[1..]);
            }
            "session_track_system_variables" => self.variables = value.to_owned(),
            "session_track_schema" => self.schema = is_on(value),
            "session_track_state_change" => self.state = is_on(value),
            _ => return false,
        }
        true
    }

    /// The session changes of an OK packet that the client wants to hear, encoded.
    pub fn filter(&self, ok: &Ok<'_>) -> Vec<u8> {
        let mut told = Vec::new();
        let mut entry = |kind: u8, write: &dyn Fn(&mut Vec<u8>)| {
            let mut data = Vec::new();
            write(&mut data);
            told.push(kind);
            told.put_lenenc_bytes(&data);
        };
        for change in ok.changes().map_while(Result::ok) {
            match change {
                Change::Variable { name, value } if self.wants(name) => entry(0, &|data| {
                    data.put_lenenc_bytes(name);
                    data.put_lenenc_bytes(value);
                }),
                Change::Schema(name) if self.schema => entry(1, &|data| data.put_lenenc_bytes(name)),
                Change::State if self.state => entry(2, &|data| data.put_lenenc_bytes(b"1")),
                _ => {}
            }
        }
        told
    }

    fn wants(&self, name: &[u8]) -> bool {
        // Sqluice's own tracking variables are none of the client's business under `*` either.
        if name.starts_with(b"session_track_") {
            return false;
        }
        self.variables.split(',').any(|wanted| wanted.trim() == "*" || wanted.trim().as_bytes() == name)
    }
}

fn is_on(value: &str) -> bool {
    matches!(value.trim_matches('\'').to_ascii_uppercase().as_str(), "1" | "ON" | "TRUE")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Status;

    #[test]
    fn clients_hear_what_they_would_have_heard() {
        let mut state = Vec::new();
        for (name, value) in [("autocommit", "OFF"), ("sql_mode", "ANSI")] {
            let mut data = Vec::new();
            data.put_lenenc_bytes(name.as_bytes());
            data.put_lenenc_bytes(value.as_bytes());
            state.push(0);
            state.put_lenenc_bytes(&data);
        }
        state.extend([2, 2, 1, b'1']);
        let ok = Ok { status: Status::SESSION_STATE_CHANGED, session_state: &state, ..Ok::default() };
        let heard = |wish: &TrackWish| {
            let told = wish.filter(&ok);
            let ok = Ok { session_state: &told, ..ok };
            ok.changes().map(|change| format!("{:?}", change.unwrap())).collect::<Vec<_>>().len()
        };
        let mut wish = TrackWish::of_servers(&Catalog::default());
        assert_eq!(heard(&wish), 1, "autocommit only");
        assert!(wish.set("session_track_system_variables", "*,sql_mode"));
        assert_eq!(heard(&wish), 2);
        assert!(wish.set("session_track_state_change", "1"));
        assert_eq!(heard(&wish), 3);
        assert!(!wish.set("sql_mode", "''"));
    }
}
