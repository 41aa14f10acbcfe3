//! The replies, in the order of the requests.

use std::sync::atomic::Ordering;
use std::time::Instant;

use stats::micros;

use super::{Link, Request, TEXT_MAX, Trouble, refused};
use crate::membership::Clock;
use crate::resp::{self, RespReply};
use crate::{State, TAG_BYTES, TierReply};

impl Link<'_> {
    pub(super) fn take_replies(&mut self, complained: &mut Option<String>) -> Result<(), Trouble> {
        let bulk_max = self.shared.packed_max();
        let mut taken = 0;
        while let Some((reply, bytes)) = resp::parse(&self.received[taken..], bulk_max)? {
            taken += bytes;
            self.take_reply(reply, complained)?;
        }
        self.received.drain(..taken);
        self.received.shrink_to(bulk_max);
        if self.under_way.is_empty() && self.is_member && self.shared.state() == State::Slow {
            self.shared.set_state(State::Serves);
        }
        Ok(())
    }

    fn take_reply(&mut self, reply: RespReply, complained: &mut Option<String>) -> Result<(), Trouble> {
        let (request, since) =
            self.under_way.pop_front().ok_or_else(|| Trouble::Text("it answers what was not asked".into()))?;
        if let RespReply::Error(words) = &reply {
            self.shared.counts.errors.fetch_add(1, Ordering::Relaxed);
            // It has no room for what it was to keep; nothing else hangs on that.
            let is_full = words.starts_with(b"OOM");
            return match request {
                Request::Ask(_) | Request::Put if is_full => Ok(()),
                Request::Leave => Ok(()),
                request => {
                    // So that it counts as not reported.
                    self.under_way.push_front((request, since));
                    Err(refused(words))
                }
            };
        }
        let now = reply.elements().first().and_then(RespReply::integer).and_then(|now| u64::try_from(now).ok());
        let is_done = reply.elements().get(1).and_then(RespReply::integer) == Some(1);
        let strange = || Trouble::Text("it answers a script as no script here does".into());
        match request {
            Request::Report(number) => self.reported(number),
            Request::Put => _ = self.shared.counts.puts.fetch_add(1, Ordering::Relaxed),
            Request::Leave => {}
            Request::Join(number) => {
                self.clock = Clock::new(now.ok_or_else(strange)?, Instant::now());
                self.beats = false;
                if is_done {
                    self.state.has_unreported = false;
                    self.reported(number);
                    self.joined(complained);
                }
            }
            Request::Beat => {
                self.clock = Clock::new(now.ok_or_else(strange)?, Instant::now());
                self.beats = false;
                if is_done {
                    self.see_members(reply.elements().get(2).map(RespReply::elements).unwrap_or_default());
                } else {
                    // The word came too late, or the tier has lost it.
                    self.is_member = false;
                    self.shared.set_state(State::Away);
                    self.next_beat = Instant::now();
                }
            }
            Request::Ask(ask) => {
                self.shared.latency_us.record(micros(since.elapsed()));
                let reported =
                    self.reported_by(&reply, now.ok_or_else(strange)?, ask.fields.len()).ok_or_else(strange)?;
                // The session may have gone on without the reply.
                let _ = ask.reply.send(reported);
            }
        }
        Ok(())
    }

    fn reported(&self, number: u64) {
        self.shared.reported.send_modify(|reported| *reported = number.max(*reported));
    }

    fn joined(&mut self, complained: &mut Option<String>) {
        (self.is_member, self.was_member) = (true, true);
        self.shared.set_state(State::Serves);
        let (tier, server) = (&self.shared.settings.address, &self.server.version);
        if complained.take().is_some() {
            tracing::info!(%tier, server, "the cache's tier can be used again");
        } else {
            tracing::info!(%tier, server, "a member of the cache's tier");
        }
        self.shared.words().trouble = None;
    }

    fn see_members(&mut self, members: &[RespReply]) {
        let members: Vec<Box<[u8]>> = members.iter().filter_map(|member| member.bytes().map(Box::from)).collect();
        let mut words = self.shared.words();
        let name = |member: &[u8]| {
            let name = member.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect()
        };
        words.members = members.iter().map(|member| name(member)).collect();
        drop(words);
        self.state.members = members.into_iter().filter(|member| **member != *self.shared.member).collect();
    }

    fn reported_by(&self, reply: &RespReply, now_ms: u64, fields: usize) -> Option<TierReply> {
        let counts = &self.shared.counts;
        let count = |count: &std::sync::atomic::AtomicU64| _ = count.fetch_add(1, Ordering::Relaxed);
        let [_, tags, rest @ ..] = reply.elements() else {
            count(&counts.closed);
            return Some(TierReply::Nothing);
        };
        let tags: Box<[u8]> = tags.bytes().filter(|tags| tags.len() == fields * TAG_BYTES)?.into();
        match rest.first() {
            Some(RespReply::Integer(1)) => {
                count(&counts.good);
                Some(TierReply::Good)
            }
            Some(answer) => {
                count(&counts.found);
                Some(TierReply::Tags { now_ms, tags, answer: Some(answer.bytes()?.into()) })
            }
            None => {
                count(&counts.missed);
                Some(TierReply::Tags { now_ms, tags, answer: None })
            }
        }
    }
}
