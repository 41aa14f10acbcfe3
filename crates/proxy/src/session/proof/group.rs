//! The conditions under which a log proves something in a Galera group.
//!
//! The group orders all transactions and all changes of its members. A member that shows a view without the lost one has finished,
//! binary log and all, every transaction that the lost one got into that order: Galera's `process_prim_conf_change` waits for its
//! appliers before it takes the view, and MariaDB writes the view to `mysql.wsrep_cluster_members` behind that. Nothing of the lost
//! member comes later, unless it comes back and goes on with what it was doing: see [`Lost::ended`].
//!
//! When all members lose one another the group goes on with the lost one as if nothing had been. If that one has ended the statement, and
//! then answers a read that waits for the group (`wsrep_sync_wait`), its own log is proof: what it had given to the group before it gave
//! up is ordered ahead of that read, or was dropped with the group's old view, and the read is answered when all that is ordered ahead
//! of it is done.

use std::time::{Duration, Instant};

use facts::group_logs::GroupLogs;
use facts::view::{ServerId, ServerView};
use net::query::{self, Client, Limits, QueryError};
use wire::auth::Credential;

use super::{From, READ_WAIT};
use crate::session::Session;
use crate::session::lost::Lost;

/// How long the group may stand still before it goes on without the lost member; its own limits are shorter.
const GROUP_WAIT: Duration = Duration::from_secs(30);
/// How often the new writer is asked whether the lost member is out of its view.
const VIEW_PACE: Duration = Duration::from_millis(5);
/// How often the lost member is asked whether it is back in its group, by each session with a login of its own, and how long it may take to
/// answer.
const BACK_PACE: Duration = Duration::from_millis(200);
const BACK_WAIT: Duration = Duration::from_secs(2);
/// Answered when all is done that the group had ordered before.
const IN_GROUP: &str = "SET SESSION wsrep_sync_wait = 1; START TRANSACTION READ ONLY; COMMIT";
/// The members of its view, the member itself, and what it is part of.
const VIEW: &str = "SELECT LOWER(node_uuid) FROM mysql.wsrep_cluster_members; \
                    SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_gcomm_uuid', 'wsrep_cluster_status')";

impl Session {
    /// Waits until this member has all that the lost one has ever got into the group's order, or until that one is back and has it itself.
    /// Gives whose log it is in, where that begins to matter, and since when.
    pub(super) async fn beginning_in_group(
        &self,
        on: &ServerView,
        lost: &Lost,
        known: &GroupLogs,
    ) -> Result<(ServerId, From, Instant), String> {
        let (logs, noted) = self
            .here
            .cluster
            .group_logs_before(lost.at)
            .ok_or("its position when the statement was sent is not known")?;
        let tail = logs.tail_of(on.id, lost.server)?;
        // A member that was started again just before is another one. Nothing was sent to it before it was known.
        if known.of(lost.server).is_none_or(|log| *log.member != *tail.lost) {
            return Err("the member was started again meanwhile".into());
        }
        let until = tokio::time::Instant::now() + GROUP_WAIT;
        let gone_on = async {
            let waited = match tokio::time::timeout_at(until, self.wait_for_view(on, tail.here, tail.lost)).await {
                Ok(waited) => waited,
                Err(_) => Err("the group has not gone on without the member".into()),
            };
            if waited.is_err() && lost.ended {
                // This one may have lost the group, too, and the other one be the first that is back.
                tokio::time::sleep_until(until).await;
            }
            waited
        };
        let back = async {
            while !self.is_back(lost.server, Some(tail.lost)).await {
                tokio::time::sleep(BACK_PACE).await;
            }
        };
        tokio::select! {
            waited = gone_on => waited.map(|()| (on.id, From::MariaDb(tail.from.clone()), noted)),
            () = back, if lost.ended => {
                let own = logs.tail_of(lost.server, lost.server)?;
                Ok((lost.server, From::MariaDb(own.from.clone()), noted))
            }
        }
    }

    /// Waits until a member, `here`, shows a view of its group without the lost one.
    async fn wait_for_view(&self, on: &ServerView, here: &str, lost: &str) -> Result<(), String> {
        let mut client = self.connect_to_watch(on).await?;
        while !View::ask(&mut client).await?.is_behind(here, lost)? {
            tokio::time::sleep(VIEW_PACE).await;
        }
        Ok(())
    }

