//! Statements for a server, run by the client program of its family.

use std::process::Command;
use std::time::Duration;

use super::Server;
use crate::{Family, LabError, client};

/// Longest that [`Server::sql`] may take.
const SQL_LIMIT: Duration = Duration::from_secs(120);

impl Server {
    /// Runs statements as root through the unix socket, and gives the rows: a line each, columns separated by tabs,
    /// no column names, special characters escaped as the client's batch mode does.
    ///
    /// # Errors
    /// [`LabError::Sql`] with the client's message; it stops at the first statement that fails.
    pub fn sql(&self, statements: &str) -> Result<String, LabError> {
        self.client(&["--skip-column-names"], statements)
    }

    /// Like [`Server::sql`], with a line of column names before each result.
    ///
    /// # Errors
    /// The same.
    pub fn sql_with_names(&self, statements: &str) -> Result<String, LabError> {
        self.client(&[], statements)
    }

    /// Like [`Server::sql`], but a line for each column: its name, a colon, its value. For `SHOW REPLICA STATUS` and its
    /// like.
    ///
    /// # Errors
    /// The same.
    pub fn sql_vertical(&self, statements: &str) -> Result<String, LabError> {
        self.client(&["--vertical"], statements)
    }

    fn client(&self, arguments: &[&str], statements: &str) -> Result<String, LabError> {
        let mut command = Command::new(&self.binary.client);
        command.args(["--no-defaults", "--batch", "--user=root", "--connect-timeout=10"]);
        command.args(["--protocol=socket", "--default-character-set=utf8mb4"]).args(arguments);
        command.arg("--socket").arg(self.socket_path());
        if self.options.family == Family::MariaDb {
            // From 11.4 on it insists on TLS otherwise, even on a socket, which a server without certificates refuses.
            command.arg("--skip-ssl");
        }
        let output = client::run(&mut command, statements.as_bytes(), SQL_LIMIT)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Sql { port: self.port, message })
    }
}
