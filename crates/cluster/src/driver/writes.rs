//! A primary that answers and cannot write: its disk is full, or hangs.
//!
//! Servers do not fail then. They wait for room, a minute at a time, with the locks that everything needs which would make them
//! read-only; probes are answered as ever. The sign is a heartbeat that does not end while the position stands still: an
//! overloaded primary is slow, and its position moves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Driver;
use super::run::RunKind;
use crate::diagnosis::Diagnosis;
use crate::observation::{NotWritten, WriteTrouble};
use crate::settings::Mode;

/// A trouble without the server's explanation is reported after this time; a disk that the server calls full, at once.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// A lock or a missing acknowledgement is often harmless: it is reported after so long.
const TELL_WAITS_AFTER: Duration = Duration::from_secs(10);
/// A primary that cannot write for so long is replaced, where that is allowed.
const ACT_AFTER: Duration = Duration::from_secs(10);

/// Writes fail or hang.
#[derive(Clone, Debug)]
pub(super) struct Unwritable {
    seen: NotWritten,
    /// When it was reported last.
    reported: Instant,
    /// Since when nothing was written, by anybody.
    since: Instant,
    /// Where the server stood then.
    position: Arc<str>,
}

impl Driver {
    pub(super) fn learn_not_written(&mut self, now: Instant, index: usize, seen: NotWritten) {
        let server = &mut self.servers[index];
        let position = server.reported().map_or_else(|| "".into(), |facts| facts.gtid_executed.clone());
        let before = server.unwritable.take();
        // Others write while this write waits: it is slow. The server's own message about its disk needs no such proof.
        let goes_on = |before: &Unwritable| {
            before.seen.trouble == seen.trouble
                && (before.position == position || seen.trouble == WriteTrouble::DiskFull)
        };
        let since = before.filter(goes_on).map_or(now, |before| before.since);
        server.unwritable = Some(Unwritable { seen, reported: now, since, position });
    }

    /// For how long, and why, a server that answers has not written anything.
    fn cannot_write(&self, now: Instant, index: usize) -> Option<(Duration, &NotWritten)> {
        let server = &self.servers[index];
        let unwritable = server.unwritable.as_ref().filter(|_| server.answers() && server.takes_writes())?;
        let fresh = (self.settings.interval + self.settings.timeout) * 4;
        let moved = server.reported().is_some_and(|facts| facts.gtid_executed != unwritable.position);
        let stands = !moved || unwritable.seen.trouble == WriteTrouble::DiskFull;
        (stands && now.saturating_duration_since(unwritable.reported) <= fresh)
            .then(|| (unwritable.reported.saturating_duration_since(unwritable.since), &unwritable.seen))
    }

    /// Looks whether the primary writes. Says whether something was advised.
    pub(super) fn watch_writes(
        &mut self,
        now: Instant,
        primary: usize,
        busy: bool,
        found: &mut Vec<Diagnosis>,
    ) -> bool {
        let Some((time, seen)) = self.cannot_write(now, primary) else { return false };
        let (name, text) = (self.servers[primary].name().clone(), seen.text.clone());
        match seen.trouble {
            WriteTrouble::DiskFull => found.push(Diagnosis::DiskFull(name, text)),
            WriteTrouble::Stuck if time >= TELL_AFTER => found.push(Diagnosis::CannotWrite(name, text)),
            WriteTrouble::Locked | WriteTrouble::Unacknowledged if time >= TELL_WAITS_AFTER => {
                found.push(Diagnosis::CannotWrite(name, text));
            }
            WriteTrouble::Stuck | WriteTrouble::Locked | WriteTrouble::Unacknowledged => {}
        }
        let acts = self.settings.failover.mode != Mode::Off && !self.settings.standalone;
        if busy || !acts {
            return false;
        }
        let Some(words) = self.must_be_replaced(now, primary) else { return false };
        self.act_on(now, primary, RunKind::Failover, words, found);
        true
    }

