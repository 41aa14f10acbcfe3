//! Packets out of a buffer.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::packet::{self, First};

use super::{Client, QueryError};

impl Client {
    /// Sends the first packet of a command.
    pub(super) async fn send(&mut self, payload: &[u8]) -> Result<(), QueryError> {
        self.send_with(0, payload).await
    }

    pub(super) async fn send_with(&mut self, sequence: u8, payload: &[u8]) -> Result<(), QueryError> {
        let mut out = zeroize::Zeroizing::new(Vec::with_capacity(payload.len() + packet::HEADER_BYTES));
        packet::append(&mut out, sequence, payload);
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads one packet of a reply, at most `limit` bytes long, and counts it.
    pub(super) async fn packet(&mut self, limit: usize) -> Result<(u8, Vec<u8>), QueryError> {
        let limit = limit.min(self.reply_bytes_left);
        loop {
            let needs = match packet::first(&self.buffer, limit) {
                First::TooLong => return Err(QueryError::TooLarge(self.limits.reply_bytes_max)),
                First::Whole { payload, sequence, taken } => {
                    let payload = payload.to_vec();
                    return Ok((sequence, self.taken(taken, payload)));
                }
                First::Split { sequence, taken, .. } => {
                    let payload = packet::join(&self.buffer[..taken]);
                    return Ok((sequence, self.taken(taken, payload)));
                }
                First::Needs(needs) => needs,
            };
            while self.buffer.len() < needs {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection");
                    return Err(error.into());
                }
            }
        }
    }

    fn taken(&mut self, taken: usize, payload: Vec<u8>) -> Vec<u8> {
        self.buffer.drain(..taken);
        self.reply_bytes_left = self.reply_bytes_left.saturating_sub(taken);
        payload
    }
}
