//! Starting, reloading and stopping the console.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use config::Config;
use net::tls::ServerTls;
use tokio::sync::oneshot;

use crate::listener;
use crate::sources::{Shared, Sources};

/// The running console. Dropping it without [`ConsoleHandle::shutdown`] stops it as well.
pub struct ConsoleHandle {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts serving on a new thread. Clients may use TLS with the certificate given; `None` offers none.
///
/// # Errors
/// No thread can be made, or the system refuses the socket.
pub fn start(
    bound: std::net::TcpListener,
    config: &Config,
    sources: Sources,
    tls: Option<ServerTls>,
) -> std::io::Result<ConsoleHandle> {
    let address = bound.local_addr().ok();
    let shared = Arc::new(Shared::new(config, tls, sources));
    let (stop, stopped) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("sqluice-sql")
        .max_blocking_threads(crate::session::STATEMENTS_MAX)
        .build()?;
    bound.set_nonblocking(true)?;
    let serving = shared.clone();
    let serve = async move {
        let listener = match tokio::net::TcpListener::from_std(bound) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the SQL console cannot be served"),
        };
        tokio::select! {
            () = listener::serve(listener, serving) => {}
            // Told, or the handle is gone.
            _ = stopped => {}
        }
    };
    let thread = std::thread::Builder::new().name("sqluice-console".into()).spawn(move || {
        runtime.block_on(serve);
        // A statement that still runs ends by its own limits.
        runtime.shutdown_background();
    })?;
    Ok(ConsoleHandle { shared, address, stop: Some(stop), thread: Some(thread) })
}

impl ConsoleHandle {
    /// Where it listens; has the port that the system chose when the configured one is 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes the keys, the TLS and what else the views show of a new configuration. Sessions go on.
    pub fn reload(&self, config: &Config, tls: Option<ServerTls>) {
        self.shared.reload(config, tls);
    }

    /// Stops serving, and waits for the thread to end. It waits for no statement.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the SQL console panicked");
        }
    }
}

impl Drop for ConsoleHandle {
    fn drop(&mut self) {
        self.stop();
    }
}
