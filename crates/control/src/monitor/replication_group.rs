//! The report of a member about its replication group.

use std::time::Duration;

use cluster::observation::{GroupMember, GroupReplication, MemberState};
use net::query::ResultSet;

/// The report of a member about its replication group: itself, and its view's members.
pub(super) const GROUP: &str = "SELECT m.MEMBER_ID AS id, m.MEMBER_STATE AS state, m.MEMBER_ROLE AS role, \
        s.VIEW_ID AS view, s.COUNT_TRANSACTIONS_IN_QUEUE AS certifying, \
        s.COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE AS applying \
        FROM performance_schema.replication_group_members m \
        LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID; \
    SELECT @@group_replication_group_name AS group_name, \
    (SELECT GTID_SUBSET(RECEIVED_TRANSACTION_SET, @@global.gtid_executed) \
        FROM performance_schema.replication_connection_status \
        WHERE CHANNEL_NAME = 'group_replication_applier') AS applied, \
    (SELECT MAX(TIMESTAMPDIFF(MICROSECOND, APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP, NOW(6))) \
        FROM performance_schema.replication_applier_status_by_worker \
        WHERE CHANNEL_NAME = 'group_replication_applier' AND APPLYING_TRANSACTION <> '') AS lag_us";

/// Reads the answers to [`GROUP`] of the server with this `server_uuid`.
pub(super) fn read_group(answers: &[ResultSet], own: &str) -> Option<GroupReplication> {
    let [rows, about] = answers else { return None };
    let group = about.text(0, "group_name").filter(|name| !name.is_empty())?;
    let text = |row: usize, column: &str| rows.text(row, column).unwrap_or_default();
    let member = |row: usize| GroupMember {
        id: text(row, "id").into(),
        state: match &*text(row, "state") {
            "ONLINE" => MemberState::Online,
            "RECOVERING" => MemberState::Recovering,
            "UNREACHABLE" => MemberState::Unreachable,
            "ERROR" => MemberState::Error,
            _ => MemberState::Offline,
        },
        primary: text(row, "role") == "PRIMARY",
    };
    let here = (0..rows.rows.len()).find(|row| text(*row, "id") == own);
    let number = |column: &str| here.and_then(|row| text(row, column).parse().ok()).unwrap_or(0);
    let applying = number("applying");
    let lag_us = about.text(0, "lag_us").and_then(|lag| lag.parse::<i64>().ok());
    Some(GroupReplication {
        group: group.into(),
        view: here.map(|row| text(row, "view").into()).unwrap_or_default(),
        members: (0..rows.rows.len()).map(member).collect(),
        // Without the channel there is nothing that it could lack.
        applied: about.text(0, "applied").is_none_or(|applied| applied == "1"),
        certifying: number("certifying"),
        applying,
        lag: match lag_us {
            Some(lag) => Some(Duration::from_micros(u64::try_from(lag).unwrap_or(0))),
            None => (applying == 0).then_some(Duration::ZERO),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::dialect::tests::table;
    use super::*;

    #[test]
    fn a_member_tells_its_group() {
        let rows = table(
            "id|state|role|view|certifying|applying\na|ONLINE|PRIMARY|17:4|0|0\nb|ONLINE|SECONDARY|17:4|2|5\n\
             c|UNREACHABLE|SECONDARY|17:4|0|0",
        );
        let group = read_group(&[rows.clone(), table("group_name|applied|lag_us\nshop|0|1500000")], "b").unwrap();
        assert_eq!((&*group.group, &*group.view, group.applied), ("shop", "17:4", false));
        assert_eq!((group.certifying, group.applying, group.lag), (2, 5, Some(Duration::from_millis(1500))));
        let states: Vec<_> = group.members.iter().map(|row| (&*row.id, row.state, row.primary)).collect();
        assert_eq!(
            states,
            [
                ("a", MemberState::Online, true),
                ("b", MemberState::Online, false),
                ("c", MemberState::Unreachable, false)
            ]
        );
        // Clocks differ: one that runs ahead makes no lag.
        let ahead = read_group(&[rows.clone(), table("group_name|applied|lag_us\nshop|1|-7")], "a").unwrap();
        assert_eq!((ahead.applied, ahead.lag), (true, Some(Duration::ZERO)));
        assert_eq!(read_group(&[rows, table("group_name|applied|lag_us\n|1|0")], "a"), None);
    }
}
