use std::time::Duration;

use super::super::logins::LIFE;
use super::*;

fn access() -> Access {
    let access = Access::default();
    access.set_port(9104);
    access.set_keys(keys("hush hush"));
    access
}

fn keys(admin: &str) -> AdminKeys {
    AdminKeys { admin: Some(Secret::new(admin)), operate: Some(Secret::new("o")), view: Some(Secret::new("v")) }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn role(access: &Access, pairs: &[(&'static str, &str)], is_change: bool, now: Instant) -> Result<Role, u16> {
    access.role(&headers(pairs), is_change, None, now).map_err(|(status, _)| status.as_u16())
}

#[test]
fn each_key_has_its_role_and_nothing_else_opens() {
    let (access, now) = (access(), Instant::now());
    let shown = |value: &str| role(&access, &[("authorization", value)], true, now);
    assert_eq!(shown("Bearer hush hush"), Ok(Role::Admin));
    assert_eq!(shown("bearer o"), Ok(Role::Operate));
    assert_eq!(shown("Bearer v"), Ok(Role::View));
    for wrong in ["Bearer hush", "Bearer hush hush ", "Bearer ", "Bearer", "Basic hush hush", "hush hush", ""] {
        assert_eq!(shown(wrong), Err(401), "{wrong}");
    }
    assert_eq!(role(&access, &[], false, now), Err(401));
    assert_eq!(role(&access, &[("cookie", "sqluice_9104=00")], false, now), Err(401));
    let closed = Access::default();
    for pairs in [&[][..], &[("authorization", "Bearer ")], &[("authorization", "Bearer hush hush")]] {
        assert_eq!(role(&closed, pairs, false, now), Err(403));
    }
    assert!(closed.log_in(b"", None, now).is_err());
}

#[test]
fn a_cookie_reads_and_changes_only_with_its_token() {
    let (access, now) = (access(), Instant::now());
    let login = access.log_in(b"o", None, now).unwrap();
    let cookie = format!("other=1; sqluice_9104={}; more=2", login.cookie);
    assert_eq!(role(&access, &[("cookie", &cookie)], false, now), Ok(Role::Operate));
    assert_eq!(role(&access, &[("cookie", &cookie)], true, now), Err(403), "no token");
    assert_eq!(role(&access, &[("cookie", &cookie), (TOKEN_HEADER, "x")], true, now), Err(403));
    assert_eq!(role(&access, &[("cookie", &cookie), (TOKEN_HEADER, &login.cookie)], true, now), Err(403));
    assert_eq!(role(&access, &[("cookie", &cookie), (TOKEN_HEADER, &login.token)], true, now), Ok(Role::Operate));
    assert_eq!(role(&access, &[("cookie", &cookie)], false, now + LIFE), Err(401), "it has ended");
    let again = access.log_in(b"o", None, now).unwrap();
    let own = headers(&[("cookie", &format!("sqluice_9104={}", again.cookie))]);
    access.log_out(&own);
    assert!(access.login(&own, now).is_none());
}

#[test]
fn a_changed_key_ends_its_logins_and_no_others() {
    let (access, now) = (access(), Instant::now());
    let cookie = |login: Login| headers(&[("cookie", &format!("sqluice_9104={}", login.cookie))]);
    let admin = cookie(access.log_in(b"hush hush", None, now).unwrap());
    let view = cookie(access.log_in(b"v", None, now).unwrap());
    access.set_keys(keys("another"));
    assert!(access.login(&admin, now).is_none());
    assert!(access.login(&view, now).is_some());
}

#[test]
fn wrong_keys_of_an_address_are_counted_and_others_are_not_kept_out() {
    let (access, now) = (access(), Instant::now());
    let (guesser, other) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
    let status =
        |key: &[u8], peer, now| access.log_in(key, peer, now).map_or_else(|(status, _)| status.as_u16(), |_| 200);
    for _ in 0..LOGIN_PACE.burst {
        assert_eq!(status(b"guess", guesser, now), 401);
    }
    assert_eq!(status(b"guess", guesser, now), 429);
    assert_eq!(status(b"hush hush", guesser, now), 429, "the right key tells nothing then");
    assert_eq!(status(b"hush hush", other, now), 200);
    assert_eq!(role(&access, &[("authorization", "Bearer hush hush")], true, now), Ok(Role::Admin));
    let later = now + Duration::from_millis(LOGIN_PACE.each_ms);
    assert_eq!(status(b"guess", guesser, later), 401, "one more try has come");
    assert_eq!(status(b"guess", guesser, later), 429);
}
