//! How far a replica is behind, and whether reads may go to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::observation::{Channel, Facts, Receiver, Replication};

/// Lag is not believed when its last reading is older than this or ten probe intervals, whichever is longer.
const STALE_AFTER_MIN: Duration = Duration::from_secs(10);

/// The bounds of the verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_lag: Duration,
    pub(crate) interval: Duration,
    /// How long a receiver may be reconnecting before it counts as broken.
    pub(crate) reconnect_grace: Duration,
}

impl Bounds {
    pub(crate) fn stale_after(&self) -> Duration {
        STALE_AFTER_MIN.max(self.interval * 10)
    }
}

/// The state that is kept between readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct LagState {
    /// Whether the bound was kept; `None` before the first reading.
    within: Option<bool>,
    /// Since when a receiver has been reconnecting.
    reconnecting_since: Option<Instant>,
}

/// The verdict on a replica.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) lag: Option<Duration>,
    pub(crate) serves_reads: bool,
    /// Replication does not run.
    pub(crate) broken: bool,
    /// Why, in words.
    pub(crate) reason: Arc<str>,
}

impl Verdict {
    /// Nothing is known of its lag, and it takes no reads.
    pub(crate) fn nothing(reason: &str) -> Verdict {
        Verdict { lag: None, serves_reads: false, broken: false, reason: reason.into() }
    }
}

impl LagState {
    /// Judges a replica. `channels` are those that count (from servers of the cluster, else all); `source_gone` says
    /// that what it follows is known to be down, so that no replica can be fresher.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        bounds: &Bounds,
        facts: &Facts,
        facts_at: Instant,
        channels: &[&Channel],
        source_gone: bool,
    ) -> Verdict {
        if let Replication::Unreadable(why) = &facts.replication {
            return match facts.heartbeat_lag {
                Some(lag) => self.bounded(bounds, lag),
                None => refuse(format!("its replication status cannot be read: {why}"), false),
            };
        }
        if now.saturating_duration_since(facts_at) > bounds.stale_after() {
            return refuse("its lag was not read for too long".into(), false);
        }
        if channels.iter().all(|channel| channel.receiver != Receiver::Connecting) {
            self.reconnecting_since = None;
        }
        for channel in channels {
            if !channel.applier_running {
                return refuse(broken_words("the applying thread is stopped", &channel.applier_error), true);
            }
            match channel.receiver {
                Receiver::Running => {}
                _ if source_gone => return self.orphan(),
                Receiver::Stopped => {
                    return refuse(broken_words("the receiving thread is stopped", &channel.receiver_error), true);
                }
                Receiver::Connecting => {
                    let since = *self.reconnecting_since.get_or_insert(now);
                    if now.saturating_duration_since(since) < bounds.reconnect_grace && self.within != Some(false) {
                        return Verdict {
                            lag: None,
                            serves_reads: self.within == Some(true),
                            broken: false,
                            reason: "it reconnects to its source".into(),
                        };
                    }
                    return refuse(
                        broken_words("the receiving thread cannot connect to its source", &channel.receiver_error),
                        true,
                    );
                }
            }
        }
        let reported = channels.iter().map(|channel| channel.seconds_behind.map(Duration::from_secs));
        let reported = reported.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
        match facts.heartbeat_lag.or(reported) {
            Some(lag) => self.bounded(bounds, lag),
            None if channels.iter().any(|channel| channel.outdated) => refuse(
                "its replication status does not come, and no heartbeat tells how far it is behind".into(),
                false,
            ),
            None => refuse("the server does not tell how far it is behind".into(), false),
        }
    }

    /// The source is down: what was fresh enough stays as fresh as any replica can be.
    fn orphan(&self) -> Verdict {
        match self.within {
            Some(true) => Verdict {
                lag: None,
                serves_reads: true,
                broken: false,
                reason: "its source is down; it was fresh enough when that was lost".into(),
            },
            _ => refuse("its source is down and it was not known to be fresh enough".into(), true),
        }
    }

    fn bounded(&mut self, bounds: &Bounds, lag: Duration) -> Verdict {
        let max = bounds.max_lag;
        let limit = if self.within == Some(false) { max.mul_f64(0.8) } else { max };
        let within = lag <= limit;
        self.within = Some(within);
        let reason = match within {
            true => "it follows within max_lag_ms".into(),
            false if lag <= max => {
                format!("its lag came below max_lag_ms ({}), not yet below 80 % of it", ms(max)).into()
            }
            false => format!("it is behind by more than max_lag_ms ({})", ms(max)).into(),
        };
        Verdict { lag: Some(lag), serves_reads: within, broken: false, reason }
    }
}

fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

fn broken_words(what: &str, error: &str) -> String {
    if error.is_empty() { what.to_owned() } else { format!("{what}: {error}") }
}

