//! Rights that change: an administrator gives and takes them, and users log in before and after.

use super::{Generator, query};
use crate::script::{Account, Action, OTHER_PASSWORD};

/// The administrator's session.
const ADMINISTRATOR: usize = 40;
/// The first session of a user.
const USERS: usize = 41;

/// A step, and how its session logs in.
pub(super) struct Turn {
    pub(super) session: usize,
    pub(super) account: Account,
    pub(super) other_password: bool,
    pub(super) action: Action,
}

/// Makes the accounts.
pub(super) fn set_up(generator: &mut Generator) -> Vec<Action> {
    let password = lab::APP_PASSWORD;
    let mut steps = vec![
        query(format!("CREATE USER {{u1}} IDENTIFIED BY '{password}'")),
        query(format!("CREATE USER {{u2}} IDENTIFIED BY '{password}'")),
        query("CREATE ROLE {r1}"),
    ];
    for sql in
        ["GRANT SELECT ON {a}.* TO {r1}", "GRANT SELECT, CREATE, DROP ON {b}.* TO {u1}", "GRANT SELECT ON *.* TO {u1}"]
    {
        if generator.random.once_in(2) {
            steps.push(query(sql));
        }
    }
    steps
}

/// The next steps: of the administrator, of a user who is there, or of one who logs in now.
pub(super) fn turn(generator: &mut Generator, users: &mut Vec<(usize, Account)>) -> Vec<Turn> {
    match generator.random.below(6) {
        0 | 1 => {
            let sql = change(generator);
            let turn = |session, account, action| Turn { session, account, other_password: false, action };
            let mut turns = Vec::new();
            // Servers read some rights at a login, or when a schema is entered: through Sqluice, sessions may get them sooner.
            if !sql.contains("{a}.shared") && !sql.contains("{a}.mine") {
                turns.extend(users.drain(..).map(|(session, account)| turn(session, account, Action::Quit)));
            }
            turns.push(turn(ADMINISTRATOR, Account::Admin, query(sql)));
            turns.extend(login(generator, users));
            turns
        }
        2 | 3 if !users.is_empty() => {
            let (session, account) = users[generator.random.below(users.len())];
            work(generator, session, account)
        }
        4 if !users.is_empty() => {
            let (session, account) = users.swap_remove(generator.random.below(users.len()));
            vec![Turn { session, account, other_password: false, action: Action::Quit }]
        }
        _ => login(generator, users),
    }
}

fn login(generator: &mut Generator, users: &mut Vec<(usize, Account)>) -> Vec<Turn> {
    let session = USERS + usize::try_from(generator.fresh()).unwrap_or(0);
    let account = if generator.random.once_in(4) { Account::Second } else { Account::First };
    users.push((session, account));
    let mut turns = work(generator, session, account);
    if generator.random.once_in(12) {
        turns.iter_mut().for_each(|turn| turn.other_password = true);
    }
    turns
}

fn work(generator: &mut Generator, session: usize, account: Account) -> Vec<Turn> {
    let mut turns = Vec::new();
    for _ in 0..1 + generator.random.below(3) {
        let action = match generator.random.below(14) {
            0..=2 => query("SELECT COUNT(*) FROM {a}.shared"),
            3 => query("SELECT v FROM {a}.seen WHERE id = 1"),
            4 => query("INSERT INTO {a}.mine (v) VALUES ('u')"),
            5 => query("SELECT CURRENT_ROLE()"),
            6 => query(generator.one_of(&["SET ROLE {r1}", "SET ROLE NONE"])),
            7 => query(generator.one_of(&["USE {a}", "USE {b}"])),
            8 => query("SELECT CURRENT_USER(), DATABASE()"),
            9 => query("CREATE TABLE IF NOT EXISTS {b}.made_by_user (id INT)"),
            10 => query("SELECT COUNT(*) FROM {b}.made_by_user"),
            11 => query(generator.one_of(&["SHOW GRANTS", "SHOW DATABASES LIKE '{a}'"])),
            12 => Action::Reset,
            // MariaDB keeps the role of an account that has no default role.
            _ if generator.mariadb() => Action::Ping,
            _ => Action::ChangeUser(None, None),
        };
        turns.push(Turn { session, account, other_password: false, action });
    }
    turns
}

fn change(generator: &mut Generator) -> String {
    let user = generator.one_of(&["{u1}", "{u1}", "{u2}"]);
    let what = generator.one_of(&["SELECT", "INSERT", "SELECT, INSERT", "SELECT, CREATE"]);
    let place = generator.one_of(&["{a}.*", "{a}.shared", "{b}.*", "{a}.mine"]);
    match generator.random.below(16) {
        0..=2 => format!("GRANT {what} ON {place} TO {user}"),
        3 | 4 => format!("REVOKE {what} ON {place} FROM {user}"),
        5 => format!("GRANT SELECT ON *.* TO {user}"),
        6 => format!("REVOKE SELECT ON *.* FROM {user}"),
        7 => format!("GRANT {{r1}} TO {user}"),
        // MariaDB warns at a login whose default role was taken away.
        8 if generator.mariadb() => format!("SET DEFAULT ROLE NONE FOR {user}; REVOKE {{r1}} FROM {user}"),
        8 => format!("REVOKE {{r1}} FROM {user}"),
        9 => default_role(generator, "{r1}", &user),
        10 => default_role(generator, "NONE", &user),
        11 => format!("GRANT SELECT ON {place} TO {{r1}}"),
        12 => format!("ALTER USER {user} ACCOUNT {}", generator.one_of(&["LOCK", "UNLOCK", "UNLOCK"])),
        13 => {
            let password = if generator.random.once_in(2) { OTHER_PASSWORD } else { lab::APP_PASSWORD };
            format!("ALTER USER {user} IDENTIFIED BY '{password}'")
        }
        14 => format!("DROP USER IF EXISTS {user}"),
        _ => format!("CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{}'", lab::APP_PASSWORD),
    }
}

fn default_role(generator: &Generator, role: &str, user: &str) -> String {
    if generator.mariadb() {
        format!("SET DEFAULT ROLE {role} FOR {user}")
    } else {
        format!("SET DEFAULT ROLE {role} TO {user}")
    }
}
