//! Starting, reloading and stopping the admin listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use ::history::Grown;
use config::Config;
use tokio::sync::oneshot;

use super::error::StartError;
use super::history::{self, Growth};
use super::listener::{self, Bound};
use super::metrics;
use super::orders::{Api, Orders};
use super::plan_watch;
use super::router;
use super::secured::AdminTls;
use super::sessions::Later;
use super::shared::{Shared, Sources};

/// The running admin listener. Dropping it without [`AdminHandle::shutdown`] stops it as well.
pub struct AdminHandle {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    history: Option<JoinHandle<()>>,
}

/// Starts serving on a new thread, so that no request delays a probe.
///
/// # Errors
/// No thread can be made.
pub fn start(bound: Bound, config: &Config, tls: AdminTls, sources: Sources) -> Result<AdminHandle, StartError> {
    let address = bound.tcp_address();
    let shared = Arc::new(Shared::new(config, sources));
    shared.tls.set(tls);
    shared.access.set_port(address.map_or(0, |address| address.port()));
    shared.record.event("start", format!("Sqluice {} started", env!("CARGO_PKG_VERSION")));
    let history = config.history.as_ref().and_then(|settings| history::start(settings, &shared));
    let history = history.map(|(keeper, thread)| {
        // It is set here and nowhere else.
        let _ = shared.history.set(keeper);
        thread
    });
    let app = router(shared.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
    let tls_now = shared.tls.clone();
    let every = config.history.as_ref().map(|settings| settings.explain_every).filter(|every| !every.is_zero());
    let watched = shared.clone();
    let watch = async move {
        match every {
            Some(every) => plan_watch::run(watched, every).await,
            None => std::future::pending().await,
        }
    };
    let serve = async move {
        tokio::select! {
            () = listener::serve(bound, tls_now, app) => {}
            () = watch => {}
            // Told, or the handle is gone.
            _ = stopped => {}
        }
    };
    let thread = std::thread::Builder::new()
        .name("sqluice-admin".into())
        .spawn(move || runtime.block_on(serve))
        .map_err(StartError::Thread)?;
    Ok(AdminHandle { shared, address, stop: Some(stop), thread: Some(thread), history })
}

impl AdminHandle {
    /// Where it listens, if over TCP; has the port that the system chose when the configured one is 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes the keys, the rules and the TLS of a new configuration. The address stays as it was.
    pub fn reload(&self, config: &Config, tls: AdminTls) {
        self.shared.tls.set(tls);
        self.shared.reload(config);
    }

    /// Shows on the page's timeline that the configuration was read again, and the result.
    pub fn note_reload(&self, is_good: bool, words: String) {
        self.shared.reloads.note(is_good);
        self.shared.record.event("reload", words);
    }

    /// Makes the page of metrics, for whoever sends it elsewhere.
    pub fn metrics_page(&self) -> impl Fn() -> String + Send + 'static {
        let shared = self.shared.clone();
        move || metrics::render(&shared)
    }

    /// Takes orders that do not come over HTTP.
    pub fn orders(&self) -> Arc<dyn Orders> {
        Arc::new(Api::of(&self.shared))
    }

    /// The growth of digests, for comparisons with the past.
    pub fn growth(&self) -> Arc<dyn Growth> {
        Arc::new(KeptGrowth(self.shared.clone()))
    }

    /// Says that the process takes no new clients: `/readyz` fails from now on, all else goes on.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Stops serving, and waits for the thread to end. It waits for no request.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(keeper) = self.shared.history.get() {
            keeper.stop();
        }
        for thread in [self.thread.take(), self.history.take()].into_iter().flatten() {
            if thread.join().is_err() {
                tracing::error!("a thread of the admin listener panicked");
            }
        }
    }
}

/// The history of this process, if it is kept.
struct KeptGrowth(Arc<Shared>);

impl Growth for KeptGrowth {
    fn grown(&self) -> Later<Result<Grown, String>> {
        let shared = self.0.clone();
        Box::pin(async move {
            match shared.history.get() {
                Some(keeper) => keeper.grown().await,
                None => Err("there is no history: set path in [history]".to_owned()),
            }
        })
    }
}

impl Drop for AdminHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::testing::{config, sources};

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn pages_are_served_and_a_reload_takes_the_key() {
        let bound = listener::bind(&config::Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap();
        let admin = start(bound, &config(""), AdminTls::default(), sources(Arc::new([]))).unwrap();
        let address = admin.address().unwrap();
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
        let ready = get(address, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("no cluster is watched yet"), "{ready}");
        assert!(get(address, "/api/v1/clusters").starts_with("HTTP/1.1 403 "), "there is no key");
        admin.reload(&config("[admin]\naddress = \"127.0.0.1:0\"\nkey = \"hush hush\"\n"), AdminTls::default());
        assert!(get(address, "/api/v1/clusters").starts_with("HTTP/1.1 401 "), "the key must be shown");
        admin.drain();
        assert!(get(address, "/readyz").contains("draining"));
        admin.shutdown();
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}
