//! Reports of a Galera group's members about their binary logs, which prove writes in doubt.
//!
//! With `wsrep_gtid_mode` all members give a transaction the same GTID. A member's log then holds what the whole group
//! wrote, in the group's order, and the transactions that servers confirmed to sessions can be found there.

use std::sync::Arc;

use crate::gtid::mariadb::{Gtid, Gtids};
use crate::view::ServerId;

/// The report of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberLog {
    /// `wsrep_gcomm_uuid`: the member, for as long as its process belongs to the group.
    pub member: Arc<str>,
    /// Where its binary log ended (`gtid_binlog_pos`); `None` when there is none.
    pub end: Option<Gtids>,
    /// How it numbers transactions.
    pub numbering: Option<Numbering>,
    /// The settings without which its log proves nothing, in the order in which servers document them.
    pub lacks: Vec<&'static str>,
}

/// How a member gets from the group's own numbers to those in GTIDs. Members that agree in this give a transaction the same
/// GTID; one that has logged something by itself does not agree any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// The domain of the group's GTIDs.
    pub domain: u32,
    /// How much greater the group's number of a transaction is than the one in its GTID.
    pub ahead: u64,
}

impl Numbering {
    /// Reads `wsrep_se_checkpoint`: the group and its number of the last transaction, and that one's GTID. `None` if there is no GTID.
    pub fn parse(checkpoint: &str) -> Option<Numbering> {
        let (group, gtid) = checkpoint.trim().split_once(' ')?;
        let (_, number) = group.rsplit_once(':')?;
        let gtids = Gtids::parse(gtid)?;
        let Gtid { domain, sequence, .. } = *gtids.iter().next()?;
        Some(Numbering { domain, ahead: number.parse::<u64>().ok()?.checked_sub(sequence)? })
    }
}

/// The last reports of all members.
#[derive(Clone, Debug, Default)]
pub struct GroupLogs {
    /// By [`ServerId`].
    servers: Vec<Option<Arc<MemberLog>>>,
}

impl GroupLogs {
    /// The last report of this member.
    pub fn of(&self, server: ServerId) -> Option<&Arc<MemberLog>> {
        self.servers.get(usize::from(server.0))?.as_ref()
    }

    /// The same with a member's new report.
    pub fn with(&self, server: ServerId, reported: MemberLog) -> GroupLogs {
        let mut logs = self.clone();
        let index = usize::from(server.0);
        if logs.servers.len() <= index {
            logs.servers.resize(index + 1, None);
        }
        logs.servers[index] = Some(Arc::new(reported));
        logs
    }

    /// Where in the log of `here` to begin with what `lost` was sent after this was told, and which members both were; or why its
    /// log proves nothing.
    pub fn tail_of(&self, here: ServerId, lost: ServerId) -> Result<Tail<'_>, String> {
        let known = |server| self.of(server).map(|log| &**log).filter(|log| !log.member.is_empty());
        let (Some(here), Some(lost)) = (known(here), known(lost)) else {
            return Err("its position when the statement was sent is not known".into());
        };
        if let Some(lacking) = [here, lost].into_iter().find(|log| !log.lacks.is_empty()) {
            return Err(format!("a member lacks {}", lacking.lacks.join(", ")));
        }
        let Some(end) = here.end.as_ref().filter(|end| !end.is_empty()) else {
            return Err("its log is empty".into());
        };
        match (here.numbering, lost.numbering) {
            (Some(one), Some(other)) if one == other && end.of(one.domain).is_some() => {
                Ok(Tail { from: end, here: &here.member, lost: &lost.member })
            }
            _ => Err("members do not give transactions the same GTIDs".into()),
        }
    }
}

/// The part of a member's log in which a lost member's statement must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail<'a> {
    /// Where it begins.
    pub from: &'a Gtids,
    /// The member that has the log.
    pub here: &'a str,
    /// The member that was lost.
    pub lost: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ServerId = ServerId(1);
    const LOST: ServerId = ServerId(0);

    fn log(member: &str, end: &str, checkpoint: &str) -> MemberLog {
        MemberLog {
            member: member.into(),
            end: Gtids::parse(end),
            numbering: Numbering::parse(checkpoint),
            lacks: Vec::new(),
        }
    }

    fn tail(here: MemberLog, lost: MemberLog) -> Result<String, String> {
        let logs = GroupLogs::default().with(HERE, here).with(LOST, lost);
        logs.tail_of(HERE, LOST).map(|tail| format!("{} of {} behind {}", tail.from, tail.here, tail.lost))
    }

    #[test]
    fn numberings_are_read() {
        let of = |text| Numbering::parse(text);
        assert_eq!(of("17e1d65e-e6be-11f1:2422 7-1-2416"), Some(Numbering { domain: 7, ahead: 6 }));
        for text in ["", "17e1d65e:20", "17e1d65e:20 ", "17e1d65e:20 what", "17e1d65e:x 7-1-2", "17e1d65e:1 7-1-2"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_log_that_numbers_as_the_lost_member_did_proves_anything() {
        let (here, lost) = (log("b", "0-2-5,7-1-30", "g:36 7-1-30"), log("a", "7-1-40", "g:46 7-1-40"));
        assert_eq!(tail(here.clone(), lost.clone()).unwrap(), "0-2-5,7-1-30 of b behind a");
        for bad in [
            log("a", "7-1-40", "g:47 7-1-40"),
            log("a", "7-1-40", "g:46 8-1-40"),
            log("a", "7-1-40", "g:46"),
            log("", "7-1-40", "g:46 7-1-40"),
            MemberLog { lacks: vec!["log_bin"], ..lost.clone() },
        ] {
            assert!(tail(here.clone(), bad.clone()).is_err(), "{bad:?}");
            assert!(tail(bad.clone(), here.clone()).is_err(), "{bad:?}");
        }
        let without = |end: &str| log("b", end, "g:36 7-1-30");
        assert!(tail(without(""), lost.clone()).is_err(), "nothing logged");
        assert!(tail(without("0-2-5"), lost.clone()).is_err(), "nothing of the group logged");
        assert!(tail(MemberLog { end: None, ..here.clone() }, lost).is_err());
        assert!(GroupLogs::default().with(HERE, here).tail_of(HERE, LOST).is_err(), "never probed");
    }
}
