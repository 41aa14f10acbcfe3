//! EXPLAIN of a digest's sample: a trait that the control plane implements, and the plans that were asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use aws_lc_rs::digest;
use history::SeenPlan;
use serde_json::json;
use stats::digests::Sample;

use crate::sessions::Later;

/// Plans that are kept: the newest.
const PLANS_MAX: usize = 200;

/// Has servers explain statements.
pub trait Explainer: Send + Sync {
    /// Asks a server for its plan. The answer comes within seconds.
    ///
    /// # Errors
    /// No server can be asked, or it refuses, with what is missing in words.
    fn explain(&self, wanted: Explain) -> Later<Result<Explained, String>>;
}

/// A statement to explain.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The cluster.
    pub cluster: String,
    /// The server; `None` is a replica.
    pub server: Option<String>,
    /// The schema; empty is none.
    pub schema: String,
    /// The statement: one read.
    pub sample: Sample,
}

/// The plan of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The server.
    pub server: String,
    /// The columns, as the server names them.
    pub columns: Vec<String>,
    /// The steps; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A plan that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct KeptPlan {
    /// The digest's hash, user and schema.
    pub(crate) digest: (u64, String, String),
    /// The cluster.
    pub(crate) cluster: String,
    /// When it was asked for.
    pub(crate) at: SystemTime,
    /// The plan.
    pub(crate) plan: Explained,
}

/// The columns of a plan that make it another one. Estimates of rows change all the time.
const HASHED: [&str; 8] = ["id", "select_type", "table", "type", "key", "key_len", "ref", "extra"];

impl KeptPlan {
    /// The same for the history.
    pub(crate) fn as_seen(&self) -> SeenPlan {
        let (hash, user, schema) = &self.digest;
        let Explained { server, columns, rows } = &self.plan;
        SeenPlan {
            key: (format!("{hash:016x}"), user.clone(), schema.clone()),
            cluster: self.cluster.clone(),
            server: server.clone(),
            hash: self.plan.hash(),
            plan: json!({ "columns": columns, "rows": rows }).to_string(),
        }
    }
}

impl Explained {
    /// The hash of the way that a server goes, without its estimates.
    fn hash(&self) -> String {
        let place = |name: &&str| self.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        let places: Vec<Option<usize>> = HASHED.iter().map(place).collect();
        let mut context = digest::Context::new(&digest::SHA256);
        for row in &self.rows {
            for value in places.iter().map(|place| row.get((*place)?)?.as_deref()) {
                context.update(value.unwrap_or("\0").as_bytes());
                // No value has it.
                context.update(b"\x01");
            }
            context.update(b"\n");
        }
        context.finish().as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The newest plans, the oldest first.
#[derive(Default)]
pub(crate) struct KeptPlans(Mutex<VecDeque<KeptPlan>>);

impl KeptPlans {
    /// Keeps a plan, in place of the one that the same digest has.
    pub(crate) fn keep(&self, plan: KeptPlan) {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|kept| (&kept.digest, &kept.cluster) != (&plan.digest, &plan.cluster));
        if plans.len() >= PLANS_MAX {
            plans.pop_front();
        }
        plans.push_back(plan);
    }

    /// The plans of a digest, the newest first.
    pub(crate) fn of(&self, hash: u64) -> Vec<KeptPlan> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.iter().rev().filter(|kept| kept.digest.0 == hash).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_another_one_by_the_way_of_the_server() {
        let of = |key: Option<&str>, rows: &str, extra: &str| {
            let columns = ["id", "table", "key", "rows", "Extra"].map(str::to_owned).to_vec();
            let text = |text: &str| Some(text.to_owned());
            let row = vec![text("1"), text("t"), key.map(str::to_owned), text(rows), text(extra)];
            Explained { server: "db2".into(), columns, rows: vec![row] }.hash()
        };
        let usual = of(Some("by_k"), "10", "");
        assert_eq!((usual.len(), &usual), (16, &of(Some("by_k"), "12000", "")), "estimates are not the plan");
        assert!(usual != of(None, "10", "") && usual != of(Some("by_v"), "10", ""));
        assert_ne!(usual, of(Some("by_k"), "10", "Using filesort"));
    }

    #[test]
    fn the_newest_plan_of_each_digest_is_kept() {
        let plans = KeptPlans::default();
        let plan = |hash: u64, server: &str| KeptPlan {
            digest: (hash, "app".into(), "shop".into()),
            cluster: "main".into(),
            at: SystemTime::now(),
            plan: Explained { server: server.into(), columns: Vec::new(), rows: Vec::new() },
        };
        plans.keep(plan(7, "db2"));
        plans.keep(plan(7, "db3"));
        assert_eq!(plans.of(7).iter().map(|kept| &*kept.plan.server).collect::<Vec<_>>(), ["db3"]);
        (100..100 + PLANS_MAX as u64).for_each(|hash| plans.keep(plan(hash, "db2")));
        assert_eq!((plans.of(7).len(), plans.of(100).len()), (0, 1));
    }
}
