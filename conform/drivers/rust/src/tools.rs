//! Tools that all cases use: connections, values in one form for all drivers, tables and refusals.

use std::time::Duration;

use mysql_async::prelude::*;
use mysql_async::{Conn, Error, OptsBuilder, Params, QueryResult, Row, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// Why a case has no digest.
pub enum Trouble {
    Skip(&'static str),
    Fail(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Fail(fault(&error).to_string())
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Trouble::Fail(error.to_string())
    }
}

pub type Seen<T = Json> = Result<T, Trouble>;

pub const LIMIT: Duration = Duration::from_secs(60);

// ------------------------------------------------------------------------------------------------------------ helpers

pub fn env(name: &str) -> String {
    std::env::var(format!("CONFORM_{name}")).unwrap_or_default()
}

pub fn mariadb() -> bool {
    env("FAMILY") == "mariadb"
}

pub fn isolation_variable() -> &'static str {
    if mariadb() { "@@tx_isolation" } else { "@@transaction_isolation" }
}

pub fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

pub fn ensure(good: bool, what: &str) -> Seen<()> {
    if good { Ok(()) } else { Err(Trouble::Fail(what.to_owned())) }
}

pub fn equal(got: &Json, wanted: Json, what: &str) -> Seen<()> {
    ensure(*got == wanted, &format!("{what}: got {:.700}, wanted {:.700}", got.to_string(), wanted.to_string()))
}

/// A text without the names that differ between both runs, and short.
pub fn plain(text: &str) -> String {
    let text = text
        .replace(&env("OTHER_DATABASE"), "OTHER")
        .replace(&env("DATABASE"), "DATABASE")
        .replace(&env("PORT"), "PORT");
    if text.len() > 300 { format!("text of {}: {}", text.len(), digest(text.as_bytes())) } else { text }
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as JSON; numbers keep their kind, so that what the text and the binary protocol bring stays apart.
pub fn canonical(value: &Value) -> Json {
    match value {
        Value::NULL => Json::Null,
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(plain(text)),
            Err(_) if bytes.len() > 300 => json!(format!("bytes of {}: {}", bytes.len(), digest(bytes))),
            Err(_) => json!(format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())),
        },
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Float(number) => json!(format!("{number:?}")),
        Value::Double(number) => json!(format!("{number:?}")),
        other => json!(other.as_sql(false)),
    }
}

/// Bytes and numbers as text, for comparing what was written with what came back by either protocol.
pub fn loose(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.as_sql(false),
    }
}

pub fn row(found: &Row) -> Json {
    (0..found.len()).map(|index| found.as_ref(index).map_or(Json::Null, canonical)).collect()
}

/// The session, as options. The driver goes over to the server's socket file on its own where the address is a loopback's,
/// which would leave Sqluice out.
pub fn options() -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname(env("HOST"))
        .tcp_port(env("PORT").parse().unwrap_or_default())
        .user(Some(env("USER")))
        .pass(Some(env("PASSWORD")))
        .db_name(Some(env("DATABASE")))
        .prefer_socket(false)
}

pub async fn single() -> Seen<Conn> {
    Ok(Conn::new(options()).await?)
}

/// Each result's rows.
pub async fn sets<P: Protocol>(mut found: QueryResult<'_, '_, P>) -> Result<Vec<Json>, Error> {
    let mut seen = Vec::new();
    loop {
        let rows: Vec<Row> = found.collect().await?;
        seen.push(rows.iter().map(row).collect());
        if found.is_empty() {
            found.drop_result().await?;
            return Ok(seen);
        }
    }
}

/// The first result's rows.
pub async fn rows_of(on: &mut impl Queryable, query: &str) -> Result<Json, Error> {
    Ok(sets(on.query_iter(query).await?).await?.swap_remove(0))
}

pub async fn rows(on: &mut impl Queryable, query: &str) -> Seen {
    Ok(rows_of(on, query).await?)
}

/// The first result's rows of a prepared statement.
pub async fn rows_with(on: &mut impl Queryable, query: &str, arguments: impl Into<Params> + Send) -> Seen {
    Ok(sets(on.exec_iter(query, arguments.into()).await?).await?.swap_remove(0))
}

/// The first value as text.
pub async fn one(on: &mut impl Queryable, query: &str) -> Seen<String> {
    first(rows(on, query).await?)
}

