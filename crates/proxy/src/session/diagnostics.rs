//! The results of a session's last statement that a later one may ask for: SHOW WARNINGS, FOUND_ROWS(), ROW_COUNT(),
//! LAST_INSERT_ID(), user variables, state of one use. A server keeps them on the connection; here they go with the session.
//!
//! Ahead of a statement [`past`] gives a connection what the statement may ask for. Behind a reply [`learned`] notes what the
//! reply says, and before the connection goes to another session the server is asked for the rest ([`read_back`]).

mod again;
pub(super) mod found_rows;
mod in_code;
pub(super) mod learned;
pub(super) mod literals;
pub(super) mod messages;
pub(super) mod one_use;
pub(super) mod past;
pub(super) mod read_back;
pub(super) mod unreported;
pub(super) mod variables;
