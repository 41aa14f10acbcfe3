//! OK packets with what they tell of the session, and the other packets that end replies.

use wire::reply::{EOF, Eof, OK, Ok, Prepared, ServerError};
use wire::{Capabilities, Status};

use crate::Input;

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let capabilities = Capabilities::from_bits_retain(input.number());
    let payload = input.remaining();
    let raw = Ok { status: Status::SESSION_STATE_CHANGED, session_state: payload, ..Ok::default() };
    // After the first malformed change there are no more.
    let changes: Vec<_> = raw.changes().collect();
    assert!(changes.iter().rev().skip(1).all(Result::is_ok));
    assert!(changes.len() <= payload.len());
    if let Result::Ok(ok) = Ok::parse(payload, capabilities) {
        for header in [OK, EOF] {
            let mut written = Vec::new();
            ok.write(&mut written, header, capabilities);
            let again = Ok::parse(&written, capabilities);
            let mut status = ok.status;
            status.set(Status::SESSION_STATE_CHANGED, !ok.session_state.is_empty() || ok.empty_report);
            assert_eq!(again, Result::Ok(Ok { status, ..ok }));
        }
        assert_eq!(ok.changes().count(), ok.changes().count());
    }
    if let Result::Ok(error) = ServerError::parse(payload) {
        let mut written = Vec::new();
        error.write(&mut written);
        assert_eq!(ServerError::parse(&written), Result::Ok(error));
    }
    if let Result::Ok(eof) = Eof::parse(payload) {
        let mut written = Vec::new();
        eof.write(&mut written);
        assert_eq!(Eof::parse(&written), Result::Ok(eof));
    }
    let _ = Prepared::parse(payload);
}