fn refuse(reason: String, broken: bool) -> Verdict {
    Verdict { lag: None, serves_reads: false, broken, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::script::{channel, facts, start};

    const BOUNDS: Bounds = Bounds {
        max_lag: Duration::from_secs(10),
        interval: Duration::from_millis(500),
        reconnect_grace: Duration::from_secs(2),
    };

    fn judge(state: &mut LagState, now: Instant, channel: &Channel, source_gone: bool) -> Verdict {
        state.judge(now, &BOUNDS, &facts(2), now, &[channel], source_gone)
    }

    fn behind(state: &mut LagState, seconds: Option<u64>) -> Verdict {
        let mut channel = channel(1);
        channel.seconds_behind = seconds;
        judge(state, start(), &channel, false)
    }

    #[test]
    fn out_above_the_bound_and_back_below_four_fifths_of_it() {
        let mut state = LagState::default();
        let served: Vec<bool> =
            [10, 11, 10, 9, 8, 9, 10, 11].map(|seconds| behind(&mut state, Some(seconds)).serves_reads).into();
        assert_eq!(served, [true, false, false, false, true, true, true, false]);
    }

    #[test]
    fn null_is_not_zero() {
        let verdict = behind(&mut LagState::default(), None);
        assert_eq!((verdict.lag, verdict.serves_reads), (None, false));
    }

    #[test]
    fn without_its_status_a_replica_serves_by_the_heartbeat_alone() {
        let (mut facts, mut channel) = (facts(2), channel(1));
        (channel.outdated, channel.seconds_behind) = (true, None);
        let verdict = judge(&mut LagState::default(), start(), &channel, false);
        assert!(!verdict.serves_reads && verdict.reason.contains("status does not come"), "{verdict:?}");
        facts.heartbeat_lag = Some(Duration::from_millis(300));
        let verdict = LagState::default().judge(start(), &BOUNDS, &facts, start(), &[&channel], false);
        assert_eq!((verdict.lag, verdict.serves_reads), (facts.heartbeat_lag, true));
    }

    #[test]
    fn a_heartbeat_is_preferred_and_finer_than_a_second() {
        let mut facts = facts(2);
        facts.heartbeat_lag = Some(Duration::from_millis(120));
        let mut channel = channel(1);
        channel.seconds_behind = Some(50);
        let now = start();
        let verdict = LagState::default().judge(now, &BOUNDS, &facts, now, &[&channel], false);
        assert_eq!((verdict.lag, verdict.serves_reads), (Some(Duration::from_millis(120)), true));
    }

    #[test]
    fn a_stopped_thread_takes_reads_away_and_tells_the_error() {
        let mut state = LagState::default();
        behind(&mut state, Some(0));
        let mut stopped = channel(1);
        (stopped.applier_running, stopped.applier_error) = (false, "duplicate key".into());
        let verdict = judge(&mut state, start(), &stopped, true);
        assert!(!verdict.serves_reads && verdict.broken && verdict.reason.contains("duplicate key"), "{verdict:?}");
        let mut stopped = channel(1);
        stopped.receiver = Receiver::Stopped;
        let verdict = judge(&mut state, start(), &stopped, false);
        assert!(!verdict.serves_reads && verdict.lag.is_none() && verdict.broken);
    }

    #[test]
    fn reconnecting_is_forgiven_for_a_while() {
        let mut state = LagState::default();
        behind(&mut state, Some(0));
        let mut lost = channel(1);
        (lost.receiver, lost.seconds_behind) = (Receiver::Connecting, None);
        let begin = start();
        let served =
            |state: &mut LagState, after| judge(state, begin + Duration::from_millis(after), &lost, false).serves_reads;
        assert_eq!([0, 1999, 2000].map(|after| served(&mut state, after)), [true, true, false]);
        behind(&mut state, Some(0));
        assert!(served(&mut state, 9000), "the grace starts anew after it was connected");
    }

    #[test]
    fn replicas_of_a_dead_source_go_on_serving_if_they_were_fresh() {
        let mut state = LagState::default();
        let mut lost = channel(1);
        (lost.receiver, lost.seconds_behind) = (Receiver::Connecting, None);
        assert!(!judge(&mut state.clone(), start(), &lost, true).serves_reads);
        behind(&mut state, Some(0));
        let verdict = judge(&mut state, start() + Duration::from_secs(60), &lost, true);
        assert_eq!((verdict.lag, verdict.serves_reads), (None, true));
    }

    #[test]
    fn old_readings_are_not_believed() {
        let now = start();
        let (facts, channel) = (facts(2), channel(1));
        let mut state = LagState::default();
        let later = now + Duration::from_millis(10_001);
        assert!(!state.judge(later, &BOUNDS, &facts, now, &[&channel], false).serves_reads);
        assert!(state.judge(now, &BOUNDS, &facts, now, &[&channel], false).serves_reads);
    }
}
