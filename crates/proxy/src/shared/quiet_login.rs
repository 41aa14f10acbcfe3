//! Logging in to servers as a user without `init_connect`.
//!
//! Servers run it for each login of a user without CONNECTION ADMIN, and not for COM_CHANGE_USER (seen with MariaDB 10.11 and MySQL
//! 9.7). So Sqluice logs in as the monitor, if that one has the privilege, and becomes the user.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use facts::grants::is_admin_grant;
use net::client::{ConnectError, Connected, LoginSeen, Target};
use net::query::{Client, Limits};
use wire::Capabilities;
use wire::auth::Credential;
use wire::handshake::client::{COLLATION_FALLBACK, LoginRequest};

use super::{ClusterShared, login_as};

/// How long it is believed whether the monitor goes without `init_connect`.
const BELIEVED_FOR: Duration = Duration::from_secs(600);
/// Longer lists of privileges are not read.
const GRANTS_BYTES_MAX: usize = 256 * 1024;

/// Whether the monitor goes without `init_connect`, as a server said lately.
#[derive(Debug, Default)]
pub struct MonitorExempt(Mutex<Option<(bool, Instant)>>);

impl ClusterShared {
    /// How to log in as the monitor with these capabilities, if the servers have `init_connect` and do not run it for the monitor.
    pub async fn quiet_login(&self, target: &Target, capabilities: Capabilities) -> Option<LoginRequest> {
        self.published.catalog.load().init_connect()?;
        let login = |capabilities| {
            let settings = self.settings.load();
            let password = Credential::password(settings.monitor.password.expose().to_vec());
            login_as(&settings.monitor.user, &password, capabilities, COLLATION_FALLBACK)
        };
        let known = *self.monitor_exempt.0.lock().unwrap_or_else(PoisonError::into_inner);
        let exempt = match known.filter(|(_, asked)| asked.elapsed() < BELIEVED_FOR) {
            Some((exempt, _)) => exempt,
            None => {
                let asked = Instant::now();
                let limits = Limits { reply_bytes_max: GRANTS_BYTES_MAX, timeout: target.timeout };
                let plain = login(Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS);
                let mut client = Client::connect(target, plain, limits).await.ok()?;
                let grants = client.query_one("SHOW GRANTS").await.ok()?;
                let mut grants = grants.rows.iter().filter_map(|row| row.first()?.as_deref());
                let exempt = grants.any(|grant| is_admin_grant(&String::from_utf8_lossy(grant)));
                *self.monitor_exempt.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((exempt, asked));
                exempt
            }
        };
        exempt.then(|| login(capabilities - Capabilities::CONNECT_WITH_DB))
    }

    /// Connects and logs in, without `init_connect` where that can be.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_quietly(&self, target: &Target, login: LoginRequest) -> Result<Connected, ConnectError> {
        let Some(monitor) = self.quiet_login(target, login.capabilities).await else {
            return net::client::connect(target, login).await;
        };
        let mut connected = net::client::connect(target, monitor).await?;
        let mut seen = LoginSeen::of(&connected);
        net::client::log_in_again(&mut connected.stream, &mut seen, target, login, "").await?;
        connected.scramble = seen.scramble();
        Ok(connected)
    }
}
