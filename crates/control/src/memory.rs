//! The state that failover needs after a restart, in a small file beside the journal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::memory::{Memory, ServerUse};
use serde_json::{Value, json};

/// States that wait for the disk; only the newest of them is written.
const WAITING_MAX: usize = 100;
/// More than any state takes.
const BYTES_MAX: u64 = 64 << 10;
/// States are filled up with spaces to a multiple of this, so that another one fits in the place of the one before: that needs no room on a
/// disk that is full.
const BLOCK_BYTES: usize = 512;
/// Epochs that a process that was not ended in good order may have used behind the one it kept.
const EPOCHS_UNKNOWN: u64 = 1_000;
/// Longest wait for the disk at the end of the process.
const END_WAIT: Duration = Duration::from_secs(1);

/// Keeps a cluster's memory in a file; without a journal it keeps nothing.
pub(crate) struct Keeper {
    cluster: Arc<str>,
    store: Option<Store>,
    /// The memory that was kept last.
    last: Memory,
}

struct Store {
    path: PathBuf,
    states: SyncSender<String>,
    /// Closed when all states are written.
    written: Receiver<()>,
}

impl Keeper {
    pub(crate) fn new(cluster: &Arc<str>) -> Keeper {
        Keeper { cluster: cluster.clone(), store: None, last: Memory::default() }
    }

    /// Keeps it beside this journal from now on.
    pub(crate) fn set_journal(&mut self, journal: Option<&Path>) {
        let path = journal.map(beside);
        if self.store.as_ref().map(|store| &store.path) != path.as_ref() {
            self.store = path.and_then(|path| Store::start(&self.cluster, path));
        }
    }

    /// The memory of the process before; to be asked once, at the start. An epoch is never given out twice: behind a process that was not
    /// ended in good order some are left out, and where the file cannot be read or written they go on from the time of day.
    pub(crate) fn recall(&mut self) -> Option<Memory> {
        let path = self.store.as_ref()?.path.clone();
        let complain = |what: &str, why: &str| {
            tracing::error!(cluster = &*self.cluster, "{} cannot be {what}: {why}", path.display());
        };
        let mut memory = match read(&path).and_then(|text| text.map(|text| parse(&text)).transpose()) {
            Ok(Some((mut memory, ended))) => {
                memory.epoch += if ended { 0 } else { EPOCHS_UNKNOWN };
                memory
            }
            Ok(None) => Memory::default(),
            Err(why) => {
                complain("read, so cool-down, maintenance and drain are forgotten and the epoch is a new one", &why);
                Memory { epoch: epoch_by_clock(), ..Memory::default() }
            }
        };
        if let Err(error) = replace(&path, &words(&memory, false, SystemTime::now(), Instant::now())) {
            complain("written, so the epoch is a new one", &error.to_string());
            memory.epoch = memory.epoch.max(epoch_by_clock());
        }
        self.last = memory.clone();
        Some(memory)
    }

    /// Keeps this.
    pub(crate) fn keep(&mut self, memory: &Memory) {
        self.last = memory.clone();
        self.send(false);
    }

    /// The process ends in good order. Waits for the disk, but no longer than [`END_WAIT`].
    pub(crate) fn end(&mut self) {
        self.send(true);
        if let Some(Store { states, written, .. }) = self.store.take() {
            drop(states);
            // It ends when all is written; the disk may hang.
            let _ = written.recv_timeout(END_WAIT);
        }
    }

    fn send(&self, ended: bool) {
        let Some(store) = &self.store else { return };
        if store.states.try_send(words(&self.last, ended, SystemTime::now(), Instant::now())).is_err() {
            tracing::error!(cluster = &*self.cluster, "{} is not written: the disk is too slow", store.path.display());
        }
    }
}

/// An epoch that is greater than all that were counted, and than one that was taken from the clock before.
fn epoch_by_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The text of a file; `None` when there is none.
fn read(path: &Path) -> Result<Option<String>, String> {
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
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
        let (done, written) = sync_channel(0);
        let work = move || {
            let _done = done;
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
        Some(Store { path, states, written })
    }
}

/// Puts a new file in the place of the old one, so that there is always a whole one. Where the disk has no room for that, the new text is
/// written over the old one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let filled = format!("{text:<width$}\n", width = (text.len() + 1).next_multiple_of(BLOCK_BYTES) - 1);
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let put = || {
        let mut file = File::create(&new)?;
        file.write_all(filled.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&new, path)
    };
    put().or_else(|error| {
        // A file that is half written takes room that there is none of; the first error is the one that matters.
        let _ = std::fs::remove_file(&new);
        write_over(path, &filled).map_err(|_| error)
    })
}

/// Overwrites a file that is no shorter than this. Blocks that a file has are not asked for again.
fn write_over(path: &Path, filled: &str) -> std::io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length < filled.len() {
        return Err(std::io::ErrorKind::StorageFull.into());
    }
    file.write_all(format!("{:<length$}", filled.trim_end()).as_bytes())?;
    file.sync_data()
}

fn words(memory: &Memory, ended: bool, wall: SystemTime, now: Instant) -> String {
    let promoted = memory.promoted.and_then(|at| wall.checked_sub(now.saturating_duration_since(at)));
    let promoted_ms = promoted.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64);
    let uses = memory.uses.iter().map(|(name, wanted)| (name.to_string(), wanted.word().into()));
    let state = json!({
        "epoch": memory.epoch,
        "ended": ended,
        "runs": memory.runs,
        "promoted_ms": promoted_ms,
        "failures": memory.failures,
        "servers": Value::Object(uses.collect()),
    });
    state.to_string()
}