pub async fn one_with(on: &mut impl Queryable, query: &str, arguments: impl Into<Params> + Send) -> Seen<String> {
    first(rows_with(on, query, arguments).await?)
}

pub fn first(rows: Json) -> Seen<String> {
    match &rows[0][0] {
        Json::String(text) => Ok(text.clone()),
        other => Ok(other.to_string()),
    }
}

/// The driver's account of a statement without rows.
pub fn outcome<P: Protocol>(found: &QueryResult<'_, '_, P>) -> Json {
    json!([found.affected_rows(), found.last_insert_id(), found.warnings(), found.info()])
}

pub async fn run(on: &mut impl Queryable, query: &str) -> Seen {
    let found = on.query_iter(query).await?;
    let seen = outcome(&found);
    found.drop_result().await?;
    Ok(seen)
}

pub async fn run_with(on: &mut impl Queryable, query: &str, arguments: impl Into<Params> + Send) -> Seen {
    let found = on.exec_iter(query, arguments.into()).await?;
    let seen = outcome(&found);
    found.drop_result().await?;
    Ok(seen)
}

pub fn fault(error: &Error) -> Json {
    match error {
        Error::Server(own) => json!([own.code, own.state, plain(&own.message)]),
        other => json!([plain(&other.to_string())]),
    }
}

pub fn failed<T>(result: Result<T, Error>, what: &str) -> Seen {
    match result {
        Ok(_) => Err(Trouble::Fail(format!("there was no error: {what}"))),
        Err(error) => Ok(fault(&error)),
    }
}

pub async fn refused(on: &mut impl Queryable, query: &str) -> Seen {
    failed(rows_of(on, query).await, query)
}

pub async fn refused_with(on: &mut impl Queryable, query: &str, arguments: impl Into<Params> + Send) -> Seen {
    match on.exec_iter(query, arguments.into()).await {
        Ok(found) => failed(sets(found).await, query),
        Err(error) => Ok(fault(&error)),
    }
}

pub async fn table(on: &mut impl Queryable, name: &str, columns: &str) -> Seen<()> {
    run(on, &format!("DROP TABLE IF EXISTS {name}")).await?;
    run(on, &format!("CREATE TABLE {name} ({columns}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")).await?;
    Ok(())
}

pub async fn numbers(on: &mut Conn, count: u32, name: &str) -> Seen<()> {
    table(on, name, "id INT PRIMARY KEY, v VARCHAR(100)").await?;
    run(on, &format!("INSERT INTO {name} VALUES (1, REPEAT('x', 80))")).await?;
    let mut have = 1;
    while have < count {
        run(on, &format!("INSERT INTO {name} SELECT id + {have}, v FROM {name} WHERE id + {have} <= {count}")).await?;
        have *= 2;
    }
    Ok(())
}

// -------------------------------------------------------------------------------------------------------------- cases

pub const TYPES: &str = "id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE,
    de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200), tx TEXT, vb VARBINARY(256),
    bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL";
pub const COLUMNS: &str = "id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z";

