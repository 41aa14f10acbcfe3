//! What failover has to know after a restart, in a small file beside the journal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::memory::Memory;
use serde_json::{Value, json};

/// States that wait for the disk; only the newest of them is written.
const WAITING_MAX: usize = 100;
/// More than any state takes.
const BYTES_MAX: u64 = 4_096;

/// Keeps a cluster's memory in a file; without a journal it keeps nothing.
pub(crate) struct Keeper {
    cluster: Arc<str>,
    store: Option<Store>,
}

struct Store {
    path: PathBuf,
    states: SyncSender<String>,
}

impl Keeper {
    pub(crate) fn new(cluster: &Arc<str>) -> Keeper {
        Keeper { cluster: cluster.clone(), store: None }
    }

    /// Keeps it beside this journal from now on.
    pub(crate) fn set_journal(&mut self, journal: Option<&Path>) {
        let path = journal.map(beside);
        if self.store.as_ref().map(|store| &store.path) != path.as_ref() {
            self.store = path.and_then(|path| Store::start(&self.cluster, path));
        }
    }

    /// What was kept last. A file that is not there, or cannot be read, is as good as none; the latter is told.
    pub(crate) fn recall(&self) -> Option<Memory> {
        let path = &self.store.as_ref()?.path;
        let mut text = String::new();
        let read = match File::open(path) {
            Ok(file) => file.take(BYTES_MAX).read_to_string(&mut text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => Err(error),
        };
        let memory =
            read.map_err(|error| error.to_string()).and_then(|_| parse(&text, SystemTime::now(), Instant::now()));
        memory
            .map_err(|why| {
                let path = path.display();
                tracing::error!(
                    cluster = &*self.cluster,
                    "{path} cannot be read, so cool-down and epoch begin anew: {why}"
                );
            })
            .ok()
    }

    /// Keeps this.
    pub(crate) fn keep(&self, memory: &Memory) {
        let Some(store) = &self.store else { return };
        if store.states.try_send(words(memory, SystemTime::now(), Instant::now())).is_err() {
            tracing::error!(cluster = &*self.cluster, "{} is not written: the disk is too slow", store.path.display());
        }
    }
}

fn beside(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

impl Store {
    /// Starts the thread that waits for the disk in place of the control thread.
    fn start(cluster: &Arc<str>, path: PathBuf) -> Option<Store> {
        let (states, waiting) = sync_channel::<String>(WAITING_MAX);
        let (file, of) = (path.clone(), cluster.clone());
        let work = move || {
            while let Ok(first) = waiting.recv() {
                let newest = waiting.try_iter().last().unwrap_or(first);
                if let Err(error) = replace(&file, &newest) {
                    tracing::error!(cluster = &*of, "{} cannot be written: {error}", file.display());
                }
            }
        };
        let thread = std::thread::Builder::new().name("sqluice-state".into()).spawn(work);
        let complain = |error| tracing::error!(cluster = &**cluster, "{} cannot be kept: {error}", path.display());
        thread.map_err(complain).ok()?;
        Some(Store { path, states })
    }
}

/// Puts a new file in the place of the old one, so that there is always a whole one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}

fn words(memory: &Memory, wall: SystemTime, now: Instant) -> String {
    let promoted = memory.promoted.and_then(|at| wall.checked_sub(now.saturating_duration_since(at)));
    let promoted_ms = promoted.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64);
    let state = json!({
        "epoch": memory.epoch,
        "runs": memory.runs,
        "promoted_ms": promoted_ms,
        "failures": memory.failures,
    });
    format!("{state}\n")
}

fn parse(text: &str, wall: SystemTime, now: Instant) -> Result<Memory, String> {
    let state: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let number = |key: &str| state[key].as_u64().ok_or_else(|| format!("it has no number {key}"));
    let promoted = state["promoted_ms"].as_u64().map(|ms| {
        // A clock that was set back since makes it now, which is the careful side.
        let age = wall.duration_since(UNIX_EPOCH + Duration::from_millis(ms)).unwrap_or_default();
        now.checked_sub(age)
    });
    Ok(Memory {
        epoch: number("epoch")?,
        runs: number("runs")?,
        // Longer ago than the machine runs is longer ago than any cool-down that matters.
        promoted: promoted.flatten(),
        failures: u32::try_from(number("failures")?).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_recalled_by_the_next_process() {
        let folder = std::env::temp_dir().join(format!("sqluice-memory-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let journal = folder.join("journal");
        let mut keeper = Keeper::new(&"main".into());
        assert_eq!(keeper.recall(), None);
        keeper.set_journal(Some(&journal));
        assert_eq!(keeper.recall(), None);
        let now = Instant::now();
        (1..=7).for_each(|epoch| keeper.keep(&Memory { epoch, runs: 9, promoted: Some(now), failures: 2 }));
        let deadline = now + Duration::from_secs(10);
        let recalled = loop {
            match keeper.recall().filter(|memory| memory.epoch == 7) {
                Some(memory) => break memory,
                None => assert!(Instant::now() < deadline, "nothing is written"),
            }
        };
        assert_eq!((recalled.runs, recalled.failures), (9, 2));
        let promoted = recalled.promoted.unwrap();
        assert!(promoted.max(now) - promoted.min(now) < Duration::from_secs(5));
        std::fs::write(folder.join("journal.state"), "{\"epoch\": -1}").unwrap();
        assert_eq!(keeper.recall(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_end_a_cool_down() {
        let (wall, now) = (SystemTime::now(), Instant::now());
        let memory = Memory { epoch: 3, runs: 4, promoted: Some(now), failures: 0 };
        let text = words(&memory, wall, now);
        let later = parse(&text, wall - Duration::from_secs(3_600), now).unwrap();
        assert_eq!(later, memory);
        let later = parse(&text, wall, now + Duration::from_secs(5)).unwrap();
        assert!(later.promoted.unwrap() >= now + Duration::from_secs(4));
    }
}
