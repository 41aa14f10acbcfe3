//! Query attributes, which only MySQL has; and what greetings offer.

use lab::Family;

use super::*;
use ::wire::codec::Write as _;

/// A name and a value; `None` is NULL.
type Named = (&'static str, Option<(u8, Vec<u8>)>);

/// Values with their types and names, as they stand in front of the text of COM_QUERY.
fn attributes(all: &[Named]) -> Vec<u8> {
    let mut out = vec![all.len() as u8, 1];
    if all.is_empty() {
        return out;
    }
    let nulls = all.iter().enumerate().map(|(at, (_, value))| u8::from(value.is_none()) << at);
    out.push(nulls.fold(0, |bits, bit| bits | bit));
    out.push(1);
    for (name, value) in all {
        out.extend([value.as_ref().map_or(6, |(kind, _)| *kind), 0]);
        out.put_lenenc_bytes(name.as_bytes());
    }
    all.iter().filter_map(|(_, value)| value.as_ref()).for_each(|(_, value)| out.extend(value));
    out
}

/// COM_STMT_EXECUTE with parameters and attributes.
fn execute_with(id: u32, flags: u8, all: &[Named], types: bool) -> Vec<u8> {
    let mut out = vec![0x17];
    out.put_u32(id);
    out.push(flags);
    out.put_u32(1);
    let reported = attributes(all);
    out.push(reported[0]);
    if all.is_empty() {
        return out;
    }
    out.push(reported[2]);
    out.push(u8::from(types));
    if types {
        out.extend(&reported[4..]);
    } else {
        all.iter().filter_map(|(_, value)| value.as_ref()).for_each(|(_, value)| out.extend(value));
    }
    out
}

async fn query_attributes(family: Family) {
    let setup = "CREATE TABLE a (v INT); INSERT INTO a VALUES (1), (2);";
    let case =
        Case { family, database: "par_attributes", setup, capabilities: MODERN | Capabilities::QUERY_ATTRIBUTES };
    case.run(async |wire| {
        let query = |all: &[Named], sql: &str| [&[3][..], &attributes(all), sql.as_bytes()].concat();
        wire.query("SELECT 1").await;
        if wire.family == Family::MariaDb {
            return;
        }
        let named = [("trace", short("abc")), ("", long(7)), ("nothing", None)];
        let ask = "SELECT mysql_query_attribute_string('trace'), CONNECTION_ID() > 0";
        wire.command(Expect::Results, &query(&named, ask)).await;
        wire.command(Expect::Results, &query(&[], ask)).await;
        wire.command(Expect::Results, &query(&named, "SET @a = 5, @b = LENGTH('abc')")).await;
        wire.command(Expect::Results, &query(&named, "SELECT @a, @b; SELECT ROW_COUNT()")).await;
        wire.query("INSERT INTO a VALUES (3)").await;
        wire.query("SELECT CAST('x' AS SIGNED)").await;
        wire.query("SHOW WARNINGS").await;
        wire.command(Expect::Results, &query(&named, "BEGIN")).await;
        wire.query("COMMIT").await;
        wire.command(Expect::Results, &[3, 9, 1, 0]).await;
        wire.command(Expect::Results, &[3]).await;
        let id = wire.prepare("SELECT v FROM a WHERE v > ?").await;
        for (flags, types) in [(8, true), (8, false), (0, true), (9, true)] {
            wire.command(Expect::Results, &execute_with(id, flags, &[("", long(1))], types)).await;
        }
        wire.fetch(id, 5).await;
        let both = [("", long(1)), ("trace", short("abc"))];
        wire.command(Expect::Results, &execute_with(id, 8, &both, true)).await;
        wire.command(Expect::Results, &execute_with(id, 8, &[("", long(0))], true)).await;
        let ask = wire.prepare("SELECT mysql_query_attribute_string('trace')").await;
        wire.command(Expect::Results, &execute_with(ask, 8, &[("trace", short("abc"))], true)).await;
        wire.command(Expect::Results, &execute_with(ask, 8, &[], true)).await;
        wire.command(Expect::Results, &execute(ask, 0, &[], true)).await;
        let insert = wire.prepare("INSERT INTO a VALUES (?)").await;
        wire.command(Expect::Results, &execute_with(insert, 8, &[("", long(5))], true)).await;
        wire.command(Expect::Results, b"\x1f").await;
        wire.query("SELECT COUNT(*) FROM a").await;
    })
    .await;
}

/// The capabilities that a server offers and Sqluice does not are few; docs/reference/compatibility.md has the reason of each.
async fn greetings(family: Family) {
    let servers = lone(family).await;
    let front = Front::start(servers, |_| {}).await;
    let direct = Wire::open(&servers.primary().address().to_string(), "app", MODERN).await;
    let through = Wire::open(&front.address, "app", MODERN).await;
    let missing = direct.offered - through.offered;
    let known = Capabilities::OPTIONAL_RESULTSET_METADATA
        | Capabilities::MULTI_FACTOR_AUTHENTICATION
        | Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS
        | Capabilities::CAPABILITY_EXTENSION
        | Capabilities::SSL_VERIFY_SERVER_CERT
        | Capabilities::REMEMBER_OPTIONS
        | Capabilities::COMPRESS
        | Capabilities::ZSTD_COMPRESSION
        | Capabilities::COM_MULTI
        | Capabilities::CACHE_METADATA;
    assert!((missing - known).is_empty(), "{:?}", missing - known);
    let more = through.offered - direct.offered - Capabilities::TLS - Capabilities::COMPRESS;
    assert!(more.is_empty(), "{more:?}");
    for wire in [direct, through] {
        wire.close().await;
    }
}

both!(query_attributes greetings);