/// Reads a state, and whether its process was ended in good order.
fn parse(text: &str) -> Result<(Memory, bool), String> {
    parse_at(text, SystemTime::now(), Instant::now())
}

fn parse_at(text: &str, wall: SystemTime, now: Instant) -> Result<(Memory, bool), String> {
    let state: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let number = |key: &str| state[key].as_u64().ok_or_else(|| format!("it has no number {key}"));
    let promoted = state["promoted_ms"].as_u64().map(|ms| {
        // A clock that was set back since makes it now, which is the careful side.
        let age = wall.duration_since(UNIX_EPOCH + Duration::from_millis(ms)).unwrap_or_default();
        now.checked_sub(age)
    });
    let uses = state["servers"].as_object().into_iter().flatten();
    let memory = Memory {
        epoch: number("epoch")?,
        runs: number("runs")?,
        // Longer ago than the machine runs is longer ago than any cool-down that matters.
        promoted: promoted.flatten(),
        failures: u32::try_from(number("failures")?).unwrap_or(u32::MAX),
        uses: uses.filter_map(|(name, word)| Some((name.as_str().into(), ServerUse::named(word.as_str()?)?))).collect(),
    };
    Ok((memory, state["ended"] == true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::TempDir::new().unwrap()
    }

    /// A process that begins: it recalls, and no end is recorded.
    fn keeper(folder: &tempfile::TempDir) -> Keeper {
        let mut keeper = Keeper::new(&"main".into());
        keeper.set_journal(Some(&folder.path().join("journal")));
        keeper
    }

    #[test]
    fn what_is_kept_is_recalled_by_the_next_process() {
        let folder = folder();
        assert_eq!(Keeper::new(&"main".into()).recall(), None, "without a journal");
        let mut first = keeper(&folder);
        assert_eq!(first.recall(), Some(Memory::default()));
        let now = Instant::now();
        let uses = vec![("db2".into(), ServerUse::Maintenance), ("db3".into(), ServerUse::Draining)];
        for epoch in 1..=7 {
            first.keep(&Memory { epoch, runs: 9, promoted: Some(now), failures: 2, uses: uses.clone() });
        }
        first.end();
        let recalled = keeper(&folder).recall().unwrap();
        assert_eq!((recalled.epoch, recalled.runs, recalled.failures, recalled.uses), (7, 9, 2, uses));
        let promoted = recalled.promoted.unwrap();
        assert!(promoted.max(now) - promoted.min(now) < Duration::from_secs(5));
    }

    #[test]
    fn no_epoch_is_given_out_twice() {
        let folder = folder();
        let state = folder.path().join("journal.state");
        let at = |epoch| Memory { epoch, ..Memory::default() };
        // A process that was killed may have used more epochs than it has kept.
        let mut killed = keeper(&folder);
        killed.recall();
        killed.keep(&at(3));
        killed.end();
        assert_eq!(keeper(&folder).recall().unwrap().epoch, 3);
        assert_eq!(keeper(&folder).recall().unwrap().epoch, 3 + EPOCHS_UNKNOWN);
        assert_eq!(keeper(&folder).recall().unwrap().epoch, 3 + 2 * EPOCHS_UNKNOWN);
        // Nor when the file is of no use.
        let clock = epoch_by_clock();
        std::fs::write(&state, "{\"epoch\": -1}").unwrap();
        assert!(keeper(&folder).recall().unwrap().epoch >= clock);
        // Nor when nothing can be written: a folder stands where the file should.
        std::fs::remove_file(&state).unwrap();
        std::fs::create_dir(&state).unwrap();
        assert!(keeper(&folder).recall().unwrap().epoch >= clock);
    }

    #[test]
    fn a_disk_without_room_takes_another_state_in_the_place_of_the_old_one() {
        let folder = folder();
        let state = folder.path().join("journal.state");
        let mut first = keeper(&folder);
        first.recall();
        first.keep(&Memory { epoch: 5, ..Memory::default() });
        first.end();
        // No file can be made beside it: that is how a full disk looks.
        std::fs::create_dir_all(folder.path().join("journal.state.new/in-the-way")).unwrap();
        let length = std::fs::metadata(&state).unwrap().len();
        let mut second = keeper(&folder);
        assert_eq!(second.recall().unwrap().epoch, 5);
        second.keep(&Memory { epoch: 6, ..Memory::default() });
        second.end();
        assert_eq!(std::fs::metadata(&state).unwrap().len(), length);
        assert_eq!(keeper(&folder).recall().unwrap().epoch, 6);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_end_a_cool_down() {
        let (wall, now) = (SystemTime::now(), Instant::now());
        let memory = Memory { epoch: 3, runs: 4, promoted: Some(now), ..Memory::default() };
        let text = words(&memory, true, wall, now);
        let later = parse_at(&text, wall - Duration::from_secs(3_600), now).unwrap();
        assert_eq!(later, (memory, true));
        let (later, _) = parse_at(&text, wall, now + Duration::from_secs(5)).unwrap();
        assert!(later.promoted.unwrap() >= now + Duration::from_secs(4));
    }
}
