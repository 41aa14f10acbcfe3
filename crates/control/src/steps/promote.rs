//! Making a replica the primary.

use super::channel::{self, Ours};
use super::{Clients, Failed, Hand, position, semi_sync, set_read_only};
use crate::monitor::dialect;

/// Makes the server take writes and follow no server of this cluster any more.
///
/// Refuses when something that was received is not applied: forgetting the channel would destroy it.
pub(crate) async fn promote(hand: &mut Hand<'_>, ours: &Ours) -> Result<(), Failed> {
    if channel::read(hand, ours).await?.is_some() {
        channel::stop_receiver(hand, ours, false).await?;
        // The applying thread still runs while this looks: see `stop_receiver`.
        if let Some(channel) = channel::read(hand, ours).await? {
            is_drained(hand, &channel.gtid_received).await?;
            channel::stop_following(hand, ours).await?;
            hand.run("forget its source", hand.dialect.forget(&channel.name)).await?;
        }
    }
    // Before the first write, so that it waits for a replica as the old primary's writes did.
    semi_sync::become_source(hand).await?;
    set_read_only(hand, false, Clients::Stay).await
}

async fn is_drained(hand: &mut Hand<'_>, received: &str) -> Result<(), Failed> {
    let Some(wanted) = position(hand.dialect, received)? else { return Ok(()) };
    let answer = hand.run("read its position", hand.dialect.position()).await?;
    match dialect::read_position(hand.dialect, &answer) {
        Some((applied, _)) if applied.has(&wanted) => Ok(()),
        _ => Err(Failed::refused(format!("it has received {received} and has not applied all of it"))),
    }
}
