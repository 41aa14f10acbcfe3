//! Where a statement goes: reads outside transactions to replicas, all else to the primary.
//!
//! The decision is a pure function of what is known of the session and of the statement, so every rule is a test.

use std::rc::Rc;
use std::time::Duration;

use config::{Consistency, Split};
use facts::tables::TableScope;
use sql::{Access, Effect, Hint, HintConsistency, Statement, TransactionStep, Value, Why};

use super::decision::{Demand, Target};
use super::reason::Reason;

/// Where a rule sends a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    /// To the primary.
    Primary,
    /// To a reader, if it only reads.
    Replica,
    /// As `split = "auto"` has it.
    Auto,
    /// To this server, if it only reads.
    Server(Rc<str>),
}

/// The part of a rule that concerns routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// Where the statement goes.
    pub target: Option<RuleTarget>,
    /// The consistency of a read.
    pub consistency: Option<Consistency>,
    /// How far a replica may be behind the primary to take the read.
    pub max_lag: Option<Duration>,
}

/// The facts of a session that decide a route.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The session keeps its connection.
    pub pinned: bool,
    /// The setting of listener and user.
    pub split: Split,
    /// autocommit is on.
    pub autocommit: bool,
    /// The session's transactions are READ ONLY unless they say otherwise.
    pub reads_only: bool,
    /// The command keeps the connection whatever its statement is: a cursor, long data.
    pub will_pin: bool,
    /// The consistency of reads, by listener and user.
    pub consistency: Consistency,
    /// The cluster has a primary.
    pub has_primary: bool,
    /// The tables of the session's schema tell of one server.
    pub in_system_schema: bool,
    /// It may write although its text reads only, and a replica would refuse that: this is why.
    pub may_write: Option<Reason>,
    /// The promise of the result cache about its answer.
    pub cache: CachePromise,
}

/// The promise of the result cache about the answer of a read: it has all that was written to its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePromise {
    /// None.
    None,
    /// A rule wants it answered from the cache, and promises as much if a server answers.
    Rule,
    /// The answer is to be kept.
    Fill,
    /// The answer is to be kept for other processes, too. No replica is known to have what was written through those.
    SharedFill,
}

/// The server that a statement asks for. A pin beats everything; a hint beats a rule, a rule beats what listener and user
/// say.
pub fn demand(facts: &Facts, statement: &Statement, rule: Option<&Directive>) -> Demand {
    let consistency = consistency(facts, statement, rule);
    let (target, reason) = target(facts, statement, rule);
    let max_lag = rule.and_then(|rule| rule.max_lag);
    let demand = Demand { target, reason, consistency, max_lag, reads: TableScope::Any };
    match facts.cache {
        CachePromise::None => demand,
        _ => with_promise(demand, facts, statement, rule),
    }
}

/// The same if the result cache promises something of the answer. Clients that may reach replicas only get no promise.
#[cold]
fn with_promise(mut demand: Demand, facts: &Facts, statement: &Statement, rule: Option<&Directive>) -> Demand {
    if !demand.may_leave_primary() || facts.split == Split::Replica || !facts.has_primary {
        return demand;
    }
    let asks_for_less =
        || matches!(statement.hint, Some(Hint::Consistency(_))) || rule.is_some_and(|rule| rule.consistency.is_some());
    match facts.cache {
        CachePromise::SharedFill => (demand.target, demand.reason) = (Target::Primary, Reason::SharedFill),
        CachePromise::Fill if demand.consistency != Consistency::Cluster => demand.consistency = Consistency::Table,
        CachePromise::Rule if !demand.asks_for_all() && !asks_for_less() => demand.consistency = Consistency::Table,
        CachePromise::None | CachePromise::Fill | CachePromise::Rule => {}
    }
    demand
}

fn target(facts: &Facts, statement: &Statement, rule: Option<&Directive>) -> (Target, Reason) {
    let (target, reason) = target_by_text(facts, statement, rule);
    match (facts.may_write, reason) {
        (Some(why), _) if target == Target::Reader => (Target::Primary, why),
        (_, Reason::Read) if facts.in_system_schema && facts.has_primary => (Target::Primary, Reason::ServerState),
        (_, Reason::Read) if facts.in_system_schema => (Target::Reader, Reason::ServerState),
        // A replica tells of itself while there is no primary.
        (_, Reason::ServerState) if !facts.has_primary => (Target::Reader, reason),
        _ => (target, reason),
    }
}

