//! Clients that send many commands ahead: answers of the cache are gathered, in order, and go out together.

use net::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::Capabilities;
use wire::exchange::{Advance, Exchange, Expect};
use wire::packet;

use super::*;

/// A client that reads replies as bytes.
struct Raw {
    stream: Stream,
    capabilities: Capabilities,
    inbox: Vec<u8>,
}

impl Raw {
    fn of(client: Client) -> Raw {
        let capabilities = client.capabilities();
        let (stream, inbox) = client.into_parts();
        Raw { stream, capabilities, inbox }
    }

    /// Sends queries in one write.
    async fn send(&mut self, queries: &[&str]) {
        let mut out = Vec::new();
        for sql in queries {
            packet::append(&mut out, 0, &[b"\x03", sql.as_bytes()].concat());
        }
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Reads once, waiting until there is something.
    async fn read(&mut self) {
        let mut chunk = vec![0; 1 << 20];
        let n = tokio::time::timeout(crate::support::SOON, self.stream.read(&mut chunk)).await.unwrap().unwrap();
        assert!(n > 0, "the connection ended");
        self.inbox.extend_from_slice(&chunk[..n]);
    }

    /// Whether all of a reply is here; it is taken then.
    fn take(&mut self) -> Option<Vec<u8>> {
        let (mut exchange, mut at) = (Exchange::new(Expect::Results, self.capabilities), 0);
        while !exchange.is_over() {
            match exchange.advance(&self.inbox[at..]).unwrap() {
                Advance::Pass(n) => at += n,
                Advance::Packet(packet) => at += packet.taken,
                Advance::Needs(_) => return None,
            }
        }
        Some(self.inbox.drain(..at).collect())
    }

    async fn reply(&mut self) -> Vec<u8> {
        loop {
            match self.take() {
                Some(reply) => return reply,
                None => self.read().await,
            }
        }
    }
}

#[tokio::test]
async fn replies_to_commands_sent_ahead_are_those_of_one_after_the_other() {
    for family in families() {
        let table = "cache_pipelined";
        let front =
            start(family, table, &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")).await;
        let of = |id: u32| format!("SELECT n FROM {table} WHERE id = {id}");
        let (one, two, three) = (&*of(1), &*of(2), &*of(3));
        // Four of these are more than is gathered.
        let large = &*format!("SELECT REPEAT('x', 5000), id FROM {table} WHERE id = 2");
        let write = &*format!("UPDATE {table} SET n = n WHERE id = 1");
        let wrong = &*format!("SELECT nothing FROM {table}");
        let mut client = front.client().await;
        for read in [one, two, large] {
            until_hit(&front, &mut client, read).await;
        }
        let (mut ahead, mut behind) = (Raw::of(front.client().await), Raw::of(front.client().await));

        // Hits alone are one write, and the client reads them at once.
        let hits_before = hits(&front, "all").await;
        let reads = [one, two, one, two, two, one];
        ahead.send(&reads).await;
        ahead.read().await;
        let came: Vec<_> = std::iter::from_fn(|| ahead.take()).collect();
        assert_eq!((came.len(), ahead.inbox.len()), (reads.len(), 0));
        assert_eq!(hits(&front, "all").await, hits_before + reads.len() as u64);
        for (read, reply) in reads.iter().zip(came) {
            behind.send(&[read]).await;
            assert!(behind.reply().await == reply, "{read}");
        }

        // With misses, a write that ends answers, an error, what the cache is not asked for, and more than is gathered in between.
        let all_kinds = [
            one,
            two,
            three,
            three,
            write,
            one,
            one,
            "SELECT ROW_COUNT()",
            wrong,
            two,
            "DO 1",
            large,
            large,
            large,
            large,
            large,
            large,
            two,
            "BEGIN",
            two,
            "ROLLBACK",
            two,
            "SELECT FOUND_ROWS()",
            three,
        ];
        let hits_before = hits(&front, "all").await;
        for round in 0..20 {
            ahead.send(&all_kinds).await;
            for sql in all_kinds {
                behind.send(&[sql]).await;
                let (ahead, behind) = (ahead.reply().await, behind.reply().await);
                assert!(ahead == behind, "{sql} in round {round}: {} {}", ahead.escape_ascii(), behind.escape_ascii());
            }
        }
        assert!(hits(&front, "all").await > hits_before + 100);
        assert!(ahead.inbox.is_empty() && behind.inbox.is_empty());
    }
}
