use std::fs;
use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(folder: &Path, more: &[&str]) -> Args {
    let output = folder.join("sqluice.toml");
    let line = ["init", "--non-interactive", "--output", output.to_str().unwrap()];
    Line::parse_from(line.iter().chain(more)).args
}

/// Runs without asking; what is for standard output is thrown away.
fn init(args: &Args) -> anyhow::Result<ExitCode> {
    create(args, None::<&mut &[u8]>, &mut Vec::new())
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_it_writes_passes_the_check() {
    let folder = folder();
    let args = args(folder.path(), &["--server", "db1=10.0.0.1:3306", "--server", "b=[::1]", "--cluster", "shop"]);
    assert_eq!(init(&args).unwrap(), ExitCode::SUCCESS);

    let loaded = config::load(&args.output).unwrap();
    assert_eq!(loaded.warnings, []);
    let cluster = &loaded.config.clusters["shop"];
    assert_eq!(cluster.kind, config::ClusterKind::Replication);
    assert_eq!(cluster.servers["db1"].address.to_string(), "10.0.0.1:3306");
    assert_eq!(cluster.servers["b"].address.to_string(), "[::1]:3306");
    assert_eq!(&*cluster.monitor.user, "sqluice");
    let password = fs::read_to_string(folder.path().join("sqluice-monitor.pw")).unwrap();
    assert_eq!(cluster.monitor.password.expose(), password.trim_end().as_bytes());
    assert_eq!(loaded.config.admin.unwrap().address.to_string(), "127.0.0.1:9104");
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_what_it_writes() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = folder();
    let args = args(folder.path(), &["--server", "10.0.0.1"]);
    init(&args).unwrap();
    for name in ["sqluice.toml", "sqluice-monitor.pw"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn it_overwrites_only_when_told_and_keeps_the_password() {
    let folder = folder();
    let first = args(folder.path(), &["--server", "10.0.0.1"]);
    init(&first).unwrap();
    let password = fs::read_to_string(folder.path().join("sqluice-monitor.pw")).unwrap();
    let before = fs::read_to_string(&first.output).unwrap();

    let again = args(folder.path(), &["--server", "10.0.0.2"]);
    assert!(init(&again).unwrap_err().to_string().contains("--grants-only"));
    assert_eq!(fs::read_to_string(&first.output).unwrap(), before);

    let forced = args(folder.path(), &["--server", "10.0.0.2", "--force"]);
    init(&forced).unwrap();
    assert!(fs::read_to_string(&first.output).unwrap().contains("10.0.0.2:3306"));
    assert_eq!(fs::read_to_string(folder.path().join("sqluice-monitor.pw")).unwrap(), password);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind but the copy");
}

#[test]
fn an_edited_file_is_never_lost() {
    let folder = folder();
    let first = args(folder.path(), &["--server", "10.0.0.1"]);
    init(&first).unwrap();
    fs::write(&first.output, "# days of work\n").unwrap();
    let forced = args(folder.path(), &["--server", "10.0.0.1", "--force"]);
    init(&forced).unwrap();
    fs::write(&first.output, "# more of it\n").unwrap();
    init(&forced).unwrap();
    let copy = |number: u32| fs::read_to_string(folder.path().join(format!("sqluice.toml.bak-{number}"))).unwrap();
    assert_eq!((copy(1).as_str(), copy(2).as_str()), ("# days of work\n", "# more of it\n"));
    // Nothing is written where no copy can be kept.
    fs::remove_file(&first.output).unwrap();
    fs::create_dir(&first.output).unwrap();
    assert!(init(&forced).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn grants_are_printed_alone() {
    let folder = folder();
    let printed = |more: &[&str]| {
        let mut sql = Vec::new();
        let done = create(&args(folder.path(), more), None::<&mut &[u8]>, &mut sql).unwrap();
        assert_eq!(done, ExitCode::SUCCESS);
        String::from_utf8(sql).unwrap()
    };
    // For the arguments, while there is no file; and none comes to be.
    let sql = printed(&["--grants-only", "--family", "mysql", "--kind", "replication"]);
    assert!(sql.contains("IDENTIFIED BY 'the monitor''s password';") && sql.contains("REPLICATION CLIENT"), "{sql}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // For the file, exactly what was printed when it was written.
    let two = ["--server", "10.0.0.1", "--server", "10.0.0.2", "--failover", "--monitor-user", "watcher"];
    let first = printed(&two);
    let before = fs::read_to_string(folder.path().join("sqluice.toml")).unwrap();
    assert_eq!(printed(&["--grants-only"]), first);
    assert!(first.contains("'watcher'@'%'") && first.contains("GRANT REPLICATION SLAVE ON"), "{first}");
    assert_eq!(fs::read_to_string(folder.path().join("sqluice.toml")).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "configuration, password and key");
    // The file does not say from where the monitor logs in: the command that is shown does.
    let again = only::command(&args(folder.path(), &["--monitor-host", "10.0.0.9"]), grants::Family::Mariadb);
    assert!(again.contains(" --family mariadb --monitor-host '10.0.0.9' --output "), "{again}");
    let again = only::command(&args(folder.path(), &[]), grants::Family::Mysql);
    assert!(again.contains(" --family mysql --output "), "{again}");
    // Edited, it is still the file that counts.
    fs::write(folder.path().join("sqluice.toml"), before.replace("watcher", "guard")).unwrap();
    assert!(printed(&["--grants-only"]).contains("'guard'@'%'"));
}

#[test]
fn wrong_answers_write_nothing() {
    let folder = folder();
    let args = args(folder.path(), &["--server", "db1=10.0.0.1:99999"]);
    assert_eq!(init(&args).unwrap(), ExitCode::FAILURE);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn without_servers_it_says_which_flag() {
    let folder = folder();
    let error = init(&args(folder.path(), &[])).unwrap_err();
    assert!(error.to_string().contains("--server"), "{error}");
}

#[test]
fn a_given_password_file_is_used_and_stays() {
    let folder = folder();
    let file = folder.path().join("mine.pw");
    fs::write(&file, "it's mine\n").unwrap();
    let args = args(folder.path(), &["--server", "10.0.0.1", "--monitor-password-file", file.to_str().unwrap()]);
    init(&args).unwrap();
    let loaded = config::load(&args.output).unwrap();
    assert_eq!(loaded.config.clusters["main"].monitor.password.expose(), b"it's mine");
    assert_eq!(fs::read_to_string(&file).unwrap(), "it's mine\n");
}

#[test]
fn questions_take_defaults_and_answers() {
    let folder = folder();
    let args = args(folder.path(), &[]);
    let mut output = Vec::new();
    let input = "127.0.0.1:3306, b=db.example:3307\n\nwatcher\nnone\nmysql\n";
    let answers = ask(&args, &mut input.as_bytes(), &mut output).unwrap();
    let servers = [("db1", "127.0.0.1:3306"), ("b", "db.example:3307")];
    assert_eq!(answers.servers, servers.map(|(name, address)| (name.to_owned(), address.to_owned())));
    // 3306 is the local server's.
    assert_eq!(answers.listen, "0.0.0.0:3307");
    assert_eq!(answers.monitor_user, "watcher");
    assert_eq!(answers.admin, None);
    assert_eq!(answers.family, Family::Mysql);
    assert!(String::from_utf8(output).unwrap().contains("Where clients connect [0.0.0.0:3307]: "));
    assert!(ask(&args, &mut "10.0.0.1\n".as_bytes(), &mut Vec::new()).is_err(), "the input may end early");
}

#[test]
fn made_up_passwords_differ_and_have_every_kind_of_symbol() {
    let (a, b) = (files::made_up_password().unwrap(), files::made_up_password().unwrap());
    assert_ne!(a, b);
    for password in [a, b] {
        assert_eq!(password.len(), 32);
        assert!(password.bytes().any(|b| b.is_ascii_digit()) && password.contains(['-', '_']));
    }
}

#[test]
fn sql_quotes_names_and_escapes_the_schema() {
    let grantee = Grantee {
        user: "o'hara",
        host: "10.%",
        password: "p'w",
        heartbeat_schema: "sq_luice",
        kind: ClusterKindArg::Replication,
        failover: false,
    };
    for family in [Family::Mariadb, Family::Mysql] {
        let sql = grants::sql(family, &grantee);
        assert!(sql.contains("CREATE USER IF NOT EXISTS 'o''hara'@'10.%' IDENTIFIED BY 'p''w';"), "{sql}");
        assert!(sql.contains("GRANT CREATE, SELECT, INSERT, UPDATE ON `sq\\_luice`.* TO 'o''hara'@'10.%';"), "{sql}");
        // Every statement, or several for one reason, stands behind a comment that says why.
        let lines: Vec<&str> = sql.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("GRANT ")) {
            let before = lines[..at].iter().rfind(|line| !line.starts_with("GRANT "));
            assert!(before.is_some_and(|before| before.starts_with("-- ")), "{line} has no reason");
        }
    }
}

#[test]
fn with_failover_the_account_replicates_and_the_api_has_a_key() {
    let folder = folder();
    let args = args(folder.path(), &["--server", "10.0.0.1", "--server", "10.0.0.2", "--failover"]);
    let mut sql = Vec::new();
    assert_eq!(create(&args, None::<&mut &[u8]>, &mut sql).unwrap(), ExitCode::SUCCESS);
    assert!(String::from_utf8(sql).unwrap().contains("GRANT REPLICATION SLAVE ON *.*"));
    let config = config::load(&args.output).unwrap().config;
    let cluster = &config.clusters["main"];
    assert_eq!(cluster.failover, config::Failover::Auto);
    assert_eq!(cluster.replication.user.as_deref(), Some("sqluice"));
    assert_eq!(cluster.replication.password.as_ref(), Some(&cluster.monitor.password));
    let key = fs::read_to_string(folder.path().join("sqluice-admin.key")).unwrap();
    assert_eq!(config.admin.unwrap().keys.admin.unwrap().expose(), key.trim_end().as_bytes());

    let one = self::args(folder.path(), &["--server", "10.0.0.1", "--failover", "--force"]);
    assert!(init(&one).unwrap_err().to_string().contains("at least two servers"));
}

#[test]
fn each_kind_of_cluster_gets_a_file_that_passes_and_its_own_rights() {
    use config::ClusterKind::{Galera, GroupReplication, Ndb, Replication, Standalone};
    for (word, kind, families, wanted, heartbeat) in [
        ("standalone", Standalone, &["mariadb", "mysql"][..], "Run this as an administrator.\n", true),
        ("replication", Replication, &["mariadb", "mysql"], "on the primary", true),
        ("galera", Galera, &["mariadb", "mysql"], "the group brings it", false),
        ("group_replication", GroupReplication, &["mysql"], "GRANT GROUP_REPLICATION_ADMIN ON", true),
        ("ndb", Ndb, &["mysql"], "GRANT SELECT ON ndbinfo.* TO", false),
    ] {
        for family in ["mariadb", "mysql"] {
            let folder = folder();
            let mut line = vec!["--kind", word, "--family", family, "--server", "10.0.0.1"];
            if kind != Standalone {
                line.extend(["--server", "10.0.0.2"]);
            }
            let args = args(folder.path(), &line);
            let mut printed = Vec::new();
            let done = create(&args, None::<&mut &[u8]>, &mut printed);
            if !families.contains(&family) {
                assert!(done.unwrap_err().to_string().contains("MariaDB has no"), "{word} {family}");
                continue;
            }
            assert_eq!(done.unwrap(), ExitCode::SUCCESS);
            let loaded = config::load(&args.output).unwrap();
            assert_eq!(loaded.warnings, [], "{word}");
            assert_eq!(loaded.config.clusters["main"].kind, kind);
            let sql = String::from_utf8(printed).unwrap();
            assert!(sql.contains(wanted), "{word} {family}: {sql}");
            assert_eq!(sql.contains("GRANT CREATE, SELECT, INSERT, UPDATE"), heartbeat, "{word} {family}: {sql}");
        }
    }
}

#[test]
fn a_kind_without_sense_is_refused() {
    let folder = folder();
    let two = ["--server", "10.0.0.1", "--server", "10.0.0.2"];
    for (more, words) in [
        (vec!["--kind", "ndb", "--failover"], "no use with --kind ndb"),
        (vec!["--kind", "galera", "--failover"], "no use with --kind galera"),
        (vec!["--kind", "standalone"], "for one server"),
    ] {
        let line: Vec<&str> = two.iter().copied().chain(more).collect();
        let error = init(&args(folder.path(), &line)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // The family follows from the kind.
    let line: Vec<&str> = two.iter().copied().chain(["--kind", "ndb"]).collect();
    assert_eq!(init(&args(folder.path(), &line)).unwrap(), ExitCode::SUCCESS);
}
