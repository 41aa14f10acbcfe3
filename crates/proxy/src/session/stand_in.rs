//! A client that is not there: its statements are Sqluice's own, and the replies to them go nowhere.

use std::io;
use std::os::unix::net::UnixStream;

use net::Stream;
use tokio::io::AsyncReadExt;
use wire::Capabilities;
use wire::command::Command;

use super::client::{Client, Request};

/// A client with these capabilities, which throws away all that it gets. It needs a worker's runtime.
///
/// # Errors
/// The system's: it has no descriptors left.
pub(super) fn client(capabilities: Capabilities) -> io::Result<Client> {
    let (one, other) = UnixStream::pair()?;
    let (stream, mut sink) = (Stream::attach(one.into())?, Stream::attach(other.into())?);
    tokio::task::spawn_local(async move {
        let mut scratch = vec![0; 16 * 1024];
        while sink.read(&mut scratch).await.is_ok_and(|bytes| bytes > 0) {}
    });
    Ok(Client::nobody(stream, capabilities))
}

/// COM_QUERY with this text, as a client with these capabilities sends it.
pub(super) fn query(text: &[u8], capabilities: Capabilities) -> Request {
    let mut arguments = Vec::with_capacity(text.len() + 2);
    if capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        // No attributes, in one set.
        arguments.extend([0, 1]);
    }
    arguments.extend_from_slice(text);
    command(Command::Query, &arguments)
}

/// A command with these arguments.
pub(super) fn command(command: Command, arguments: &[u8]) -> Request {
    let mut payload = vec![command.byte()];
    payload.extend_from_slice(arguments);
    let mut packets = Vec::new();
    let next = wire::packet::append(&mut packets, 0, &payload);
    Request::again(&packets, next.wrapping_sub(1))
}
