//! A network and mounts of our own, so that a server can be cut off, or its disk be full, without touching the machine.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Set in the process that has them.
const INSIDE: &str = "SQLUICE_FAILOVER_ROOM";
/// The options of `unshare`: as root first, then with a user namespace, which many systems allow to anybody.
const WAYS: [&[&str]; 2] = [&["--net", "--mount"], &["--net", "--mount", "--map-root-user"]];

/// Starts this program again in namespaces of its own; returns when that is not possible, or done already.
pub(crate) fn enter() -> anyhow::Result<()> {
    if is_inside() {
        // The one interface that there is.
        return run("ip", &["link", "set", "lo", "up"]);
    }
    let allowed = |way: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(**way).args(["ip", "link", "set", "lo", "up"]);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let Some(way) = WAYS.iter().find(allowed) else { return Ok(()) };
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut again = Command::new("unshare");
    again.args(*way).arg("--").arg(program).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Err(again.exec()).context("cannot run unshare")
}

/// Whether this process may cut and mount.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Where a server is while it can be cut off: an address that no network uses (RFC 5737).
pub(crate) fn address(index: usize) -> String {
    format!("192.0.2.{}", index + 1)
}

/// Gives a server its address.
pub(crate) fn add(index: usize) -> anyhow::Result<()> {
    run("ip", &["address", "add", &format!("{}/32", address(index)), "dev", "lo"])
}

/// Lets packets to and from a server vanish without a word: nobody has the address any more, and its route leads nowhere.
pub(crate) fn cut(index: usize) -> anyhow::Result<()> {
    let address = format!("{}/32", address(index));
    run("ip", &["address", "del", &address, "dev", "lo"])?;
    run("ip", &["route", "add", &address, "dev", "lo"])
}

/// Ends [`cut`].
pub(crate) fn heal(index: usize) -> anyhow::Result<()> {
    run("ip", &["route", "del", &format!("{}/32", address(index)), "dev", "lo"])?;
    add(index)
}

/// Runs a program to its end.
///
/// # Errors
/// It cannot be run or fails; what it says is in the error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let shown = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
