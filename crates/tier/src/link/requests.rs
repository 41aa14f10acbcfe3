//! The requests: membership, writes, questions and results.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Link, Order, Request};
use crate::resp;
use crate::{FORM, ResultKey};

/// How long unused names stay in the tier.
const KEPT_MS: &str = "86400000";

impl Link<'_> {
    fn put(&mut self, request: Request, words: &[&[u8]]) {
        resp::put_command(&mut self.unsent, words);
        self.unflushed = true;
        self.under_way.push_back((request, Instant::now()));
    }

    /// Tells all that was gathered.
    pub(super) fn report(&mut self) {
        let gathered = self.shared.reports.take();
        if gathered.is_empty() {
            return;
        }
        self.shared.counts.reports.fetch_add(1, Ordering::Relaxed);
        let key = self.tags_key.clone();
        if gathered.everything {
            self.put(Request::Report(gathered.number), &[b"DEL", &key]);
        } else {
            let words: Vec<&[u8]> =
                [b"HDEL", &*key].into_iter().chain(gathered.fields.iter().map(|field| &**field)).collect();
            self.put(Request::Report(gathered.number), &words);
        }
    }

    /// Promises to be there for the time of a membership from now on. Gives the end on the tier's clock. Writes that are gathered up to here must go out before this
    /// message; a session that adds one later knows of the promise and waits for it.
    fn promise(&self, now: Instant) -> Vec<u8> {
        let until = now + self.shared.settings.membership;
        self.shared.promise(until);
        self.clock.reached_by(until).to_string().into_bytes()
    }

    pub(super) fn beat(&mut self, now: Instant) {
        let until = self.promise(now);
        self.report();
        let (script, keys) = (self.server.beat.clone(), self.keys());
        let forget = self.shared.settings.forget.as_millis().to_string();
        let name = self.shared.settings.name.clone().unwrap_or_default();
        let shared = self.shared;
        self.put(
            Request::Beat,
            &[
                b"EVALSHA",
                &script,
                b"3",
                &keys[0],
                &keys[1],
                &keys[2],
                &shared.member,
                &until,
                forget.as_bytes(),
                name.as_bytes(),
                KEPT_MS.as_bytes(),
            ],
        );
    }

    pub(super) fn join(&mut self, now: Instant) {
        let until = self.promise(now);
        let gathered = self.shared.reports.take();
        let all_end = self.state.has_unreported || !gathered.is_empty();
        // Until it is done it may have to be done again.
        self.state.has_unreported = all_end;
        let (script, keys, known) = (self.server.join.clone(), self.keys(), self.state.members.clone());
        let shared = self.shared;
        let all_end: &[u8] = if all_end { b"1" } else { b"0" };
        let words: Vec<&[u8]> =
            [&b"EVALSHA"[..], &script, b"3", &keys[0], &keys[1], &keys[2], &shared.member, &until, all_end]
                .into_iter()
                .chain(known.iter().map(|member| &**member))
                .collect();
        self.put(Request::Join(gathered.number), &words);
    }

    pub(super) fn leave(&mut self) {
        self.report();
        let (key, member) = (self.members_key.clone(), self.shared.member.clone());
        self.put(Request::Leave, &[b"ZREM", &key, &member]);
    }

    fn keys(&self) -> [Vec<u8>; 3] {
        [self.members_key.clone(), self.tags_key.clone(), self.nothing_key.clone()]
    }

    fn answer_key(&self, key: &ResultKey) -> Vec<u8> {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}:{FORM}:{}:answer:{hex}", self.shared.settings.prefix, self.server.run).into_bytes()
    }

    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Ask(ask) if !self.is_member || ask.reply.is_closed() => drop(ask),
            Order::Ask(ask) => {
                let (script, keys) = (self.server.ask.clone(), self.keys());
                let answer = ask.key.map_or_else(|| self.nothing_key.clone(), |key| self.answer_key(&key));
                let (shared, tag) = (self.shared, self.shared.new_tag());
                let wants = if ask.key.is_some() { self.shared.packed_max() } else { 0 }.to_string();
                let mut unsent = std::mem::take(&mut self.unsent);
                let words: Vec<&[u8]> = [
                    &b"EVALSHA"[..],
                    &script,
                    b"4",
                    &keys[0],
                    &keys[1],
                    &keys[2],
                    &answer,
                    &shared.member,
                    &tag,
                    &ask.have,
                    wants.as_bytes(),
                ]
                .into_iter()
                .chain(ask.fields.iter().map(|field| &**field))
                .collect();
                resp::put_command(&mut unsent, &words);
                (self.unsent, self.unflushed) = (unsent, true);
                self.under_way.push_back((Request::Ask(ask), Instant::now()));
            }
            Order::Put(put) => {
                self.shared.put_bytes.fetch_sub(put.body.len(), Ordering::Relaxed);
                let key = self.answer_key(&put.key);
                let keep = put.keep_ms.to_string();
                self.put(Request::Put, &[b"SET", &key, &put.body, b"PX", keep.as_bytes()]);
            }
        }
    }
}
