//! Servers block an account after many wrong passwords; Sqluice, which checks passwords itself, has them count.

use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use wire::auth::Credential;

use crate::support::{Failing, Front, SOON, all, failing, families, until, value};

const USER: &str = "e2e_counted";
const ROOT: (&str, &str) = ("e2e_counted_root", "e2e-Counted-1");

struct Stand {
    servers: Failing,
    front: Front,
}

impl Stand {
    /// Servers that block the user after two wrong passwords.
    async fn start(family: Family) -> Stand {
        let servers = failing(family).await;
        let ((user, password), mariadb) = (ROOT, family == Family::MariaDb);
        let locks = if mariadb { "" } else { "FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1" };
        let sql = format!(
            "DROP USER IF EXISTS {USER}@'%', {user}@'%'; CREATE USER {USER}@'%' IDENTIFIED BY 'right' {locks};
             CREATE USER {user}@'%' IDENTIFIED BY '{password}'; GRANT ALL ON *.* TO {user}@'%'"
        );
        servers.primary().sql(&sql).unwrap();
        servers.wait_in_sync(SOON).unwrap();
        let front = Front::start(&servers, |_| {}).await;
        if mariadb {
            let set = "SET GLOBAL max_password_errors = 2";
            servers.servers().iter().for_each(|server| drop(server.sql(set).unwrap()));
            all(&mut front.login(user, password).await.unwrap(), set).await;
        }
        Stand { servers, front }
    }

    async fn direct(&self, password: &str) -> Option<(u16, String)> {
        let target = Target::plain(self.servers.primary().address().to_string().parse().unwrap(), SOON);
        let login = query::login(USER, Credential::password(password));
        let error = Client::connect(&target, login, Limits::default()).await.err()?;
        error.server_error().map(|said| (said.code, said.message.clone()))
    }

    async fn through(&self, password: &str) -> Option<(u16, String)> {
        let error = self.front.login(USER, password).await.err()?;
        error.server_error().map(|said| (said.code, said.message.clone()))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Other tests use these servers, also when this one failed; MySQL lacks the variable.
        let set = "SET GLOBAL max_password_errors = DEFAULT";
        self.servers.servers().iter().for_each(|server| drop(server.sql(set)));
    }
}

#[tokio::test]
async fn many_wrong_passwords_block_an_account_as_on_its_server() {
    for family in families() {
        let stand = Stand::start(family).await;
        let blocked = if family == Family::MariaDb { 4150 } else { 3955 };
        // A right one has the servers begin to count anew.
        for _ in 0..3 {
            assert_eq!(stand.through("wrong").await.unwrap().0, 1045, "{family:?}");
            assert_eq!(stand.through("right").await, None, "{family:?}");
        }
        // Wrong ones count together, wherever they come from.
        assert_eq!(stand.through("wrong").await.unwrap().0, 1045, "{family:?}");
        assert_eq!(stand.direct("wrong").await.unwrap().0, if family == Family::MariaDb { 1045 } else { blocked });
        for password in ["right", "wrong"] {
            let (own, theirs) = (stand.through(password).await.unwrap(), stand.direct(password).await.unwrap());
            assert_eq!((own.0, own), (blocked, theirs), "{family:?} {password}");
        }
        // The administrator unblocks it on the server.
        stand.servers.primary().sql(&format!("ALTER USER {USER}@'%' ACCOUNT UNLOCK")).unwrap();
        let mut client = until("the account to be free", async || stand.front.login(USER, "right").await.ok()).await;
        assert_eq!(value(&mut client, "SELECT CURRENT_USER()").await, format!("{USER}@%"));
    }
}
