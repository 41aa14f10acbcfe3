use super::*;

fn name(text: &str) -> Name {
    let (user, host) = text.split_once('@').unwrap();
    (user.into(), host.into())
}

fn account(text: &str, reads: bool) -> AccountRow {
    AccountRow { name: name(text), reads, ..AccountRow::default() }
}

/// Accounts without rights on everything, and `who schema.* yes|no` or `who schema.table yes|no`.
fn rows(accounts: &[&str], grants: &[&str]) -> GrantRows {
    let mut rows =
        GrantRows { accounts: accounts.iter().map(|text| account(text, false)).collect(), ..GrantRows::default() };
    for grant in grants {
        let [who, what, reads] = grant.split(' ').collect::<Vec<_>>()[..] else { panic!("{grant}") };
        let (schema, table) = what.split_once('.').unwrap();
        match table {
            "*" => rows.schemas.push((name(who), schema.into(), reads == "yes")),
            table => rows.tables.push((name(who), schema.into(), table.into(), reads == "yes")),
        }
    }
    rows
}

fn same(grants: &Grants, one: &str, two: &str) -> bool {
    grants.fingerprint(one).unwrap() == grants.fingerprint(two).unwrap()
}

#[test]
fn users_with_the_same_rights_are_the_same_whatever_they_are_called() {
    let all = rows(
        &["a@%", "b@10.%", "c@%", "d@%"],
        &["a@% app.* yes", "b@10.% app.* yes", "c@% app.t yes", "d@% app.* yes", "d@% app.t no"],
    );
    let grants = Grants::new(&all);
    assert!(same(&grants, "a", "b"));
    assert!(!same(&grants, "a", "c") && !same(&grants, "a", "d"));
    assert!(grants.fingerprint("e").is_none() && !grants.reads("e", "app", "t"));
    assert!(grants.reads("a", "app", "t") && !grants.reads("a", "other", "t") && !grants.reads_everything("a"));
    assert!(grants.reads("c", "app", "t") && !grants.reads("c", "app", "u"));
    assert!(grants.reads("d", "app", "t"), "what the schema gives the table does not take");
}

#[test]
fn everything_is_everything_and_what_else_counts_is_told_apart() {
    let mut all = rows(&["a@%", "b@%", "c@%"], &[]);
    for index in [0, 1] {
        all.accounts[index].reads = true;
    }
    let grants = Grants::new(&all);
    assert!(grants.reads_everything("a") && grants.reads("a", "any", "t") && !grants.reads_everything("c"));
    assert!(same(&grants, "a", "b"));
    all.accounts[1].more = "without init_connect".into();
    assert!(!same(&Grants::new(&all), "a", "b"));
}

#[test]
fn each_account_of_a_name_must_have_the_right() {
    let two = ["a@%", "a@10.%"];
    let grants = Grants::new(&rows(&two, &["a@% app.* yes"]));
    assert!(!grants.reads("a", "app", "t"));
    let grants = Grants::new(&rows(&two, &["a@% app.* yes", "a@10.% app.t yes"]));
    assert!(grants.reads("a", "app", "t") && !grants.reads("a", "app", "u"));
    // An account that takes any name may hide the named one.
    let grants = Grants::new(&rows(&["a@%", "@localhost"], &["a@% app.* yes"]));
    assert!(!grants.reads("a", "app", "t"));
    // Rights are looked for by the address, not by the account.
    for hides in ["a@10.% app.* no", "@% app.* no", "a@% ap_.* no", "a@% APP.* no"] {
        let grants = Grants::new(&rows(&["a@%"], &["a@% app.* yes", hides]));
        assert!(!grants.reads("a", "app", "t"), "{hides}");
    }
}

#[test]
fn patterns_of_schemas_match_as_the_servers_match_them() {
    let mut all = rows(&["a@%"], &["a@% app\\_1.* yes", "a@% shop_.* yes", "a@% x%.* yes"]);
    let reads = |rows: &GrantRows, schema| Grants::new(rows).reads("a", schema, "t");
    for (schema, expected) in
        [("app_1", true), ("appx1", false), ("shop1", true), ("shop", false), ("xyz", true), ("Xyz", false)]
    {
        assert_eq!(reads(&all, schema), expected, "{schema}");
    }
    all.literal_patterns = true;
    for (schema, expected) in [("shop_", true), ("shop1", false), ("xyz", false)] {
        assert_eq!(reads(&all, schema), expected, "{schema}");
    }
}

#[test]
fn default_roles_count_with_what_was_granted_to_them() {
    let mut all = rows(
        &["a@%", "b@%", "c@%", "reader@", "inner@"],
        &["reader@ app.* yes", "inner@ shop.* yes", "c@% app.* yes", "c@% shop.* yes"],
    );
    for role in [3, 4] {
        all.accounts[role].is_role = true;
    }
    all.roles = vec![
        (name("a@%"), name("reader@")),
        (name("b@%"), name("reader@")),
        (name("reader@"), name("inner@")),
        (name("inner@"), name("reader@")),
    ];
    all.defaults = vec![(name("a@%"), name("reader@")), (name("c@%"), name("reader@"))];
    let grants = Grants::new(&all);
    assert!(grants.reads("a", "app", "t") && grants.reads("a", "shop", "t"));
    assert!(!grants.reads("b", "app", "t"), "it has to set the role");
    assert!(grants.fingerprint("reader").is_none(), "nobody logs in with it");
    assert!(!same(&grants, "a", "b"));
    let before = *grants.fingerprint("a").unwrap();
    all.schemas.retain(|(of, _, _)| *of != name("inner@"));
    let grants = Grants::new(&all);
    assert!(!grants.reads("a", "shop", "t"));
    assert_ne!(*grants.fingerprint("a").unwrap(), before, "what a role loses, its users lose");
    all.defaults.clear();
    all.all_roles = true;
    assert!(Grants::new(&all).reads("b", "app", "t"));
    all.roles.clear();
    assert!(!Grants::new(&all).reads("a", "app", "t"), "a default role that was taken away is none");
}

#[test]
fn who_may_become_another_user_is_not_known() {
    let mut all = rows(&["a@%", "b@%"], &["a@% app.* yes", "b@% app.* yes"]);
    all.proxies.insert("a".into());
    let grants = Grants::new(&all);
    assert!(grants.fingerprint("a").is_none() && grants.fingerprint("b").is_some());
    all.proxies.insert(String::new());
    assert!(Grants::new(&all).fingerprint("b").is_none());
}

#[test]
fn grants_say_who_is_connection_admin() {
    for (grant, may) in [
        ("GRANT ALL PRIVILEGES ON *.* TO `app`@`%`", true),
        ("GRANT SELECT, SUPER ON *.* TO `app`@`%` IDENTIFIED BY PASSWORD '*X'", true),
        ("GRANT CONNECTION ADMIN ON *.* TO `app`@`%`", true),
        ("GRANT BACKUP_ADMIN,CONNECTION_ADMIN ON *.* TO `app`@`%`", true),
        ("GRANT USAGE ON *.* TO `SUPER`@`%`", false),
        ("GRANT PROCESS ON *.* TO `app`@`%`", false),
        ("GRANT ALL PRIVILEGES ON `app`.* TO `app`@`%`", false),
    ] {
        assert_eq!(is_admin_grant(grant), may, "{grant}");
    }
}