fn target_by_text(facts: &Facts, statement: &Statement, rule: Option<&Directive>) -> (Target, Reason) {
    if facts.pinned {
        return (Target::Pinned, Reason::Pinned);
    }
    let reads = statement.access.only_reads();
    match &statement.hint {
        Some(Hint::Primary) => return (Target::Primary, Reason::Hint),
        Some(Hint::Replica) if reads => return (Target::Reader, Reason::Hint),
        Some(Hint::Server(name)) => return (Target::Named(Rc::from(&**name)), Reason::Hint),
        _ => {}
    }
    let target = rule.and_then(|rule| rule.target.as_ref());
    // A rule never leads writes away from the primary: neither the statement's own, nor those that follow it on a connection
    // that is kept.
    let may_leave = || reads && !opens(facts) && !statement.effects.iter().any(pins);
    match target {
        Some(RuleTarget::Primary) => return (Target::Primary, Reason::Rule),
        Some(RuleTarget::Replica) if may_leave() => return (Target::Reader, Reason::Rule),
        Some(RuleTarget::Server(name)) if may_leave() => return (Target::Named(name.clone()), Reason::Rule),
        _ => {}
    }
    match if target == Some(&RuleTarget::Auto) { Split::Auto } else { facts.split } {
        Split::Primary => return (Target::Primary, Reason::Configured),
        Split::Replica => return (Target::Reader, Reason::Configured),
        Split::Auto => {}
    }
    if let Some(TransactionStep::Begin { read_only, .. }) = statement.transaction {
        return match read_only {
            // The other statements of a text may write before it begins.
            _ if statement.parts > 1 => (Target::Primary, Reason::Transaction),
            Some(true) => (Target::Reader, Reason::ReadOnlyTransaction),
            None if facts.reads_only => (Target::Reader, Reason::ReadOnlySession),
            _ => (Target::Primary, Reason::Transaction),
        };
    }
    if !facts.autocommit {
        // A savepoint pins, for writes too.
        return match facts.reads_only && statement.transaction != Some(TransactionStep::Savepoint) {
            true => (Target::Reader, Reason::ReadOnlySession),
            false => (Target::Primary, Reason::AutocommitOff),
        };
    }
    match statement.access {
        // A statement that keeps its connection keeps it for the writes that follow, too.
        _ if facts.will_pin || statement.effects.iter().any(pins) => match statement.access {
            Access::Read => (Target::Primary, Reason::WillPin),
            Access::Primary(why) => (Target::Primary, reason_of(why)),
        },
        Access::Read => (Target::Reader, Reason::Read),
        // A USE must see the schema that this client may have created a moment ago: the primary has it.
        // A value that the server works out, perhaps from its global ones, is the primary's.
        Access::Primary(Why::SessionChange)
            if statement.kind == sql::Kind::Set
                && statement.parts == 1
                && !statement.effects.iter().any(is_worked_out) =>
        {
            (Target::Reader, Reason::SessionChange)
        }
        Access::Primary(why) => (Target::Primary, reason_of(why)),
    }
}

/// The consistency that a statement is read with: its hint's, its rule's, its session's.
fn consistency(facts: &Facts, statement: &Statement, rule: Option<&Directive>) -> Consistency {
    match statement.hint {
        Some(Hint::Consistency(HintConsistency::None)) => Consistency::None,
        Some(Hint::Consistency(HintConsistency::Session)) => Consistency::Session,
        Some(Hint::Consistency(HintConsistency::Cluster)) => Consistency::Cluster,
        Some(Hint::Consistency(HintConsistency::Table)) => Consistency::Table,
        _ => rule.and_then(|rule| rule.consistency).unwrap_or(facts.consistency),
    }
}

/// Whether the session keeps its connection behind any statement, for writes too.
fn opens(facts: &Facts) -> bool {
    facts.will_pin || !facts.autocommit && !facts.reads_only
}

/// Whether the server works out the value that this effect gives to a variable.
fn is_worked_out(effect: &Effect) -> bool {
    matches!(effect, Effect::Variable { value: Value::Default | Value::Unknown, .. })
}

/// Whether a statement with this effect leaves the session pinned.
fn pins(effect: &Effect) -> bool {
    match effect {
        Effect::UserVariable { value, .. } => *value == Value::Unknown,
        Effect::Variable { name, value } => {
            *value == Value::Unknown && !is_tracked(name)
                || matches!(&**name, "insert_id" | "rand_seed1" | "rand_seed2" | "profiling" | "optimizer_trace")
        }
        Effect::TransactionCharacteristics { session, .. } => !session,
        Effect::Role { .. }
        | Effect::CalcFoundRows
        | Effect::CountsConnection
        | Effect::PrepareText { .. }
        | Effect::MayChangeSession => true,
        _ => false,
    }
}

/// Whether a statement in a READ ONLY transaction needs the primary: it locks, or leaves something on its connection that a
/// replica would keep the session's later writes from. A function that counts as one that writes may leave the latter.
pub fn needs_primary_in_transaction(statement: &Statement) -> bool {
    let stays = |effect: &Effect| match effect {
        // Those are read back, or gone with the next statement.
        Effect::UserVariable { .. } | Effect::CalcFoundRows | Effect::TransactionCharacteristics { .. } => false,
        Effect::CreateTemporaryTable(_)
        | Effect::TakeUserLock(_)
        | Effect::OpenHandler(_)
        | Effect::LockTables(_)
        | Effect::Leaves(_) => true,
        effect => pins(effect),
    };
    statement.kind != sql::Kind::Unknown
        && (matches!(statement.access, Access::Primary(Why::LockingRead | Why::Locks | Why::Procedure | Why::WritingFunction))
            // It would be lost with the transaction's connection.
            || statement.transaction == Some(TransactionStep::Savepoint)
            || statement.effects.iter().any(stays))
}

/// Whether servers report the value that an expression gave to this variable; they do for all but a few.
fn is_tracked(name: &str) -> bool {
    name != "timestamp"
}

fn reason_of(why: Why) -> Reason {
    match why {
        Why::Writes => Reason::Writes,
        Why::Definition => Reason::Definition,
        Why::Account => Reason::Account,
        Why::Administration => Reason::Administration,
        Why::ServerState => Reason::ServerState,
        Why::LockingRead => Reason::LockingRead,
        Why::Into => Reason::Into,
        Why::Locks => Reason::Locks,
        Why::Sequence => Reason::Sequence,
        Why::AssignsVariable => Reason::AssignsVariable,
        Why::SideEffect => Reason::SideEffect,
        Why::WritingFunction => Reason::WritingFunction,
        Why::UnknownFunction => Reason::UnknownFunction,
        Why::SessionState => Reason::SessionState,
        Why::Transaction => Reason::Transaction,
        Why::SessionChange => Reason::SessionChange,
        Why::Procedure => Reason::Procedure,
        Why::Unknown => Reason::Unknown,
    }
}

#[cfg(test)]
mod tests;
