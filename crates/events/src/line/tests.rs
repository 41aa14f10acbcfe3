use std::sync::Arc;
use std::time::Duration;

use sql::{Dialect, Encoding, Family, Modes};
use stats::digests::DigestName;

use super::*;
use crate::event::{ServerError, Text};

fn client() -> Arc<Client> {
    Arc::new(Client {
        address: "10.0.0.5:4711".into(),
        user: "app".into(),
        listener: "main".into(),
        cluster: "shop".into(),
        tls: true,
        program: Some("cron".into()),
        account: Some("app@10.%".into()),
    })
}

fn written(body: Body, shows: Shows<'_>) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_500);
    let mut out = Vec::new();
    Event { at, session: 12, client: client(), body }.line(3, "n1", shows, &mut Timestamps::default(), &mut out);
    String::from_utf8(out).unwrap()
}

fn query() -> Query {
    let digest = DigestName {
        hash: 0xab,
        text: "INSERT INTO t VALUES (...)".into(),
        user: "app".into(),
        schema: "shop".into(),
        cluster: "shop".into(),
    };
    let modes = Modes::empty();
    let dialect = Dialect { family: Family::MariaDb, version: 101_119, modes, encoding: Encoding::AsciiSafe };
    Query {
        digest: Arc::new(digest),
        text: Some(Text { bytes: b"INSERT INTO t VALUES ('x')"[..].into(), dialect }),
        text_cut: false,
        writes: false,
        slow: false,
        command: "COM_QUERY",
        answered_by: AnsweredBy::Server { name: "db1".into(), primary: true },
        route_reason: Some("write"),
        rule: None,
        error: Some(ServerError { code: 1062, sqlstate: *b"23000", text: "Duplicate entry 'x'".into() }),
        rows_sent: 0,
        rows_affected: 0,
        warnings: 0,
        bytes_in: Some(40),
        bytes_out: None,
        gtid: Some("0-1-7".into()),
        wait_us: 10,
        first_us: 200,
        total_us: 300,
        trace: None,
        statement: 4,
        transaction: 2,
        pins: ["transaction"].into(),
        rewritten: false,
        params: None,
        bulk_rows: None,
    }
}

#[test]
fn a_query_without_its_literals() {
    assert_eq!(
        written(Body::Query(query()), Shows::Form),
        "{\"v\":1,\"seq\":3,\"ts\":\"2023-11-14T22:13:20.000500Z\",\"node\":\"n1\",\"kind\":\"query\",\"session\":12,\
         \"client\":\"10.0.0.5:4711\",\"user\":\"app\",\"listener\":\"main\",\"cluster\":\"shop\",\"tls\":true,\"program\":\"cron\",\"account\":\"app@10.%\",\
         \"statement\":4,\"trx\":\"12.2\",\"schema\":\"shop\",\"command\":\"COM_QUERY\",\"digest\":\"00000000000000ab\",\
         \"form\":\"INSERT INTO t VALUES (...)\",\"answered_by\":\"server\",\"server\":\"db1\",\"role\":\"primary\",\
         \"route_reason\":\"write\",\"pins\":[\"transaction\"],\"error\":{\"code\":1062,\"sqlstate\":\"23000\"},\"rows_sent\":0,\
         \"rows_affected\":0,\"warnings\":0,\"bytes_in\":40,\"gtid\":\"0-1-7\",\"times\":{\"wait\":10,\"first\":200,\"total\":300}}\n"
    );
}

#[test]
fn a_query_with_its_text() {
    let line = written(Body::Query(query()), Shows::Text);
    assert!(line.contains("\"text\":\"INSERT INTO t VALUES ('x')\""), "{line}");
    assert!(line.contains("\"text\":\"Duplicate entry 'x'\""), "{line}");
}

#[test]
fn a_text_that_was_cut_says_so() {
    let cut = |shows| written(Body::Query(Query { text_cut: true, ..query() }), shows).contains("\"text_cut\":true");
    assert!(cut(Shows::Text) && !cut(Shows::Form));
}

