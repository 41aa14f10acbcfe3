//! A replication group's own change of primary.

use super::{Failed, Hand, text};

/// Has the group make the member with this `server_uuid` its primary; it is nothing to do when it is that already. The old primary ends what it
/// has begun, and takes no writes from then on. The group is given no limit for that: with one it refuses every statement meanwhile.
pub(crate) async fn set_group_primary(hand: &mut Hand<'_>, member: &str) -> Result<(), Failed> {
    let sql = format!("SELECT group_replication_set_as_primary({})", text(member));
    hand.run("have the group make it its primary", sql).await.map(drop)
}
