use super::*;

fn rotation() -> Rotation {
    Rotation { size_max: 20, age_max: Duration::ZERO, keep: 2, compress: true }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_full_file_gets_another_name_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    std::fs::write(folder.path().join("events.old.txt"), "not ours").unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut file = EventFile::open(&path, &rotation(), at).unwrap();
    for number in 0..4 {
        let line = format!("the line number {number}\n");
        if let Some(rotated) = file.write(line.as_bytes(), at).unwrap() {
            tidy(&path, &rotated, &rotation()).unwrap();
        }
    }
    let expected = ["events", "events.20231114-221320.1.zst", "events.20231114-221320.2.zst", "events.old.txt"];
    assert_eq!(names(folder.path()), expected);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "the line number 3\n");
    let packed = File::open(folder.path().join("events.20231114-221320.2.zst")).unwrap();
    assert_eq!(zstd::stream::decode_all(packed).unwrap(), b"the line number 2\n");
}

#[test]
fn an_old_file_gets_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let by_age = Rotation { size_max: 0, age_max: Duration::from_secs(60), ..rotation() };
    let at = SystemTime::UNIX_EPOCH;
    let mut file = EventFile::open(&path, &by_age, at).unwrap();
    assert_eq!(file.write(b"1\n", at + Duration::from_secs(59)).unwrap(), None);
    assert!(file.write(b"2\n", at + Duration::from_secs(60)).unwrap().is_some());
    assert_eq!(std::fs::read(&path).unwrap(), b"2\n");
    assert_eq!(file.write(b"3\n", at + Duration::from_secs(119)).unwrap(), None);
}

#[test]
fn a_file_that_was_moved_away_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("events"), folder.path().join("moved"));
    let mut file = EventFile::open(&path, &rotation(), SystemTime::now()).unwrap();
    file.write(b"1\n", SystemTime::now()).unwrap();
    file.follow_name(SystemTime::now()).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    file.follow_name(SystemTime::now()).unwrap();
    file.write(b"2\n", SystemTime::now()).unwrap();
    assert_eq!(std::fs::read(&moved).unwrap(), b"1\n");
    assert_eq!(std::fs::read(&path).unwrap(), b"2\n");
}

#[test]
fn a_pipe_keeps_its_name_and_takes_every_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let at = SystemTime::UNIX_EPOCH;
    let by_age = Rotation { age_max: Duration::from_secs(1), ..rotation() };
    let mut file = EventFile::open(&path, &by_age, at).unwrap();
    let mut reader = std::io::BufReader::new(File::open(&path).unwrap());
    for second in 0..4 {
        let now = at + Duration::from_secs(second);
        assert_eq!(file.write(format!("a line that is long: {second}\n").as_bytes(), now).unwrap(), None);
        file.sync().unwrap();
        file.follow_name(now).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        assert_eq!(line, format!("a line that is long: {second}\n"));
    }
    assert_eq!(names(folder.path()), ["pipe"]);
}

#[test]
fn half_a_line_is_cut_off_if_it_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    for (before, after) in [
        ("{\"v\":1,\"seq\":1}\n{\"v\":1,\"se", "{\"v\":1,\"seq\":1}\n"),
        ("{\"v\":1,\"se", ""),
        ("{", ""),
        ("no event\nat all", "no event\nat all\n"),
        ("{\"v\":1,\"seq\":1}\n", "{\"v\":1,\"seq\":1}\n"),
    ] {
        std::fs::write(&path, before).unwrap();
        let mut file = EventFile::open(&path, &rotation(), SystemTime::now()).unwrap();
        assert_eq!(file.bytes, after.len() as u64);
        file.rotation.size_max = 0;
        file.write(b"{}\n", SystemTime::now()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{after}{{}}\n"));
    }
}

#[test]
fn others_may_not_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    EventFile::open(&path, &rotation(), SystemTime::now()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o007, 0);
}

#[test]
fn a_file_that_another_program_has_cut_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let now = SystemTime::UNIX_EPOCH;
    let mut file = EventFile::open(&path, &rotation(), now).unwrap();
    file.write(b"fifteen bytes.\n", now).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(!file.follow_name(now).unwrap());
    assert_eq!(file.write(b"fifteen bytes.\n", now).unwrap(), None, "there is room again");
    assert_eq!(std::fs::read(&path).unwrap(), b"fifteen bytes.\n");
}