    /// Whether a member that was lost belongs to its group again, as the same one if `member` tells which it was.
    pub(super) async fn is_back(&self, server: ServerId, member: Option<&str>) -> bool {
        let asked = async {
            let view = self.here.cluster.view();
            let mut client = self.connect_to_watch(view.server(server).ok_or("it is gone")?).await?;
            client.query(IN_GROUP).await.map_err(|error| error.to_string())?;
            Ok::<_, String>(View::ask(&mut client).await?.own)
        };
        let asked = tokio::time::timeout(BACK_WAIT, asked).await;
        matches!(asked, Ok(Ok(own)) if member.is_none_or(|member| own.eq_ignore_ascii_case(member)))
    }

    /// Logs in to a server as the monitor, which may see the group's view.
    async fn connect_to_watch(&self, server: &ServerView) -> Result<Client, String> {
        let login = {
            let config = self.env.worker.shared.config.load();
            let cluster = config.clusters.get(&*self.here.cluster.shared.name).ok_or("the cluster is gone")?;
            let password = cluster.monitor.password.expose();
            query::login(&cluster.monitor.user, Credential::password(password))
        };
        let target = self.here.cluster.shared.target(server, READ_WAIT, None);
        let limits = Limits { timeout: READ_WAIT, ..Limits::default() };
        Client::connect(&target, login, limits).await.map_err(|error| error.to_string())
    }
}

/// The group as a member shows it.
#[derive(Debug, Default)]
struct View {
    /// All members, by their `node_uuid`.
    members: Vec<String>,
    /// The member itself.
    own: String,
    /// It belongs to the primary component.
    is_primary: bool,
}

impl View {
    async fn ask(client: &mut Client) -> Result<View, String> {
        let answers = client.query(VIEW).await.map_err(|error: QueryError| error.to_string())?;
        let [members, status] = &answers[..] else { return Err("it does not tell its view of the group".into()) };
        let first = |row: &Vec<Option<Vec<u8>>>| Some(String::from_utf8_lossy(row.first()?.as_ref()?).into_owned());
        let status_of = |name: &str| {
            let mut rows = 0..status.rows.len();
            let row = rows.find(|row| status.text(*row, "Variable_name").is_some_and(|reported| reported == name))?;
            status.text(row, "Value")
        };
        Ok(View {
            members: members.rows.iter().filter_map(first).collect(),
            own: status_of("wsrep_gcomm_uuid").unwrap_or_default().into_owned(),
            is_primary: status_of("wsrep_cluster_status")
                .is_some_and(|reported| reported.eq_ignore_ascii_case("primary")),
        })
    }

    /// Whether the group has gone on without the member `lost`, as the member `here` sees it.
    fn is_behind(&self, here: &str, lost: &str) -> Result<bool, String> {
        let has = |member: &str| self.members.iter().any(|other| other.eq_ignore_ascii_case(member));
        if !self.own.eq_ignore_ascii_case(here) {
            return Err("it was started again meanwhile".into());
        }
        // A view without the member itself is none of its own.
        Ok(self.is_primary && has(here) && !has(lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_gone_on_when_its_own_view_lacks_the_lost_member() {
        let view = |members: &[&str], own: &str, is_primary| View {
            members: members.iter().map(|&member| member.into()).collect(),
            own: own.into(),
            is_primary,
        };
        assert_eq!(view(&["b", "c"], "b", true).is_behind("b", "a"), Ok(true));
        assert_eq!(view(&["a", "b", "c"], "b", true).is_behind("b", "a"), Ok(false), "still there, or back");
        assert_eq!(view(&["A", "B"], "B", true).is_behind("b", "a"), Ok(false));
        assert_eq!(view(&["b", "c"], "b", false).is_behind("b", "a"), Ok(false), "cut off itself");
        assert_eq!(view(&[], "b", true).is_behind("b", "a"), Ok(false), "no view was kept");
        assert!(view(&["b", "c"], "d", true).is_behind("b", "a").is_err(), "another process: its log may have a gap");
    }
}