pub fn type_rows() -> Vec<Vec<Value>> {
    let v = |text: &str| Value::from(text);
    let n = |number: i64| Value::from(number);
    let full = vec![
        n(1),
        n(127),
        n(65535),
        n(8_388_607),
        n(4_294_967_295),
        n(i64::MAX),
        Value::UInt(u64::MAX),
        Value::Float(1.5),
        Value::Double(f64::MAX),
        v("123456789012345678901234567890.0123456789"),
        v("9999-12-31"),
        v("838:59:58.999999"),
        v("2038-01-19 03:14:07.999999"),
        v("2024-02-29 23:59:59.123"),
        n(2155),
        v("char"),
        v("Zürich 🦀 'quoted' \\ back"),
        v(&"text ".repeat(50)),
        Value::Bytes(all_bytes()),
        Value::Bytes(all_bytes().repeat(40)),
        v(r#"{"a": [1, null, "ü🦀"]}"#),
        v("two"),
        v("x,z"),
        Value::NULL,
        n(42),
    ];
    let mut empty = vec![Value::NULL; 25];
    empty[0] = n(2);
    let least = vec![
        n(3),
        n(-128),
        n(0),
        n(-8_388_608),
        n(0),
        n(i64::MIN),
        n(0),
        Value::Float(-1.25),
        Value::Double(-0.1),
        v("-0.0000000001"),
        Value::Date(1000, 1, 1, 0, 0, 0, 0),
        Value::Time(true, 0, 1, 0, 1, 0),
        Value::Date(1000, 1, 1, 0, 0, 0, 0),
        v("1971-01-01 00:00:00.000"),
        n(1901),
        v(""),
        v(""),
        v(""),
        v(""),
        v(""),
        v("[]"),
        v("one"),
        v(""),
        Value::NULL,
        n(0),
    ];
    vec![full, empty, least]
}

pub async fn types_by(prepared: bool) -> Seen {
    let mut connection = single().await?;
    table(&mut connection, "t_types", TYPES).await?;
    for values in type_rows() {
        if prepared {
            let places = vec!["?"; 25].join(", ");
            run_with(&mut connection, &format!("INSERT INTO t_types ({COLUMNS}) VALUES ({places})"), values).await?;
        } else {
            // Without an exponent the largest number would be a decimal too long for the server.
            let literal = |value: &Value| match value {
                Value::Double(number) => format!("{number:e}"),
                other => other.as_sql(false),
            };
            let literals: Vec<String> = values.iter().map(literal).collect();
            run(&mut connection, &format!("INSERT INTO t_types ({COLUMNS}) VALUES ({})", literals.join(", "))).await?;
        }
    }
    run(&mut connection, "UPDATE t_types SET bt = b'101010101010' WHERE id = 1").await?;
    let query = format!("SELECT {COLUMNS} FROM t_types WHERE id >= 0 ORDER BY id");
    let found: Vec<Row> =
        if prepared { connection.exec(query.replace("0", "?"), (0,)).await? } else { connection.query(query).await? };
    ensure(found.len() == 3, "three rows")?;
    for (got, wrote) in found.iter().zip(type_rows()) {
        for column in [0, 1, 2, 3, 4, 5, 6, 9, 15, 16, 17, 18, 19] {
            let value = got.as_ref(column).map(loose).unwrap_or_default();
            ensure(
                value == loose(&wrote[column]),
                &format!("column {column}: got {value:.200}, wrote {:.200}", loose(&wrote[column])),
            )?;
        }
    }
    let seen: Json = found.iter().map(row).collect();
    let echo = rows_with(&mut connection, "SELECT ? + 1, CONCAT(?, 'x'), ? IS NULL", (41, "y", Value::NULL)).await?;
    Ok(json!([seen, echo]))
}

pub fn columns_of(columns: &[mysql_async::Column]) -> Json {
    columns
        .iter()
        .map(|column| {
            json!([
                column.name_str(),
                column.org_name_str(),
                column.table_str(),
                column.org_table_str(),
                plain(&column.schema_str()),
                format!("{:?}", column.column_type()),
                column.flags().bits(),
                column.column_length(),
                column.character_set(),
                column.decimals()
            ])
        })
        .collect()
}

pub async fn large(size: usize) -> Seen {
    let mut connection = single().await?;
    let long = "0123456789abcdef".repeat(size / 16);
    let found: Option<(usize, String)> =
        connection.exec_first("SELECT LENGTH(?), ?", (&long, &long[..size / 2])).await?;
    ensure(found.is_some_and(|(length, half)| length == size && half == long[..size / 2]), "the value by parameter")?;
    let found: Option<String> =
        connection.query_first(format!("SELECT REPEAT('0123456789abcdef', {})", size / 16)).await?;
    ensure(found.is_some_and(|found| found == long), "the value that the server made")?;
    let found: Option<usize> = connection.query_first(format!("SELECT LENGTH('{long}')")).await?;
    ensure(found == Some(size), "the value in a statement's text")?;
    Ok(json!(size))
}

/// The end of `query` when another connection kills it.
pub async fn killed(connection: &mut Conn, killer: &mut Conn, query: &str) -> Seen {
    let kill = format!("KILL QUERY {}", connection.id());
    let both = async {
        tokio::join!(rows_of(connection, query), async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            run(killer, &kill).await
        })
    };
    let (found, kill) = tokio::time::timeout(Duration::from_secs(15), both)
        .await
        .map_err(|_| Trouble::Fail(format!("not ended: {query}")))?;
    kill?;
    Ok(match found {
        Ok(value) => json!(["value", value]),
        Err(error) => fault(&error),
    })
}
