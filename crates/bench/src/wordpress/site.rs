//! The blog: WordPress's files in a folder, its content in the database, and PHP processes that serve it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::{APP_PASSWORD, APP_USER};
use tempfile::TempDir;

use crate::contender::{PORT_TRIES, free_port};
use crate::http::{self, Ask, Cookies};
use crate::process::{self, Daemon};
use crate::world::{DATABASE, World};

/// Names the folder that WordPress's package was unpacked into.
pub(super) const FOLDER_VARIABLE: &str = "WORDPRESS_FOLDER";
/// The password of all of the blog's users.
pub(super) const BLOG_PASSWORD: &str = "blog-secret";
/// The figures of Percona's blog.
pub(super) const USERS: u32 = 100;
pub(super) const CATEGORIES: u32 = 25;
const COMMENTS: u32 = 3;
/// Numbers of posts, categories and users begin behind these.
pub(super) const POSTS_BEHIND: u32 = 1000;
pub(super) const CATEGORIES_BEHIND: u32 = 100;
/// Other content for another seed.
const SEED: u32 = 1;

/// Longest that installing and filling the blog may take.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);
/// Longest until PHP's server answers.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// The blog's files and what it holds.
#[derive(Debug)]
pub(super) struct Site {
    folder: TempDir,
    /// How many posts it has at first.
    pub(super) posts: u32,
    /// The version of WordPress.
    pub(super) version: String,
}

impl Site {
    /// Puts WordPress into a folder and fills the database.
    ///
    /// # Errors
    /// The package or PHP is missing, or something does not work.
    pub(super) fn make(world: &World, posts: u32) -> anyhow::Result<Site> {
        let package = package()?;
        let folder = TempDir::with_prefix("sqluice-bench-")?;
        let root = folder.path().join("site");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&package).arg(&root);
        process::run(copy, INSTALL_LIMIT, |_| Ok(()))?;
        let version = fs::read_to_string(root.join("wp-includes/version.php")).context("this is no WordPress")?;
        let version = version.split("$wp_version = '").nth(1).and_then(|rest| rest.split('\'').next());
        let site = Site { folder, posts, version: version.unwrap_or("?").to_owned() };
        fs::create_dir_all(root.join("wp-content/mu-plugins"))?;
        for (name, text) in [
            ("wp-config.php", include_str!("site/wp-config.php")),
            ("wp-content/db.php", include_str!("site/db.php")),
            ("wp-content/mu-plugins/bench.php", include_str!("site/bench.php")),
            ("bench-install.php", include_str!("site/install.php")),
        ] {
            // The package has a configuration of its own.
            let path = root.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        site.install(world)?;
        Ok(site)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    fn install(&self, world: &World) -> anyhow::Result<()> {
        let mut command = self.php(world.primary());
        command.env("BENCH_BLOG_PASSWORD", BLOG_PASSWORD).env("BENCH_THEME", theme(&self.root())?);
        command.arg(self.root().join("bench-install.php"));
        let reported = process::run(command, INSTALL_LIMIT, |_| Ok(())).context("WordPress cannot be installed")?;
        let hash = reported.lines().find_map(|line| line.strip_prefix("hash="));
        let Some(hash) = hash else { bail!("WordPress was not installed:\n{reported}") };
        let mut sql = include_str!("site/posts.sql").replace("{HASH}", hash);
        for (name, value) in [
            ("{POSTS}", self.posts),
            ("{USERS}", USERS),
            ("{CATEGORIES}", CATEGORIES),
            ("{COMMENTS}", COMMENTS),
            ("{SEED}", SEED),
        ] {
            sql = sql.replace(name, &value.to_string());
        }
        let server = world.server();
        server.sql(&format!("USE {DATABASE};\n{sql}")).context("the blog cannot be filled")?;
        Ok(())
    }

    /// PHP with the blog's settings.
    fn php(&self, database: SocketAddr) -> Command {
        let mut command = Command::new("php");
        command.env("BENCH_DATABASE", database.to_string()).env("BENCH_NAME", DATABASE);
        command.env("BENCH_USER", APP_USER).env("BENCH_PASSWORD", APP_PASSWORD);
        for setting in [
            "opcache.enable_cli=1",
            "opcache.validate_timestamps=0",
            "display_errors=0",
            "log_errors=1",
            "memory_limit=256M",
        ] {
            command.args(["-d", setting]);
        }
        command
    }

    /// Processes of PHP's own server, each of which serves one page at a time.
    ///
    /// # Errors
    /// They do not start.
    pub(super) fn serve(&self, database: SocketAddr, count: usize) -> anyhow::Result<Vec<Worker>> {
        (0..count).map(|_| self.worker(database)).collect()
    }

    fn worker(&self, database: SocketAddr) -> anyhow::Result<Worker> {
        let mut last = None;
        for _ in 0..PORT_TRIES {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            let mut command = self.php(database);
            command.arg("-S").arg(address.to_string()).arg("-t").arg(self.root());
            let mut daemon = Daemon::start(command, TempDir::with_prefix("sqluice-bench-")?)?;
            let answers = |_: &Daemon| http::ask(address, &Ask::page("/readme.html"), &mut Cookies::new()).ok();
            match daemon.wait(READY_LIMIT, answers) {
                Ok(_) => return Ok(Worker { daemon, address }),
                // Somebody else took the port in between.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no free port was found"))).context("PHP's server does not start")
    }
}

/// A process of PHP.
#[derive(Debug)]
pub(super) struct Worker {
    daemon: Daemon,
    /// Where it serves.
    pub(super) address: SocketAddr,
}

impl Worker {
    pub(super) fn pid(&self) -> u32 {
        self.daemon.pid()
    }
}

/// Where the package's files are.
fn package() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty());
    let Some(folder) = named.map(PathBuf::from) else {
        bail!("{FOLDER_VARIABLE} names no WordPress; `./dev bench wordpress` fetches one and names it");
    };
    if !folder.join("wp-load.php").is_file() {
        bail!("{FOLDER_VARIABLE} names {}, which is no WordPress", folder.display());
    }
    Ok(folder)
}

/// The theme that comes with it: the first one by name.
fn theme(root: &Path) -> anyhow::Result<String> {
    let themes = root.join("wp-content/themes");
    let read = fs::read_dir(&themes).with_context(|| format!("there is no theme in {}", themes.display()))?;
    let mut names: Vec<String> = read
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("style.css").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.into_iter().next().with_context(|| format!("there is no theme in {}", themes.display()))
}
