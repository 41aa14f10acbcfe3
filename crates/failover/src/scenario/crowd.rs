//! The primary has no connection left.

use anyhow::{Context as _, bail};
use lab::MONITOR_USER;
use net::client::Target;
use net::query::{Client, Limits};
use wire::auth::Credential;

use super::faults::LASTS;
use crate::stage::Stage;

/// Connections that are left before the crowd comes.
const LEFT: u64 = 10;
/// Most that the crowd may be.
const CROWD_MAX: usize = 1_000;
/// ER_CON_COUNT_ERROR.
const TOO_MANY: u16 = 1040;

/// Takes all of them for a while.
pub(super) fn connections(stage: &mut Stage) -> anyhow::Result<f64> {
    let primary = stage.world.server(0);
    let text = primary.sql("SHOW GLOBAL STATUS LIKE 'Threads_connected'")?;
    let connected = text.split_whitespace().last().and_then(|count| count.parse::<u64>().ok()).context("no count")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = primary.address().to_string().parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let target = Target::plain(address, LASTS);
    let event = stage.clock.now_ms();
    primary.sql(&format!("SET GLOBAL max_connections = {}", connected + LEFT))?;
    let mut crowd = Vec::new();
    runtime.block_on(fill(&target, &mut crowd))?;
    // The monitor must come in anew, too.
    let kill =
        format!("SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE user = '{MONITOR_USER}'");
    primary.sql(&primary.sql(&kill)?)?;
    runtime.block_on(fill(&target, &mut crowd))?;
    stage.notes.push(format!("{connected} connections, {} more taken by others", crowd.len()));
    stage.watch(LASTS);
    drop(crowd);
    stage.world.server(0).sql("SET GLOBAL max_connections = 500")?;
    Ok(event)
}

/// Connects until the server refuses.
async fn fill(target: &Target, crowd: &mut Vec<Client>) -> anyhow::Result<()> {
    while crowd.len() < CROWD_MAX {
        let login = net::query::login(lab::APP_USER, Credential::password(lab::APP_PASSWORD));
        match Client::connect(target, login, Limits::default()).await {
            Ok(client) => crowd.push(client),
            Err(error) if error.server_error().is_some_and(|error| error.code == TOO_MANY) => return Ok(()),
            Err(error) => return Err(error).context("the crowd is not let in"),
        }
    }
    bail!("the primary takes {CROWD_MAX} connections more, whatever it is told")
}
