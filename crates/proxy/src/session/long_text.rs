//! Long texts: a thread reads them, so that the worker's other sessions do not wait meanwhile.

use std::rc::Rc;
use std::sync::Arc;

use sql::rewrite::{OwnValue, Rewritten};
use sql::{Dialect, Statement};
use wire::command::Command;
use wire::packet;

use super::Session;
use super::query::Body;
use crate::worker::KnownFunctions;

/// Texts up to this length are read by the worker itself: that takes it a few milliseconds at most.
pub(super) const LONG_TEXT_BYTES: usize = 128 * 1024;

/// A long text, as a thread has read it.
#[derive(Debug)]
pub struct LongText {
    /// The byte of the payload that it begins at.
    pub at: usize,
    /// The dialect that it was read in.
    pub dialect: Dialect,
    /// The text without its literals; `None` if the table of digests had it already.
    pub form: Option<String>,
}

/// The values that are put into a text, in place of what asks for them.
#[derive(Debug)]
pub struct PutIn {
    pub tracked: String,
    pub last_gtid: Option<String>,
    pub known: Vec<OwnValue<'static>>,
}

impl PutIn {
    /// The text with the values; `None` if nothing in it asks for them.
    pub fn put_into(&self, text: &[u8], dialect: &Dialect) -> Option<Rewritten> {
        let mut known = vec![OwnValue::TrackedVariables(&self.tracked)];
        known.extend(self.last_gtid.as_deref().map(OwnValue::LastGtid));
        known.extend_from_slice(&self.known);
        sql::rewrite::functions(text, dialect, &known)
    }
}

impl Session {
    /// Has a thread read a long text, which begins at this byte of its payload. One text of a worker's sessions is read at a
    /// time: each is in memory twice meanwhile.
    pub(super) async fn read_long_text(&self, text: &[u8], at: usize) -> (Rc<Statement>, Rc<LongText>) {
        let _turn = self.env.worker.long_texts.acquire().await;
        let dialect = self.belief.facts().dialect;
        let wants_tables = self.wants_tables();
        let (catalog, text) = (Arc::clone(&self.here.cluster.catalog()), copied(text).await);
        let read = {
            let text = text.clone();
            move || {
                let statement = sql::classify(&text, &dialect, &KnownFunctions(&catalog));
                if wants_tables {
                    // The statement remembers them.
                    let _ = statement.tables(&text, &dialect);
                }
                statement
            }
        };
        let statement = in_thread(read).await;
        let form = match self.knows_digest(statement.digest) {
            true => None,
            false => Some(in_thread(move || sql::digest(&text, &dialect).text).await),
        };
        (Rc::new(statement), Rc::new(LongText { at, dialect, form }))
    }

    /// Has a thread put what only Sqluice knows into a long text.
    pub(super) async fn put_into_long_text(&self, put_in: PutIn, text: &[u8]) -> Option<Rewritten> {
        let _turn = self.env.worker.long_texts.acquire().await;
        let dialect = self.belief.facts().dialect;
        let text = copied(text).await;
        in_thread(move || put_in.put_into(&text, &dialect)).await
    }

    /// Something asks for the tables of each statement: the catalog, the operator's policy, or the result cache.
    fn wants_tables(&self) -> bool {
        !self.belief.catalog.hidden.is_empty()
            || self.env.worker.chain.get().is_some()
            || self.here.cluster.shared.epochs.get().is_some()
    }
}

/// The body of a query with this text. A thread makes the packets of a long one: to copy it would hold the worker.
pub(super) async fn query_of(attributes: &[u8], text: Vec<u8>) -> Body {
    if text.len() <= LONG_TEXT_BYTES {
        return Body::Payload([&[Command::Query.byte()], attributes, &text].concat());
    }
    let attributes = attributes.to_vec();
    let framed = move || {
        let payload = [&[Command::Query.byte()], &attributes[..], &text].concat();
        drop(text);
        let headers = payload.len() / packet::PAYLOAD_BYTES_MAX + 1;
        let mut packets = Vec::with_capacity(payload.len() + headers * packet::HEADER_BYTES);
        packet::append(&mut packets, 0, &payload);
        packets
    };
    Body::Packets(Rc::new(in_thread(framed).await))
}

/// Copies a long text for a thread, part by part: new memory for 15 MiB takes a worker some milliseconds.
async fn copied(text: &[u8]) -> Arc<Vec<u8>> {
    let mut copy = Vec::with_capacity(text.len());
    for part in text.chunks(LONG_TEXT_BYTES) {
        copy.extend_from_slice(part);
        tokio::task::yield_now().await;
    }
    Arc::new(copy)
}

/// Runs this in a thread for work that blocks.
async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The worker ends: its event loop drops this session.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_long_text_is_copied_beside_other_sessions() {
        let text: Vec<u8> = (0..15 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
        let (turns, is_done) = (Cell::new(0), Cell::new(false));
        let others = async {
            while !is_done.get() {
                turns.set(turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let copying = async {
            let copy = copied(&text).await;
            is_done.set(true);
            copy
        };
        let (copy, ()) = tokio::join!(copying, others);
        assert_eq!(*copy, text);
        assert!(turns.get() >= 100, "{} turns", turns.get());
    }

    #[tokio::test]
    async fn the_packets_of_a_long_query_are_made_once() {
        let Body::Payload(short) = query_of(b"\0\x01", b"DO 1".to_vec()).await else { panic!("no payload") };
        assert_eq!(short, b"\x03\0\x01DO 1");
        let text = vec![b'a'; packet::PAYLOAD_BYTES_MAX];
        let Body::Packets(packets) = query_of(b"", text.clone()).await else { panic!("no packets") };
        let (first, second) = packets.split_at(packet::HEADER_BYTES + packet::PAYLOAD_BYTES_MAX);
        assert_eq!(first[..5], [0xff, 0xff, 0xff, 0, Command::Query.byte()]);
        assert_eq!(second, b"\x01\0\0\x01a");
        assert_eq!(packets.capacity(), packets.len());
    }
}
