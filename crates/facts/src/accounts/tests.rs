use super::*;

fn accounts(names: &[(&str, &str)]) -> Accounts {
    let account = |(user, host): &(&str, &str)| Account {
        user: (*user).into(),
        host: (*host).into(),
        verifiers: vec![],
        locked: false,
        expired: false,
        tls: TlsDemand::None,
        counts_failures: false,
        statement_time: None,
    };
    Accounts::sorted(1, true, names.iter().map(account).collect())
}

fn found(accounts: &Accounts, user: &str, address: &str) -> Option<String> {
    let address = (!address.is_empty()).then(|| address.parse().unwrap());
    accounts.find(user, address).map(|account| format!("{}@{}", account.user, account.host))
}

#[test]
fn the_most_specific_host_wins() {
    let all = accounts(&[
        ("app", ""),
        ("app", "%"),
        ("app", "10.%"),
        ("app", "10.1.%"),
        ("app", "10.1.2.0/255.255.255.0"),
        ("app", "10.1.0.0/255.255.0.0"),
        ("app", "10.1.2.3"),
    ]);
    let hosts: Vec<&str> = all.accounts.iter().map(|account| &*account.host).collect();
    assert_eq!(hosts, ["10.1.2.3", "10.1.2.0/255.255.255.0", "10.1.0.0/255.255.0.0", "10.1.%", "10.%", "%", ""]);
    for (address, host) in [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("10.1.2.4", "10.1.2.0/255.255.255.0"),
        ("10.1.3.4", "10.1.0.0/255.255.0.0"),
        ("10.2.3.4", "10.%"),
        ("11.2.3.4", "%"),
        ("2001:db8::1", "%"),
    ] {
        assert_eq!(found(&all, "app", address), Some(format!("app@{host}")), "{address}");
    }
}

#[test]
fn a_more_specific_anonymous_account_hides_a_named_one() {
    let all = accounts(&[("app", "%"), ("", "10.0.0.1"), ("app", "10.0.0.2"), ("", "10.0.0.2")]);
    assert_eq!(found(&all, "app", "10.0.0.1").as_deref(), Some("@10.0.0.1"));
    assert_eq!(found(&all, "app", "10.0.0.2").as_deref(), Some("app@10.0.0.2"));
    assert_eq!(found(&all, "other", "10.0.0.2").as_deref(), Some("@10.0.0.2"));
    assert_eq!(found(&all, "other", "10.0.0.3"), None);
}

#[test]
fn local_clients_are_localhost() {
    let all = accounts(&[("app", "localhost"), ("app", "10.0.0.1"), ("tcp", "127.0.0.1"), ("any", "%")]);
    assert_eq!(found(&all, "app", "").as_deref(), Some("app@localhost"));
    assert_eq!(found(&all, "app", "127.0.0.1").as_deref(), Some("app@localhost"));
    assert_eq!(found(&all, "app", "::1").as_deref(), Some("app@localhost"));
    assert_eq!(found(&all, "app", "10.0.0.2"), None);
    assert_eq!(found(&all, "tcp", ""), None);
    assert_eq!(found(&all, "any", "").as_deref(), Some("any@%"));
    let unresolved = Accounts { resolves_names: false, ..all };
    assert_eq!(found(&unresolved, "app", "").as_deref(), Some("app@localhost"));
    assert_eq!(found(&unresolved, "app", "127.0.0.1"), None);
    assert_eq!(found(&unresolved, "tcp", "127.0.0.1").as_deref(), Some("tcp@127.0.0.1"));
}

#[test]
fn users_are_case_sensitive_and_hosts_are_not() {
    let all = accounts(&[("App", "LocalHost")]);
    assert_eq!(found(&all, "App", "").as_deref(), Some("App@LocalHost"));
    assert_eq!(found(&all, "app", ""), None);
}

#[test]
fn masks_and_lengths() {
    let all = accounts(&[("a", "192.168.4.0/255.255.252.0"), ("b", "10.0.0.0/8"), ("c", "0.0.0.0/0")]);
    assert_eq!(found(&all, "a", "192.168.7.255").as_deref(), Some("a@192.168.4.0/255.255.252.0"));
    assert_eq!(found(&all, "a", "192.168.8.0"), None);
    assert_eq!(found(&all, "b", "10.255.0.1").as_deref(), Some("b@10.0.0.0/8"));
    assert_eq!(found(&all, "c", "203.0.113.9").as_deref(), Some("c@0.0.0.0/0"));
    assert_eq!(found(&all, "c", "2001:db8::9"), None);
    assert_eq!(found(&all, "c", ""), None);
    // The network has bits outside the mask: such an account matches no client (MySQL's manual, "Specifying Account Names").
    assert_eq!(found(&accounts(&[("d", "10.0.0.1/255.0.0.0")]), "d", "10.0.0.1"), None);
}

#[test]
fn wildcards() {
    for (pattern, address, matches) in [
        ("198.51.100.%", "198.51.100.7", true),
        ("198.51.100._", "198.51.100.7", true),
        ("198.51.100._", "198.51.100.17", false),
        ("%.7", "198.51.100.7", true),
        ("%1%1%", "198.51.100.7", true),
        ("%9%9%9%", "198.51.100.7", false),
        ("198.51.100\\%", "198.51.100.7", false),
        ("2001:db8::%", "2001:db8::5", true),
        ("2001:DB8:0:0::5", "2001:db8::5", true),
        ("local%", "127.0.0.1", true),
    ] {
        let one = accounts(&[("u", pattern)]);
        assert_eq!(found(&one, "u", address).is_some(), matches, "{pattern} {address}");
    }
}

proptest::proptest! {
    #[test]
    fn matching_never_panics_and_a_host_matches_itself(host in "[a-z0-9.]{0,12}", pattern in "[a-b%_\\\\.]{0,12}") {
        assert!(like(host.as_bytes(), host.as_bytes()));
        assert!(like(b"%", host.as_bytes()));
        let _ = like(pattern.as_bytes(), host.as_bytes());
    }

    #[test]
    fn like_agrees_with_its_definition(text in "[ab]{0,8}", pattern in "[ab%_]{0,8}") {
        fn slow(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'%', rest)) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
                Some((c, rest)) => text.first().is_some_and(|t| *c == b'_' || c == t) && slow(rest, &text[1..]),
            }
        }
        assert_eq!(like(pattern.as_bytes(), text.as_bytes()), slow(pattern.as_bytes(), text.as_bytes()));
    }
}

#[test]
fn a_connection_has_the_statement_time_of_its_user_if_all_accounts_agree() {
    let mut accounts = accounts(&[("app", "%"), ("app", "10.0.0.1"), ("other", "%")]);
    assert_eq!(accounts.statement_time("app"), None);
    let limit = |accounts: &mut Accounts, host: &str| {
        let account = accounts.accounts.iter_mut().find(|account| *account.user == *"app" && *account.host == *host);
        account.unwrap().statement_time = Some("2.000000".into());
    };
    limit(&mut accounts, "%");
    assert_eq!(accounts.statement_time("app"), Some(UNSURE));
    limit(&mut accounts, "10.0.0.1");
    assert_eq!(accounts.statement_time("app"), Some("2.000000"));
    assert_eq!((accounts.statement_time("other"), accounts.statement_time("nobody")), (None, None));
}