    /// Why a primary that answers is to be replaced, in words. Only with the proof of semi-sync: such a server cannot be made
    /// read-only, and must not be able to acknowledge what it writes when it has room again.
    pub(super) fn must_be_replaced(&self, now: Instant, primary: usize) -> Option<String> {
        let rules = &self.settings.failover;
        let (time, seen) = self.cannot_write(now, primary)?;
        let broken = matches!(seen.trouble, WriteTrouble::DiskFull | WriteTrouble::Stuck) && time >= ACT_AFTER;
        (broken && rules.replace_unwritable && rules.semi_sync_required)
            .then(|| format!("{} answers and cannot write: {}", self.servers[primary].name(), seen.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::script::*;
    use crate::driver::{Failover, Settings};
    use crate::observation::{Details, Facts, ObservationKind, Replication, SemiSync};
    use crate::step::{Step, StepError, StepResult};

    fn able(facts: Facts, last: u64) -> Facts {
        let position: Arc<str> = format!("0-1-{last}").into();
        let primary = facts.server_id == 1;
        let semi_sync = SemiSync {
            source_enabled: Some(primary),
            source_active: Some(primary),
            after_sync: Some(true),
            acks_needed: Some(1),
            replica_enabled: Some(true),
            ..SemiSync::default()
        };
        let details = Details {
            uptime_s: Some(1000),
            gtid_on: Some(true),
            gtid_replicated: if primary { "".into() } else { position.clone() },
            gtid_binlog_state: position.clone(),
            log_bin: Some(true),
            log_replica_updates: Some(true),
            semi_sync,
            ..Details::default()
        };
        let mut facts = Facts { gtid_executed: position.clone(), details, ..facts };
        if let Replication::Channels(channels) = &mut facts.replication {
            channels.iter_mut().for_each(|channel| channel.gtid_received = position.clone());
        }
        facts
    }

    fn cluster(replace_unwritable: bool) -> Script {
        let failover =
            Failover { mode: Mode::Auto, semi_sync_required: true, replace_unwritable, ..Failover::default() };
        let mut script = Script::with(Settings { failover, ..settings() }, 3);
        for _ in 0..3 {
            probe(&mut script, 10);
        }
        assert_eq!((script.primary(), script.found()), (Some(1), vec![]));
        script
    }

    /// All servers are probed; the primary stands there.
    fn probe(script: &mut Script, last: u64) {
        (2..=3).for_each(|number| script.good(number, able(replica_of(1, number), 10)));
        script.good(1, able(facts(1), last));
        script.wait(Duration::from_millis(500));
    }

    fn hangs(script: &mut Script, seconds: u32, trouble: WriteTrouble, moves: bool) {
        for half in 0..u64::from(seconds) * 2 {
            script.see(1, ObservationKind::NotWritten(NotWritten { trouble, text: "it hangs".into() }));
            probe(script, if moves { 11 + half } else { 10 });
        }
    }

    #[test]
    fn a_primary_that_writes_nothing_is_reported_and_left() {
        for (trouble, after, name) in [
            (WriteTrouble::DiskFull, 1, "disk_full"),
            (WriteTrouble::Stuck, 4, "cannot_write"),
            (WriteTrouble::Locked, 11, "cannot_write"),
            (WriteTrouble::Unacknowledged, 11, "cannot_write"),
        ] {
            let mut script = cluster(false);
            if after > 1 {
                hangs(&mut script, after - 2, trouble, false);
                assert_eq!(script.found(), Vec::<&str>::new(), "{trouble:?}");
            }
            hangs(&mut script, 2, trouble, false);
            assert_eq!(script.found(), [name]);
            hangs(&mut script, 30, trouble, false);
            assert_eq!((script.words(), script.primary()), (vec![], Some(1)));
            script.see(1, ObservationKind::Written);
            assert_eq!(script.found(), Vec::<&str>::new());
        }
    }

    #[test]
    fn what_waits_or_is_slow_is_never_replaced() {
        for (trouble, moves) in
            [(WriteTrouble::Locked, false), (WriteTrouble::Unacknowledged, false), (WriteTrouble::Stuck, true)]
        {
            let mut script = cluster(true);
            hangs(&mut script, 60, trouble, moves);
            assert_eq!((script.words(), script.primary()), (vec![], Some(1)), "{trouble:?}");
            assert_eq!(script.found().is_empty(), moves);
        }
    }

    #[test]
    fn news_that_stop_coming_say_nothing() {
        let mut script = cluster(true);
        hangs(&mut script, 8, WriteTrouble::Stuck, false);
        for _ in 0..20 {
            probe(&mut script, 10);
        }
        assert_eq!((script.words(), script.found(), script.primary()), (vec![], vec![], Some(1)));
    }

    #[test]
    fn a_full_disk_is_left_behind_without_asking_it_for_anything() {
        let mut script = cluster(true);
        hangs(&mut script, 10, WriteTrouble::Stuck, false);
        assert_eq!(script.words(), Vec::<String>::new());
        script
            .see(1, ObservationKind::NotWritten(NotWritten { trouble: WriteTrouble::Stuck, text: "it hangs".into() }));
        let mut steps = Vec::new();
        while script.primary() != Some(2) && steps.len() < 40 {
            steps.extend(script.words());
            script.answer(|step| -> Result<StepResult, StepError> {
                let number = step.server().map_or(0, |id| u32::from(id.0) + 1);
                Ok(match step {
                    Step::ReadFacts { .. } if number == 1 => StepResult::Facts(Box::new(able(facts(1), 10))),
                    Step::ReadFacts { .. } => StepResult::Facts(Box::new(able(replica_of(1, number), 10))),
                    Step::Promote { .. } => {
                        let replication = Replication::Channels(vec![]);
                        let facts = Facts { read_only: false, replication, ..able(replica_of(1, number), 10) };
                        StepResult::Facts(Box::new(facts))
                    }
                    _ => StepResult::Done,
                })
            });
        }
        assert_eq!(script.primary(), Some(2), "{steps:?}");
        assert!(script.server(1).fenced);
        let promoted = steps.iter().position(|step| step == "promote s2").unwrap();
        assert!(steps.contains(&"stop the receiver of s3".to_owned()), "{steps:?}");
        assert!(!steps[..promoted].iter().any(|step| step.contains("make s1 read-only")), "{steps:?}");
    }
}
