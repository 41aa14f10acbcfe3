//! Initialised datadirs, made once per server version and copied for every server.
//!
//! Initialising takes MariaDB one second and MySQL three; a copy takes a fraction. The templates live in the temporary
//! folder of the machine, in a folder that belongs to the user alone, so that no other user can plant one.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::client;
use crate::{Family, LabError, ServerBinary};

/// Part of a template's name: to be raised when its content changes.
const LAYOUT: u32 = 1;
/// Longest that an initialisation may take on a slow and busy machine.
const INITIALISE_LIMIT: Duration = Duration::from_secs(180);
/// Root logs in through the socket only: an empty password on a TCP port would be open to every local user.
const ONLY_SOCKET_ROOT: &str = "DELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';\n\
                                DELETE FROM mysql.proxies_priv WHERE User = 'root' AND Host <> 'localhost';\n";

/// Threads of one process initialise one after the other; several processes may do it twice, and the first one wins.
static INITIALISING: Mutex<()> = Mutex::new(());

/// Makes `datadir` (which must not exist) a fresh datadir for `binary`.
pub(crate) fn copy_to(binary: &ServerBinary, datadir: &Path) -> Result<(), LabError> {
    let template = {
        let _one_at_a_time = INITIALISING.lock().unwrap_or_else(PoisonError::into_inner);
        template(binary)?
    };
    copy_folder(&template, datadir)
}

/// The user this process runs as: the owner of its own entry in `/proc`.
pub(crate) fn user_id() -> Result<u32, LabError> {
    let path = Path::new("/proc/self");
    Ok(fs::metadata(path).map_err(LabError::file("read", path))?.uid())
}

fn template(binary: &ServerBinary) -> Result<PathBuf, LabError> {
    let mut hasher = DefaultHasher::new();
    (LAYOUT, &binary.server, &binary.version).hash(&mut hasher);
    let cache = own_folder()?;
    let template = cache.join(format!("datadir-{:016x}", hasher.finish()));
    if template.is_dir() {
        return Ok(template);
    }
    let building = tempfile::Builder::new()
        .prefix("building-")
        .tempdir_in(&cache)
        .map_err(LabError::file("make a folder in", &cache))?;
    let datadir = building.path().join("data");
    match binary.family {
        Family::MariaDb => initialise_mariadb(binary, &datadir, building.path())?,
        Family::MySql => initialise_mysql(binary, &datadir)?,
    }
    // A rename is all or nothing, so a template is never half done; another process may have been faster.
    match fs::rename(&datadir, &template) {
        Err(_) if template.is_dir() => Ok(template),
        renamed => renamed.map(|()| template.clone()).map_err(LabError::file("make", &template)),
    }
}

fn own_folder() -> Result<PathBuf, LabError> {
    let user = user_id()?;
    let folder = std::env::temp_dir().join(format!("sqluice-lab-{user}"));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        created => created.map_err(LabError::file("make", &folder))?,
    }
    let found = fs::symlink_metadata(&folder).map_err(LabError::file("look at", &folder))?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(folder);
    }
    let source =
        std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it belongs to, or is open to, another user");
    Err(LabError::Io { doing: format!("use {}", folder.display()), source })
}

fn initialise_mariadb(binary: &ServerBinary, datadir: &Path, folder: &Path) -> Result<(), LabError> {
    let program = binary.companion("mariadb-install-db").ok_or_else(|| LabError::Missing {
        what: "mariadb-install-db, which makes a datadir,".to_owned(),
        remedy: "install it with `apt-get install mariadb-server-core`, or run `./dev install`".to_owned(),
    })?;
    let extra = folder.join("extra.sql");
    fs::write(&extra, ONLY_SOCKET_ROOT).map_err(LabError::file("write", &extra))?;
    let mut command = Command::new(&program);
    // --force: a machine that cannot resolve its own name is none of our business.
    command.arg("--no-defaults").arg(argument("datadir", datadir)).arg(argument("extra-file", &extra)).args([
        "--force",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        "--innodb-log-file-size=16M",
    ]);
    // In an unpacked archive the script does not know where it is.
    if program.parent().is_some_and(|folder| folder.ends_with("scripts"))
        && let Some(base) = binary.server.parent().and_then(Path::parent)
    {
        command.arg(argument("basedir", base));
    }
    initialise(&program, &mut command)
}

fn initialise_mysql(binary: &ServerBinary, datadir: &Path) -> Result<(), LabError> {
    let mut command = Command::new(&binary.server);
    command.arg("--no-defaults").arg("--initialize-insecure").arg(argument("datadir", datadir)).args([
        "--innodb-redo-log-capacity=16M",
        "--innodb-doublewrite=OFF",
        "--loose-disable-log-bin",
    ]);
    initialise(&binary.server, &mut command)?;
    // It holds the server's UUID, of which every copy needs its own.
    let identity = datadir.join("auto.cnf");
    fs::remove_file(&identity).map_err(LabError::file("remove", &identity))
}

fn initialise(program: &Path, command: &mut Command) -> Result<(), LabError> {
    if user_id()? == 0 {
        command.arg("--user=root");
    }
    let output = client::run(command, b"", INITIALISE_LIMIT)?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed[printed.len().saturating_sub(4000)..]).into_owned();
    Err(LabError::Initialise { program: program.to_path_buf(), output: printed })
}

fn argument(name: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(format!("--{name}="));
    argument.push(path);
    argument
}

/// Copies a folder with all that is in it; `to` must not exist.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<(), LabError> {
    DirBuilder::new().mode(0o700).create(to).map_err(LabError::file("make", to))?;
    for entry in fs::read_dir(from).map_err(LabError::file("read", from))? {
        let entry = entry.map_err(LabError::file("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(LabError::file("look at", &source))?;
        if kind.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            // Shares the blocks on file systems that can.
            fs::copy(&source, &target).map_err(LabError::file("copy", &source))?;
        }
    }
    Ok(())
}
