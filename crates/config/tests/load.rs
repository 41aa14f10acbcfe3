//! Reading from the machine's files.

#![allow(clippy::unwrap_used, clippy::panic)] // The helpers of a test fail like the test.

use std::fs;

use sqluice_config::load;

const TEXT: &str = r#"
[cluster.main]
kind = "standalone"
monitor = { user = "m", password_file = "secrets/m.pw" }
servers.db1.address = "10.0.0.1:3306"
[listener.app]
address = "0.0.0.0:3306"
cluster = "main"
"#;

#[test]
fn paths_start_where_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("secrets")).unwrap();
    fs::write(folder.path().join("secrets/m.pw"), "hush\r\n").unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, TEXT).unwrap();
    let loaded = load(&file).unwrap();
    assert_eq!(loaded.config.clusters["main"].monitor.password.expose(), b"hush");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("c.toml");
    let error = load(&missing).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: the file cannot be read: ", missing.display())), "{error}");
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("it is a directory"), "{error}");
    fs::write(&missing, b"a = 1\nb = \"\xff\"\n").unwrap();
    let error = load(&missing).unwrap_err().to_string();
    assert!(error.contains("not UTF-8 text (line 2)"), "{error}");
    fs::write(&missing, vec![b'#'; 5 << 20]).unwrap();
    let error = load(&missing).unwrap_err().to_string();
    assert!(error.contains("over 4 MiB"), "{error}");
}

#[cfg(unix)]
#[test]
fn secrets_that_everybody_can_read_are_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, TEXT.replace("password_file = \"secrets/m.pw\"", "password = \"hush\"")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(load(&file).unwrap().warnings, []);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let warning = load(&file).unwrap().warnings[0].to_string();
    assert!(warning.contains("cluster.main.monitor.password: everybody can read this file (mode 0644)"), "{warning}");
}