#[test]
fn parameters_stand_where_literals_may() {
    use crate::event::{Param, Params, TEXT_BYTES_MAX};
    use crate::redaction::{Hasher, HmacKey};
    let mut params = Params::default();
    for value in [Param::Int(-7), Param::Null, Param::Float(0.5), Param::Bytes(b"Zecret9"[..].into())] {
        params.push(value);
    }
    let executed = |params: &Params| Query { params: Some(Box::new(params.clone())), rewritten: true, ..query() };
    let of = |params: &Params, shows: Shows<'_>| {
        serde_json::from_str::<serde_json::Value>(&written(Body::Query(executed(params)), shows)).unwrap()
    };
    let line = of(&params, Shows::Text);
    assert_eq!(line["params"], serde_json::json!([-7, null, 0.5, "Zecret9"]), "{line}");
    assert!(line["params_cut"].is_null() && line["rewritten"] == true, "{line}");
    let form = of(&params, Shows::Form);
    assert!(form["params"].is_null() && !form.to_string().contains("Zecret9"), "{form}");
    let hasher = Hasher::new(&HmacKey::new(b"a key of sixteen"));
    let hashed = of(&params, Shows::Hashed(&hasher));
    let text = Text { bytes: b"SELECT 'Zecret9'"[..].into(), ..query().text.unwrap() };
    let literal = hasher.text(&text).unwrap();
    let hash = hashed["params"][3].as_str().unwrap();
    assert!(literal.contains(hash) && hash.starts_with("hmac:"), "{hashed} {literal}");
    assert!(hashed["params"][1].is_null() && !hashed.to_string().contains("Zecret9"), "{hashed}");
    // A statement that may hold a password.
    let password = Text { bytes: b"SET PASSWORD = ?"[..].into(), ..query().text.unwrap() };
    let event = Query { text: Some(password), ..executed(&params) };
    assert!(!written(Body::Query(event), Shows::Hashed(&hasher)).contains("params"));

    let mut ahead = Params::default();
    ahead.push(Param::Long { bytes: 5_000, begin: b"Zecret9"[..].into() });
    assert_eq!(of(&ahead, Shows::Text)["params"], serde_json::json!([{"bytes": 5_000, "begin": "Zecret9"}]));
    assert_eq!(of(&ahead, Shows::Hashed(&hasher))["params"], serde_json::json!([{"bytes": 5_000}]));
    let mut bulk = Params::of_rows(2);
    for value in [Param::Int(1), Param::Default, Param::Bytes(b"Zecret9"[..].into()), Param::Ignore, Param::Int(3)] {
        bulk.push(value);
    }
    let (default, ignore) = (serde_json::json!({"indicator": "default"}), serde_json::json!({"indicator": "ignore"}));
    assert_eq!(of(&bulk, Shows::Text)["params"], serde_json::json!([[1, default], ["Zecret9", ignore], [3]]));
    let hashed_bulk = of(&bulk, Shows::Hashed(&hasher));
    assert_eq!(hashed_bulk["params"][1], serde_json::json!([hash, ignore]));

    let mut long = Params::default();
    long.push(Param::Bytes(vec![b'x'; TEXT_BYTES_MAX].into()));
    long.push(Param::Int(1));
    let line = of(&long, Shows::Text);
    assert_eq!((line["params"].as_array().unwrap().len(), &line["params_cut"]), (1, &true.into()));
    assert!(line["params"][0].as_str().unwrap().len() < TEXT_BYTES_MAX);
    let mut many = Params::default();
    (0..u16::MAX).for_each(|number| many.push(Param::Int(number.into())));
    assert!(of(&many, Shows::Text)["params"].as_array().unwrap().len() < 4_000);
}

#[test]
fn a_refused_query_and_a_refused_login() {
    let refused = written(Body::Query(Query { answered_by: AnsweredBy::Refused, ..query() }), Shows::Form);
    assert!(refused.contains("\"kind\":\"refused\"") && refused.contains("\"answered_by\":\"nobody\""), "{refused}");
    let failure = Some("wrong password\n".to_owned());
    let login = written(Body::Login(Login { schema: "".into(), failure, total_us: 9 }), Shows::Form);
    assert!(
        login.ends_with(
            "\"kind\":\"login\",\"session\":12,\"client\":\"10.0.0.5:4711\",\"user\":\"app\",\"listener\":\"main\",\
             \"cluster\":\"shop\",\"tls\":true,\"program\":\"cron\",\"account\":\"app@10.%\",\"ok\":false,\"reason\":\"wrong password\\n\",\
             \"times\":{\"total\":9}}\n"
        ),
        "{login}"
    );
}

#[test]
fn a_gap_says_which_numbers_are_gone() {
    let mut out = Vec::new();
    gap(5, 3, "n1", SystemTime::UNIX_EPOCH, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "{\"v\":1,\"seq\":5,\"ts\":\"1970-01-01T00:00:00.000000Z\",\"node\":\"n1\",\"kind\":\"gap\",\"from\":5,\"to\":7,\
         \"lost\":3}\n"
    );
}

#[test]
fn timestamps_of_one_second_and_of_others() {
    let mut times = Timestamps::default();
    for (micros, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (5, "1970-01-01T00:00:00.000005Z"),
        (1_700_000_000_999_999, "2023-11-14T22:13:20.999999Z"),
        (1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z"),
        (1_700_000_001_000_000, "2023-11-14T22:13:21.000000Z"),
    ] {
        assert_eq!(times.of(SystemTime::UNIX_EPOCH + Duration::from_micros(micros)), text);
    }
}

#[test]
fn refused_clients_and_orders_have_no_session() {
    let turned = TurnedAway { code: 1040, reason: "Too many connections".into(), count: 7 };
    let line = written(Body::TurnedAway(turned), Shows::Form);
    assert!(line.contains("\"kind\":\"login_refused\",\"client\":\"10.0.0.5:4711\",\"listener\":\"main\""), "{line}");
    assert!(
        line.contains("\"ok\":false,\"error\":{\"code\":1040,\"sqlstate\":\"08004\"},\"reason\":\"Too many"),
        "{line}"
    );
    assert!(line.ends_with("\"count\":7}\n") && !line.contains("session"), "{line}");
    let admin = Admin {
        way: "api",
        role: "operate".into(),
        client: "10.0.0.9".into(),
        action: "PUT /api/v1/sessions/7/kill".into(),
        order: String::new(),
        ok: true,
        result: "200 OK".into(),
    };
    assert_eq!(
        written(Body::Admin(admin), Shows::Text),
        "{\"v\":1,\"seq\":3,\"ts\":\"2023-11-14T22:13:20.000500Z\",\"node\":\"n1\",\"kind\":\"admin\",\
         \"client\":\"10.0.0.9\",\"user\":\"operate\",\"way\":\"api\",\"action\":\"PUT /api/v1/sessions/7/kill\",\
         \"ok\":true,\"result\":\"200 OK\"}\n"
    );
}
