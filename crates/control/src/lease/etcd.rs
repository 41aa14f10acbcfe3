//! A key in etcd that lives as long as an etcd lease.
//!
//! The process that creates the key holds the cluster's lease; etcd removes it when the holder has not renewed the etcd lease
//! for its time. A renewal counts from before it was asked for, and for less than etcd counts, so the holder gives up first.
//! It counts only when a linearizable read behind it finds the key with that etcd lease in the same term: a leader that was
//! cut off from the other members renews leases for a while that the new leader lets run out (etcd issue 15247).

mod gateway;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use net::tls::ClientTls;
use serde_json::{Value, json};

use self::gateway::{Gateway, Trouble};
use super::{Core, Words};
use crate::task::{Owned, own};

/// How often a renewal is repeated at once because etcd changed its leader in the middle of it.
const LOOKS_MAX: usize = 3;
/// Renewals within the lease's time, at least.
const RENEWALS: u32 = 3;
/// The longest name of another process that is shown, in characters.
const NAME_SHOWN_MAX: usize = 100;

/// The state of the key.
enum KeyState {
    /// No request was made yet, or the lease was given up.
    Unknown,
    /// This process has it.
    Held,
    /// The process of this name has it.
    Elsewhere(String),
    /// It could not be asked for, in words.
    Failed(String),
}

pub(super) struct State {
    core: Rc<Core>,
    key: String,
    key_state: RefCell<KeyState>,
}

/// How long a renewal is good for: a tenth less than etcd counts, for clocks that do not run alike.
pub(super) fn worth(lease_time: Duration) -> Duration {
    lease_time - lease_time / 10
}

/// Tries for the key.
pub(super) fn start(
    cluster: &str,
    etcd: config::Etcd,
    tls: ClientTls,
    lease_time: Duration,
    interval: Duration,
    core: Rc<Core>,
) -> (Rc<State>, Owned) {
    let holder = Holder {
        cluster: cluster.into(),
        state: Rc::new(State::new(cluster, &etcd.prefix, core)),
        gateway: Gateway::new(etcd, tls, lease_time / 4),
        name: own_name(),
        lease_time,
        interval: interval.min(lease_time / RENEWALS),
        lease: None,
    };
    (holder.state.clone(), own(holder.run()))
}

/// The name of this process for others: host and process id, and something that no other process has.
fn own_name() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let make = || {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let unique = std::collections::hash_map::RandomState::new().build_hasher().finish();
        format!("{} {} {unique:016x}", host.trim(), std::process::id())
    };
    NAME.get_or_init(make).clone()
}

impl State {
    fn new(cluster: &str, prefix: &str, core: Rc<Core>) -> State {
        State { core, key: format!("{prefix}/{cluster}/holder"), key_state: RefCell::new(KeyState::Unknown) }
    }

    fn set(&self, key_state: KeyState, until: Option<Instant>) {
        match &key_state {
            KeyState::Held => self.core.count(|counts| &mut counts.held),
            KeyState::Elsewhere(_) => self.core.count(|counts| &mut counts.elsewhere),
            KeyState::Failed(_) => self.core.count(|counts| &mut counts.failed),
            KeyState::Unknown => {}
        }
        self.key_state.replace(key_state);
        self.core.set_held(until);
    }
}

impl Words for State {
    fn words(&self, now: Instant) -> String {
        let key = &self.key;
        let still = self.core.held.borrow().is_some_and(|end| end > now);
        match &*self.key_state.borrow() {
            KeyState::Held if still => format!("etcd key {key}"),
            KeyState::Unknown | KeyState::Held => format!("etcd key {key} is not confirmed"),
            KeyState::Elsewhere(name) => format!("etcd key {key} is held by another process: {name}"),
            KeyState::Failed(text) if still => format!("etcd key {key}; cannot be renewed: {text}"),
            KeyState::Failed(text) => format!("etcd key {key} cannot be had: {text}"),
        }
    }
}

/// Holds the key.
struct Holder {
    cluster: Arc<str>,
    state: Rc<State>,
    gateway: Gateway,
    name: String,
    lease_time: Duration,
    interval: Duration,
    /// The etcd lease that the key has, or would have.
    lease: Option<i64>,
}

/// The result of a look at the key.
enum Look {
    /// It is this process's until then.
    Held(Instant),
    Elsewhere(String),
    /// It must be looked at again.
    Again,
}

