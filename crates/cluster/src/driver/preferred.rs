//! A failover promotes whoever has the data. When that is not the server that the rules prefer, the role moves on to the preferred
//! one by a switchover as soon as that has the data too: the pause of clients is short both times, and nothing is lost.
//!
//! Only servers that took part in the failover are meant. One that comes back later is not given the role by itself.

use std::time::{Duration, Instant};

use facts::view::{Health, ServerId};

use super::Driver;
use super::run::{Run, RunKind};
use crate::observation::Receiver;

/// A server is moved to only when it is no further behind: writes are held until it has caught up.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// A switchover that did not come about is tried again: its server may have been behind for a moment. Each may hold writes for a
/// moment, so it is not tried for ever.
const TRIES_MAX: u32 = 3;
/// Time from one try to the next.
const TRY_PACE: Duration = Duration::from_secs(5);

/// The move that a failover left to be done.
#[derive(Clone)]
pub(super) struct MoveOn {
    /// Those that took part and have a better rule, the best first.
    to: Vec<ServerId>,
    ends: Instant,
    tries_left: u32,
    /// Not tried before.
    not_before: Instant,
}

impl Driver {
    /// Remembers who should have been promoted.
    pub(super) fn note_preferred(&mut self, now: Instant, run: &Run) {
        let within = self.settings.failover.preferred_within;
        self.reign.plan_move(None);
        let Some(new) = run.new.filter(|_| run.wanted.is_none() && !within.is_zero()) else { return };
        let rank = |id: &ServerId| self.index(*id).map(|index| self.servers[index].spec.promotion.rank());
        let mut to: Vec<ServerId> =
            run.with.iter().copied().filter(|id| Some(*id) != run.old && rank(id) < rank(&new)).collect();
        to.sort_by_key(|id| (rank(id), *id));
        if !to.is_empty() {
            let plan = MoveOn { to, ends: now + within, tries_left: TRIES_MAX, not_before: now };
            self.reign.plan_move(Some(plan));
        }
    }

    /// Begins the switchover when a better server is ready.
    pub(super) fn move_on_to_preferred(&mut self, now: Instant) {
        let (Some(from), Some(plan)) = (self.reign.appointed(), self.reign.move_on()) else { return };
        if plan.ends <= now || plan.tries_left == 0 || !self.acts() {
            self.reign.plan_move(None);
            return;
        }
        // Servers are being put right, or it is not seen yet as the primary.
        if self.view.primary != Some(from) || !self.runs.is_empty() || now < plan.not_before {
            return;
        }
        let plan = plan.clone();
        let Some(primary) = self.index(from).filter(|primary| self.reached(*primary, now)) else { return };
        if !self.could_follow(primary) {
            self.reign.plan_move(None);
            return;
        }
        for to in plan.to.iter().copied() {
            let Some(index) = self.index(to).filter(|index| self.is_close_behind(*index, primary)) else { continue };
            let mut run = Driver::new_run(RunKind::Switchover, Some(from));
            run.wanted = Some(to);
            if self.choose(now, &run, true).chosen != Some(index) {
                continue;
            }
            // When it comes about, the other server is appointed, without a plan.
            let (tries_left, not_before) = (plan.tries_left - 1, now + TRY_PACE);
            self.reign.plan_move(Some(MoveOn { tries_left, not_before, ..plan.clone() }));
            let rule = |index: usize| self.servers[index].spec.promotion.word();
            let (better, worse) = (self.name_of(to), self.name_of(from));
            let why = format!(
                "{better} (`{}`) has what {worse} (`{}`) was promoted for, so the role moves on",
                rule(index),
                rule(primary)
            );
            self.begin(now, run, why);
            return;
        }
    }

    fn is_close_behind(&self, index: usize, primary: usize) -> bool {
        let server = &self.servers[index];
        let running = self
            .channel_from(index, primary)
            .is_some_and(|channel| channel.receiver == Receiver::Running && channel.applier_running);
        running && server.health.health() == Health::Up && server.lag.is_some_and(|lag| lag <= BEHIND_MAX)
    }
}
