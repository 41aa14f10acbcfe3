//! Which server and client programs this machine has.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{LabError, skip};

/// Names a `mariadbd` other than the one in the `PATH`.
const MARIADBD_VARIABLE: &str = "SQLUICE_MARIADBD";
/// Names a `mysqld`. MySQL is used only when this is set: distributions link `mysqld` to MariaDB's server.
const MYSQLD_VARIABLE: &str = "SQLUICE_MYSQLD";
/// Folders of servers that an ordinary user's `PATH` often lacks.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// The two families of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// MariaDB.
    MariaDb,
    /// MySQL, and what is built from its source.
    MySql,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::MariaDb => "MariaDB",
            Family::MySql => "MySQL",
        })
    }
}

/// A server program, and the client program that talks to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    /// Its family.
    pub family: Family,
    /// Path of `mariadbd` or `mysqld`.
    pub server: PathBuf,
    /// Path of `mariadb` or `mysql`.
    pub client: PathBuf,
    /// The line it prints for `--version`.
    pub version: String,
}

/// The server programs found on this machine.
#[derive(Debug, Clone)]
pub struct Binaries {
    mariadb: Option<ServerBinary>,
    mysql: Option<ServerBinary>,
}

impl Binaries {
    /// Looks for servers: MariaDB's in `SQLUICE_MARIADBD` or the `PATH`, MySQL's in `SQLUICE_MYSQLD` only.
    ///
    /// # Errors
    /// [`LabError::Missing`] when there is no server at all, when a variable names a file that does not run, or
    /// when there is no client program.
    pub fn find() -> Result<Binaries, LabError> {
        let mariadb = match variable(MARIADBD_VARIABLE)? {
            Some(path) => Some(path),
            None => in_path("mariadbd"),
        };
        let mysql = variable(MYSQLD_VARIABLE)?;
        if mariadb.is_none() && mysql.is_none() {
            return Err(missing(Family::MariaDb));
        }
        let mariadb = mariadb.map(|server| ServerBinary::probe(Family::MariaDb, server)).transpose()?;
        let mysql = mysql.map(|server| ServerBinary::probe(Family::MySql, server)).transpose()?;
        Ok(Binaries { mariadb, mysql })
    }

    /// The families that can be started here, for tests that run against each of them. A family that is missing counts as
    /// [skipped](crate::skip()).
    ///
    /// # Panics
    /// When one is missing and the environment has `CI=true`.
    pub fn families(&self) -> Vec<Family> {
        for (family, found) in [(Family::MariaDb, &self.mariadb), (Family::MySql, &self.mysql)] {
            if found.is_none() {
                skip(&missing(family).to_string());
            }
        }
        [&self.mariadb, &self.mysql].into_iter().flatten().map(|binary| binary.family).collect()
    }

    /// The server program of one family.
    ///
    /// # Errors
    /// [`LabError::Missing`] when this machine has none.
    pub fn server(&self, family: Family) -> Result<&ServerBinary, LabError> {
        let found = match family {
            Family::MariaDb => &self.mariadb,
            Family::MySql => &self.mysql,
        };
        found.as_ref().ok_or_else(|| missing(family))
    }
}

impl ServerBinary {
    fn probe(family: Family, server: PathBuf) -> Result<ServerBinary, LabError> {
        let output = Command::new(&server)
            .args(["--no-defaults", "--version"])
            .output()
            .map_err(LabError::file("run", &server))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || version.is_empty() {
            return Err(LabError::Missing {
                what: format!("{} does not answer --version; a working {family} server", server.display()),
                remedy: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        let client = client_for(family, &server)?;
        Ok(ServerBinary { family, server, client, version })
    }

    /// A program that comes with the server, such as `mariadb-install-db`: beside it, in the usual neighbour folders
    /// of a distribution or an unpacked archive, or in the `PATH`.
    pub(crate) fn companion(&self, name: &str) -> Option<PathBuf> {
        beside(&self.server, name).or_else(|| in_path(name))
    }
}

/// MariaDB's client also talks to MySQL: over the socket, root has an empty password, which every plugin accepts.
fn client_for(family: Family, server: &Path) -> Result<PathBuf, LabError> {
    let names = match family {
        Family::MariaDb => ["mariadb", "mysql"],
        Family::MySql => ["mysql", "mariadb"],
    };
    let near = names.iter().find_map(|name| beside(server, name));
    near.or_else(|| names.iter().find_map(|name| in_path(name))).ok_or_else(|| LabError::Missing {
        what: "the command line client `mariadb` (or `mysql`)".to_owned(),
        remedy: "install it with `apt-get install mariadb-client-core`, or run `./dev install`".to_owned(),
    })
}

fn missing(family: Family) -> LabError {
    match family {
        Family::MariaDb => LabError::Missing {
            what: format!("MariaDB's server `mariadbd` (looked in {MARIADBD_VARIABLE}, PATH and /usr/sbin)"),
            remedy: "install it with `apt-get install mariadb-server-core`, or run `./dev install`".to_owned(),
        },
        Family::MySql => LabError::Missing {
            what: format!("MySQL's server: {MYSQLD_VARIABLE} is not set; it"),
            remedy: format!("`./dev mysql` fetches one and prints the value for {MYSQLD_VARIABLE}"),
        },
    }
}

fn variable(name: &str) -> Result<Option<PathBuf>, LabError> {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let path = std::path::absolute(&value).map_err(LabError::io(format!("resolve {name}")))?;
    if path.is_file() {
        return Ok(Some(path));
    }
    Err(LabError::Missing {
        what: format!("{}, which {name} names,", path.display()),
        remedy: format!("let {name} name a server program by its absolute path, or unset it"),
    })
}

pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn beside(server: &Path, name: &str) -> Option<PathBuf> {
    let folder = server.parent()?;
    let neighbours = [folder.to_path_buf(), folder.join("../bin"), folder.join("../scripts")];
    neighbours.into_iter().map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