impl Holder {
    async fn run(mut self) {
        let mut failing = false;
        loop {
            let state = self.state.clone();
            let hurry = state.core.hurry.notified();
            tokio::pin!(hurry);
            hurry.as_mut().enable();
            if state.core.paused(Instant::now()) {
                state.set(KeyState::Unknown, None);
                self.give_up().await;
                state.core.given_up.notify_waiters();
            } else {
                // A lease that was held before a failure is held until its end all the same.
                let before = *state.core.held.borrow();
                let limit = worth(self.lease_time);
                let looked = tokio::time::timeout(limit, self.confirm()).await;
                let looked = looked.unwrap_or_else(|_| Err("no answer in time".into()));
                if looked.is_err() != failing {
                    failing = looked.is_err();
                    let cluster = &*self.cluster;
                    match &looked {
                        Err(text) => tracing::warn!(cluster, "the lease cannot be asked for: {text}"),
                        Ok(_) => tracing::info!(cluster, "the lease can be asked for again"),
                    }
                }
                match looked {
                    Ok(Look::Held(end)) => state.set(KeyState::Held, Some(end)),
                    Ok(Look::Elsewhere(name)) => state.set(KeyState::Elsewhere(name), None),
                    Ok(Look::Again) => state.set(KeyState::Failed("etcd changes its leader".into()), before),
                    Err(text) => state.set(KeyState::Failed(text), before),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = hurry => {}
            }
        }
    }

    async fn confirm(&mut self) -> Result<Look, String> {
        for _ in 0..LOOKS_MAX {
            match self.look().await.map_err(|trouble| trouble.to_string())? {
                Look::Again => {}
                look => return Ok(look),
            }
        }
        Ok(Look::Again)
    }

    /// Renews the etcd lease and looks whose the key is; takes it when it is free.
    async fn look(&mut self) -> Result<Look, Trouble> {
        let asked = Instant::now();
        let renewed_in = self.renew().await?;
        let answer = self.gateway.call("kv/range", &json!({ "key": BASE64.encode(&self.state.key) })).await?;
        let Some(found) = answer["kvs"].get(0) else {
            self.create().await?;
            return Ok(Look::Again);
        };
        let (lease, name) = (number(&found["lease"]), text(&found["value"]));
        if lease.is_some() && lease == self.lease {
            let same_term = renewed_in.is_some() && renewed_in == number(&answer["header"]["raft_term"]);
            return Ok(if same_term { Look::Held(asked + worth(self.lease_time)) } else { Look::Again });
        }
        // A reload made this task anew: the key is from before.
        if lease.is_some() && name == self.name {
            self.lease = lease;
            return Ok(Look::Again);
        }
        // An etcd lease that no key has ends by itself.
        self.lease = None;
        Ok(Look::Elsewhere(name.chars().take(NAME_SHOWN_MAX).filter(|c| !c.is_control()).collect()))
    }

    /// Renews the etcd lease, if there is one, and gives etcd's term in which that was.
    async fn renew(&mut self) -> Result<Option<i64>, Trouble> {
        let Some(lease) = self.lease else { return Ok(None) };
        let answer = self.gateway.call("lease/keepalive", &json!({ "ID": lease.to_string() })).await?;
        let answer = &answer["result"];
        if number(&answer["TTL"]).is_none_or(|seconds| seconds <= 0) {
            self.lease = None;
            return Ok(None);
        }
        Ok(number(&answer["header"]["raft_term"]))
    }

    /// Creates the key, unless somebody else was faster.
    async fn create(&mut self) -> Result<(), Trouble> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => self.grant().await?,
        };
        let key = BASE64.encode(&self.state.key);
        let put = json!({ "key": key, "value": BASE64.encode(&self.name), "lease": lease.to_string() });
        let absent = json!({ "target": "CREATE", "result": "EQUAL", "key": key, "create_revision": "0" });
        let transaction = json!({ "compare": [absent], "success": [{ "request_put": put }] });
        self.gateway.call("kv/txn", &transaction).await?;
        Ok(())
    }

    async fn grant(&mut self) -> Result<i64, Trouble> {
        let seconds = self.lease_time.as_secs();
        let answer = self.gateway.call("lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        let granted = number(&answer["TTL"]).and_then(|granted| u64::try_from(granted).ok());
        let lease = number(&answer["ID"]).filter(|_| granted.is_some_and(|granted| granted >= seconds));
        let lease = lease.ok_or_else(|| Trouble::Protocol("no lease of this length was granted".into()))?;
        self.lease = Some(lease);
        Ok(lease)
    }

    async fn give_up(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        // Without this it ends by itself.
        let which = json!({ "ID": lease.to_string() });
        let revoked = self.gateway.call("lease/revoke", &which);
        if !matches!(tokio::time::timeout(self.lease_time, revoked).await, Ok(Ok(_))) {
            tracing::debug!(cluster = &*self.cluster, "the lease was not given back to etcd; it runs out");
        }
    }
}

/// A 64-bit number, which the gateway writes as text; nothing is written for zero.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn text(value: &Value) -> String {
    let bytes = value.as_str().and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
