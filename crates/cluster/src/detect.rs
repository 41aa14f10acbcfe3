//! Is the primary dead? From how probes failed, and from what its replicas hear of it.
//!
//! The rule: it is dead only if it cannot be reached from here **and** the replicas that can be reached have lost it. A
//! replica that still hears it vetoes; a replica that tells nothing has no vote.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::observation::{Channel, FailureClass, Receiver};

/// How many changes of a channel's sign of life are remembered.
const CHANGES_MAX: usize = 6;
/// A silence shorter than this says nothing, however often the source was heard.
const SILENCE_MIN: Duration = Duration::from_millis(800);

/// The history of a channel from the primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    last: Option<u64>,
    /// When it was seen to have changed.
    changes: VecDeque<Instant>,
    /// Since when it is watched.
    since: Option<Instant>,
}

impl Pulse {
    /// Takes a reading.
    pub(crate) fn note(&mut self, now: Instant, life: Option<u64>) {
        if life.is_none() || life == self.last {
            return;
        }
        if self.last.is_some() {
            if self.changes.len() >= CHANGES_MAX {
                self.changes.pop_front();
            }
            self.changes.push_back(now);
        }
        self.since.get_or_insert(now);
        self.last = life;
    }

    /// When the source was last heard, as far as is known.
    fn heard(&self) -> Option<Instant> {
        self.changes.back().copied().or(self.since)
    }

    /// Whether something came with nearly every probe until it stopped.
    fn was_steady(&self, interval: Duration) -> bool {
        let gaps = self.changes.iter().zip(self.changes.iter().skip(1));
        self.changes.len() >= 3 && gaps.clone().all(|(before, after)| *after - *before <= interval * 3)
    }
}

/// A replica of the primary, as a witness.
pub(crate) struct Witness<'a> {
    pub(crate) channel: &'a Channel,
    pub(crate) pulse: &'a Pulse,
    /// When it was read.
    pub(crate) read: Instant,
}

/// The statement of a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Testimony {
    /// It hears the primary.
    Hears,
    /// It has lost it.
    Lost,
    /// It is connected and hears nothing, while it used to hear something with each heartbeat of ours.
    Quiet,
    /// It has nothing to say.
    None,
}

impl Witness<'_> {
    /// `failing_since` is when the primary stopped answering here.
    pub(crate) fn testifies(&self, failing_since: Instant, interval: Duration) -> Testimony {
        // Whether it hears the primary now is not known.
        if self.channel.outdated {
            return Testimony::None;
        }
        match self.channel.receiver {
            Receiver::Connecting => return Testimony::Lost,
            Receiver::Stopped => return Testimony::None,
            Receiver::Running => {}
        }
        // Without a sign of life in this reading the earlier ones do not tell of a silence.
        let Some(heard) = self.pulse.heard().filter(|_| self.channel.life.is_some()) else { return Testimony::Hears };
        let silent = self.read.saturating_duration_since(heard);
        let by_period = self.channel.heartbeat_period.filter(|period| !period.is_zero());
        // A sign of life is noticed late, never early: the true silence is at least as long.
        if by_period.is_some_and(|period| silent > period * 3 / 2) {
            return Testimony::Lost;
        }
        let long = silent >= SILENCE_MIN.max(interval * 2);
        if long && self.read >= failing_since && self.pulse.was_steady(interval) {
            return Testimony::Quiet;
        }
        Testimony::Hears
    }
}

/// The state of the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does not answer, and its replicas have lost it.
    Dead,
    /// The host takes connections, nothing answers, and its replicas hear nothing.
    Frozen,
    /// It may be frozen; another look tells.
    MaybeFrozen,
    /// Its replicas still hear it.
    Heard(usize),
    /// No replica tells anything.
    NoWitness,
    /// Some replicas were not asked since it stopped answering.
    AskFirst(Vec<usize>),
    /// The way it fails is no sign of death.
    Refuses,
}

/// Judges a primary whose last probe failed in this way. The witnesses' numbers are those of the caller; a witness without a
/// reading is one whose reading is older than the failure.
pub(crate) fn judge(class: FailureClass, testimonies: &[(usize, Option<Testimony>)]) -> Verdict {
    if class.proves_life() || matches!(class, FailureClass::Tls | FailureClass::Protocol) {
        return Verdict::Refuses;
    }
    if let Some((witness, _)) = testimonies.iter().find(|(_, says)| *says == Some(Testimony::Hears)) {
        return Verdict::Heard(*witness);
    }
    let unread: Vec<usize> =
        testimonies.iter().filter(|(_, says)| says.is_none()).map(|(witness, _)| *witness).collect();
    if !unread.is_empty() {
        return Verdict::AskFirst(unread);
    }
    let says = |what: Testimony| testimonies.iter().any(|(_, says)| *says == Some(what));
    match (says(Testimony::Lost), says(Testimony::Quiet), class) {
        (_, true, FailureClass::Silent) => Verdict::Frozen,
        (_, true, FailureClass::Timeout) => Verdict::MaybeFrozen,
        // Its process is gone; a replica that was quiet has not noticed yet, which takes it moments.
        (true, true, _) => Verdict::Dead,
        (false, true, _) => Verdict::MaybeFrozen,
        (true, false, _) => Verdict::Dead,
        (false, false, _) => Verdict::NoWitness,
    }
}
