//! The control plane's brain, pure: observations in, decisions out.
//!
//! Nothing here reads a clock, a socket or a file; `now` is an argument.

pub mod accounts;
pub mod catalog;
pub mod view;
