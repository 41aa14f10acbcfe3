//! Limits that the figures have to keep.

use crate::figures::Round;
use crate::front::{INTERVAL_MS, LAG_MAX_MS};
use crate::scenario::Scenario;

/// A figure with its bound: the worst round must keep it.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) limit: f64,
    pub(crate) value: fn(&Round) -> Option<f64>,
}

const fn ms(name: &'static str, limit: f64, value: fn(&Round) -> Option<f64>) -> Target {
    Target { name, unit: " ms", limit, value }
}

const FIRST_WRITE: fn(&Round) -> Option<f64> = |round| round.first_write_ms;
const OUTAGE: fn(&Round) -> Option<f64> = |round| round.outage_ms;
const STALL: fn(&Round) -> Option<f64> = |round| Some(round.stall_ms);
const NO_ERRORS: Target =
    Target { name: "errors", unit: "", limit: 0.0, value: |round| Some(round.errors_sum() as f64) };
const NO_RECONNECTS: Target =
    Target { name: "reconnects", unit: "", limit: 0.0, value: |round| Some(round.reconnects as f64) };
/// Errors to clients of a Sqluice that lives; each client of one that was killed hears of its end once.
const NO_ERRORS_ELSEWHERE: Target = Target {
    name: "errors but lost connections",
    unit: "",
    limit: 0.0,
    value: |round| Some(round.errors_sum() as f64 - round.reconnects as f64),
};

/// The targets of a scenario. Lost and doubled writes are no targets: they fail a round.
pub(crate) fn of(scenario: Scenario) -> Vec<Target> {
    let first_write = |limit| ms("first write", limit, FIRST_WRITE);
    let stall = |limit| ms("longest stall", limit, STALL);
    match scenario {
        Scenario::Kill | Scenario::Pair | Scenario::Back => {
            vec![first_write(1_000.0), stall(1_200.0), NO_ERRORS, NO_RECONNECTS]
        }
        Scenario::Freeze => vec![first_write(3_000.0), NO_RECONNECTS],
        Scenario::Cut => vec![NO_RECONNECTS],
        Scenario::Switchover => vec![ms("outage", 250.0, OUTAGE), NO_ERRORS, NO_RECONNECTS],
        Scenario::Replica => vec![stall(200.0), NO_ERRORS, NO_RECONNECTS],
        Scenario::Lag => {
            // A probe late, a heartbeat late.
            let limit = f64::from(LAG_MAX_MS + 2 * INTERVAL_MS);
            vec![ms("oldest read", limit, |round| round.oldest_read_ms), NO_ERRORS, NO_RECONNECTS]
        }
        Scenario::Connections => vec![NO_ERRORS, NO_RECONNECTS],
        Scenario::GaleraKill | Scenario::GaleraStop | Scenario::GaleraDonor => {
            vec![ms("wait beyond the group's standstill", 300.0, |round| round.added_ms), NO_ERRORS, NO_RECONNECTS]
        }
        Scenario::Crash => vec![NO_ERRORS_ELSEWHERE],
        Scenario::Full | Scenario::Disk => Vec::new(),
    }
}
