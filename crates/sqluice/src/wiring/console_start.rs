//! The SQL console, if it is wanted.

use std::net::TcpListener;
use std::sync::Arc;

use admin::{Growth, Orders};
use anyhow::Context as _;
use config::{Address, Config};
use console::{ConsoleHandle, Sources};
use control::ControlHandle;
use events::Events;
use net::tls::ServerTls;
use proxy::Proxy;

use super::sessions::OperatedSessions;

/// Listens, so that a wrong address is reported before anything starts.
pub(super) fn bind(config: &Config) -> anyhow::Result<Option<TcpListener>> {
    let Some(Address::Tcp { host, port }) = config.admin.as_ref().and_then(|admin| admin.sql_address.as_ref()) else {
        return Ok(None);
    };
    let bound = TcpListener::bind((&**host, *port));
    bound.map(Some).with_context(|| format!("cannot listen on {host}:{port} (key admin.sql_address)"))
}

/// Starts it.
pub(super) fn start(
    bound: TcpListener,
    config: &Config,
    tls: ServerTls,
    proxy: &Proxy,
    control: &ControlHandle,
    events: &Arc<Events>,
    (growth, orders): (Arc<dyn Growth>, Arc<dyn Orders>),
) -> anyhow::Result<ConsoleHandle> {
    let sources = Sources {
        workers: proxy.stats(),
        digests: proxy.digests(),
        cache: proxy.cache(),
        events: events.clone(),
        sessions: Arc::new(OperatedSessions(proxy.operator())),
        status: control.status(),
        growth,
        orders,
    };
    console::start(bound, config, sources, Some(tls)).context("cannot start the SQL console")
}
