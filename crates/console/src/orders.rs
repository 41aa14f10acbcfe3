//! Orders of operators in SQL: they are requests of the API, which carries them out, asks for the role and records them.

use std::fmt;
use std::net::SocketAddr;

use admin::{Answered, Order};
use serde_json::{Map, Value as Json, json};
use wire::errno;

use crate::columns::ColumnKind;
use crate::error::SqlError;
use crate::replies::{ResultColumn, ResultRows};
use crate::session::Session;
use crate::tokens::{Token, TokenKind};

/// The statements, with their effects and the roles that they need.
const HELP: [(&str, &str, &str); 9] = [
    ("DRAIN [CLUSTER.]SERVER [DRY RUN]", "the server gets no new statements", "operate"),
    ("MAINTENANCE [CLUSTER.]SERVER [DRY RUN]", "the same, and it is never promoted", "operate"),
    ("UNDRAIN [CLUSTER.]SERVER", "the server gets statements again; this ends a maintenance, too", "operate"),
    ("SWITCHOVER [CLUSTER] [TO SERVER] [DRY RUN]", "another server becomes the primary", "admin"),
    ("MARK 'TEXT' [BY 'AUTHOR']", "sets a mark in the history", "operate"),
    ("EXPLAIN DIGEST 'HASH' [CLUSTER NAME] [SERVER NAME]", "a replica's plan for the sample of a digest", "operate"),
    ("KILL [QUERY | CONNECTION] ID", "ends a session of a client, or its statement", "operate"),
    ("SHOW TABLES, DESCRIBE VIEW, SELECT …", "the views", "view"),
    ("HELP", "this list", "view"),
];

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderText {
    /// Something about a server.
    Server(ServerOrder),
    /// Another primary.
    Switchover { cluster: Option<String>, to: Option<String>, dry_run: bool },
    /// A mark.
    Mark { text: String, author: Option<String> },
    /// The plan of a digest.
    Explain { digest: String, cluster: Option<String>, server: Option<String> },
}

/// An order about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerOrder {
    verb: &'static str,
    /// The word of the API.
    action: &'static str,
    cluster: Option<String>,
    server: String,
    dry_run: bool,
}

/// The tokens behind a verb.
struct Words<'t, 'a> {
    rest: &'t [Token<'a>],
    usage: &'static str,
}

impl<'a> Words<'_, 'a> {
    fn wrong(&self) -> SqlError {
        SqlError::syntax(format!("write {}", self.usage))
    }

    fn take(&mut self) -> Result<Token<'a>, SqlError> {
        let (token, rest) = self.rest.split_first().ok_or_else(|| self.wrong())?;
        self.rest = rest;
        Ok(token.clone())
    }

    /// Takes this word, if it comes next.
    fn accept(&mut self, word: &str) -> bool {
        let found = self.rest.first().is_some_and(|token| token.is_word(word));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// A name: a word, or something in quotes of any kind.
    fn name(&mut self) -> Result<String, SqlError> {
        let token = self.take()?;
        let name = if token.kind == TokenKind::Text { Some(token.value()) } else { token.name() };
        let mut name = name.filter(|name| !name.is_empty()).ok_or_else(|| self.wrong())?;
        // `db-1` is three tokens.
        while token.kind == TokenKind::Word
            && let Some((next, rest)) = self.rest.split_first()
            && !next.apart
            && (next.is_symbol("-") || next.kind == TokenKind::Word)
        {
            name.push_str(next.text);
            self.rest = rest;
        }
        Ok(name)
    }

    /// `[CLUSTER.]NAME`.
    fn server(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.name()?;
        if !self.rest.first().is_some_and(|token| token.is_symbol(".")) {
            return Ok((None, first));
        }
        self.rest = &self.rest[1..];
        Ok((Some(first), self.name()?))
    }

    fn text(&mut self) -> Result<String, SqlError> {
        let token = self.take()?;
        if token.kind == TokenKind::Text { Ok(token.value()) } else { Err(self.wrong()) }
    }

    /// `[DRY RUN]`, and nothing behind it.
    fn dry_run(&mut self) -> Result<bool, SqlError> {
        let dry_run = self.accept("DRY");
        if dry_run && !self.accept("RUN") {
            return Err(self.wrong());
        }
        self.end().map(|()| dry_run)
    }

    fn end(&self) -> Result<(), SqlError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }
}

impl OrderText {
    /// Reads the tokens behind a verb; `None` if the verb is none of an order.
    pub(crate) fn read(verb: &str, rest: &[Token<'_>]) -> Option<Result<OrderText, SqlError>> {
        let words = |usage: usize| Words { rest, usage: HELP[usage].0 };
        Some(match verb {
            "DRAIN" => OrderText::of_server("DRAIN", "drain", words(0)),
            "MAINTENANCE" => OrderText::of_server("MAINTENANCE", "maintenance", words(1)),
            "UNDRAIN" => OrderText::of_server("UNDRAIN", "resume", words(2)),
            "SWITCHOVER" => OrderText::switchover(words(3)),
            "MARK" => OrderText::mark(words(4)),
            "EXPLAIN" if rest.first().is_some_and(|token| token.is_word("DIGEST")) && rest.len() > 1 => {
                OrderText::explain(words(5))
            }
            _ => return None,
        })
    }

    fn of_server(verb: &'static str, action: &'static str, mut words: Words<'_, '_>) -> Result<OrderText, SqlError> {
        let (cluster, server) = words.server()?;
        // Before a server comes back there is nothing to look at.
        let dry_run = if action == "resume" { words.end().map(|()| false)? } else { words.dry_run()? };
        Ok(OrderText::Server(ServerOrder { verb, action, cluster, server, dry_run }))
    }

    fn switchover(mut words: Words<'_, '_>) -> Result<OrderText, SqlError> {
        let is_named = words.rest.first().is_some_and(|token| !token.is_word("TO") && !token.is_word("DRY"));
        let cluster = is_named.then(|| words.name()).transpose()?;
        let to = words.accept("TO").then(|| words.name()).transpose()?;
        Ok(OrderText::Switchover { cluster, to, dry_run: words.dry_run()? })
    }

    fn mark(mut words: Words<'_, '_>) -> Result<OrderText, SqlError> {
        let text = words.text()?;
        let author = words.accept("BY").then(|| words.text()).transpose()?;
        words.end().map(|()| OrderText::Mark { text, author })
    }

    fn explain(mut words: Words<'_, '_>) -> Result<OrderText, SqlError> {
        words.accept("DIGEST");
        let digest = words.name()?.to_ascii_lowercase();
        let cluster = words.accept("CLUSTER").then(|| words.name()).transpose()?;
        let server = words.accept("SERVER").then(|| words.name()).transpose()?;
        words.end().map(|()| OrderText::Explain { digest, cluster, server })
    }

    /// The cluster that is meant: the one that is named, or the only one that fits.
    fn cluster(&self, session: &Session) -> Result<String, SqlError> {
        let (named, server) = match self {
            OrderText::Server(order) => (&order.cluster, Some(&*order.server)),
            OrderText::Switchover { cluster, .. } => (cluster, None),
            OrderText::Mark { .. } | OrderText::Explain { .. } => return Ok(String::new()),
        };
        if let Some(named) = named {
            return Ok(named.clone());
        }
        let clusters = session.shared.clusters();
        let has = |status: &dyn admin::ClusterStatus| {
            server.is_none_or(|server| status.published().view.load().server_named(server).is_some())
        };
        let fitting: Vec<String> =
            clusters.iter().filter(|(_, status)| has(&***status)).map(|(name, _)| name.to_string()).collect();
        let unknown = |words: String| Err(SqlError::new(errno::ER_UNKNOWN_ERROR, words));
        match &fitting[..] {
            [only] => Ok(only.clone()),
            [] => unknown(format!("there is no server '{}'", server.unwrap_or_default())),
            several => unknown(format!("name the cluster: {}", several.join(", "))),
        }
    }

    /// The request of the API: method, path, body.
    fn request(&self, cluster: &str) -> (&'static str, String, Json) {
        let mut body = Map::new();
        let mut put = |key: &str, value: Option<Json>| {
            if let Some(value) = value {
                body.insert(key.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let (method, path) = match self {
            OrderText::Server(ServerOrder { action, server, dry_run, .. }) => {
                put("dry_run", dry_run.then(|| json!(true)));
                ("PUT", format!("/clusters/{}/servers/{}/{action}", part(cluster), part(server)))
            }
            OrderText::Switchover { to, dry_run, .. } => {
                put("to", text(to));
                put("dry_run", dry_run.then(|| json!(true)));
                ("PUT", format!("/clusters/{}/switchover", part(cluster)))
            }
            OrderText::Mark { text: mark, author } => {
                put("text", Some(json!(mark)));
                put("author", text(author));
                ("POST", "/marks".to_owned())
            }
            OrderText::Explain { digest, cluster, server } => {
                put("cluster", text(cluster));
                put("server", text(server));
                ("POST", format!("/digests/{}/explain", part(digest)))
            }
        };
        (method, path, Json::Object(body))
    }
}

impl fmt::Display for OrderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dry = |dry_run: bool| if dry_run { " DRY RUN" } else { "" };
        match self {
            OrderText::Server(ServerOrder { verb, cluster, server, dry_run, .. }) => {
                let cluster = cluster.as_ref().map_or(String::new(), |cluster| format!("{cluster}."));
                write!(f, "{verb} {cluster}{server}{}", dry(*dry_run))
            }
            OrderText::Switchover { cluster, to, dry_run } => {
                let cluster = cluster.as_ref().map_or(String::new(), |cluster| format!(" {cluster}"));
                let to = to.as_ref().map_or(String::new(), |to| format!(" TO {to}"));
                write!(f, "SWITCHOVER{cluster}{to}{}", dry(*dry_run))
            }
            OrderText::Mark { .. } => write!(f, "MARK"),
            OrderText::Explain { digest, .. } => write!(f, "EXPLAIN DIGEST '{digest}'"),
        }
    }
}

/// Has the API carry an order out, and gives its result as rows.
///
/// # Errors
/// The role may not, or the API refuses, in its words.
pub(crate) async fn carry_out(session: &Session, order: &OrderText) -> Result<ResultRows, SqlError> {
    let cluster = order.cluster(session)?;
    let (method, path, body) = order.request(&cluster);
    let client = session.client.parse::<SocketAddr>().ok().map(|address| address.ip());
    let (role, words) = (session.role.word(), order.to_string());
    let given = Order { method, path, body: body.to_string(), role, client, words };
    let answered = session.shared.sources.orders.give(given).await;
    match answered.status {
        200 | 202 => Ok(rows_of(order, &answered.page)),
        _ => Err(refused(&answered)),
    }
}

fn refused(answered: &Answered) -> SqlError {
    let page = &answered.page;
    let mut words = page["error"].as_str().or(page.as_str()).unwrap_or("the order was refused").to_owned();
    for list in ["known", "others"] {
        let named: Vec<&str> = page[list].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        if !named.is_empty() {
            words = format!("{words} ({})", named.join(", "));
        }
    }
    let code = match answered.status {
        403 => errno::ER_SPECIFIC_ACCESS_DENIED_ERROR,
        400 => errno::ER_PARSE_ERROR,
        _ => errno::ER_UNKNOWN_ERROR,
    };
    SqlError::new(code, words)
}

fn rows_of(order: &OrderText, page: &Json) -> ResultRows {
    match order {
        OrderText::Mark { .. } => table(&["id"], &[vec![Some(page["id"].to_string())]]),
        OrderText::Explain { .. } => {
            let plan = &page["plans"][0];
            let texts = |list: &Json| -> Vec<Option<String>> {
                list.as_array().into_iter().flatten().map(|value| value.as_str().map(str::to_owned)).collect()
            };
            let columns: Vec<String> = texts(&plan["columns"]).into_iter().flatten().collect();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            let rows: Vec<_> = plan["rows"].as_array().into_iter().flatten().map(texts).collect();
            table(&columns, &rows)
        }
        OrderText::Server(_) | OrderText::Switchover { .. } => {
            let value = |key: &str| match &page[key] {
                Json::Null => None,
                Json::String(text) => Some(text.clone()),
                Json::Array(list) => Some(list.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("; ")),
                other => Some(other.to_string()),
            };
            let columns = ["cluster", "result", "primary", "took_ms", "connections", "steps", "warnings"];
            table(&columns, &[columns.map(value).to_vec()])
        }
    }
}

/// The list of all statements.
pub(crate) fn help() -> ResultRows {
    let of = |text: &str| Some(text.to_owned());
    let rows = HELP.map(|(statement, effect, role)| vec![of(statement), of(effect), of(role)]);
    table(&["statement", "effect", "role"], &rows)
}

fn table(names: &[&str], rows: &[Vec<Option<String>>]) -> ResultRows {
    let column = |name: &&str| ResultColumn { name: (*name).to_owned(), kind: Some(ColumnKind::Text) };
    let mut table = ResultRows::new(names.iter().map(column).collect());
    for row in rows {
        table.begin_row();
        for (column, value) in row.iter().enumerate() {
            match value {
                Some(value) => table.bytes(column, value.as_bytes()),
                None => table.null(),
            }
        }
    }
    table
}

/// A name as a part of a path.
fn part(name: &str) -> String {
    name.bytes().fold(String::new(), |mut part, byte| {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => part.push(char::from(byte)),
            _ => part.push_str(&format!("%{byte:02X}")),
        }
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn read(text: &str) -> Result<OrderText, u16> {
        let tokens = tokens(text).unwrap();
        let verb = tokens[0].text.to_ascii_uppercase();
        OrderText::read(&verb, &tokens[1..]).unwrap_or_else(|| Err(SqlError::new(0, ""))).map_err(|error| error.code)
    }

    #[test]
    fn orders_are_requests_of_the_api() {
        let (drain, dry) = ("/clusters/main/servers/db-2/drain", json!({ "dry_run": true }));
        let (switchover, explain) = ("/clusters/main/switchover", "/digests/4f2a6c1e9b0d7733/explain");
        for (text, cluster, method, path, body) in [
            ("drain db-2", "main", "PUT", drain, json!({})),
            ("DRAIN `db-2` DRY RUN;", "main", "PUT", drain, dry),
            ("UNDRAIN shop.`db 2`", "shop", "PUT", "/clusters/shop/servers/db%202/resume", json!({})),
            ("MAINTENANCE 'db2'", "main", "PUT", "/clusters/main/servers/db2/maintenance", json!({})),
            ("SWITCHOVER", "main", "PUT", switchover, json!({})),
            ("switchover main to db2 dry run", "main", "PUT", switchover, json!({ "to": "db2", "dry_run": true })),
            ("MARK 'deploy ''7'''", "", "POST", "/marks", json!({ "text": "deploy '7'" })),
            ("MARK 'deploy' BY 'ann'", "", "POST", "/marks", json!({ "text": "deploy", "author": "ann" })),
            ("EXPLAIN DIGEST 4F2a6c1e9b0d7733", "", "POST", explain, json!({})),
            (
                "EXPLAIN DIGEST '4f2a6c1e9b0d7733' CLUSTER main SERVER db3",
                "",
                "POST",
                explain,
                json!({ "cluster": "main", "server": "db3" }),
            ),
        ] {
            assert_eq!(read(text).unwrap().request(cluster), (method, path.to_owned(), body), "{text}");
        }
        assert_eq!(read("SWITCHOVER main TO db2 DRY RUN").unwrap().to_string(), "SWITCHOVER main TO db2 DRY RUN");
        assert_eq!(read("drain shop.db2").unwrap().to_string(), "DRAIN shop.db2");
    }

    #[test]
    fn orders_with_more_or_less_are_refused() {
        for wrong in [
            "DRAIN",
            "DRAIN db2 db3",
            "DRAIN db2 DRY",
            "DRAIN db2 RUN",
            "UNDRAIN db2 DRY RUN",
            "DRAIN a.b.c",
            "SWITCHOVER TO",
            "SWITCHOVER main db2",
            "MARK deploy",
            "MARK",
            "MARK 'a' 'b'",
            "EXPLAIN DIGEST '4f2a6c1e9b0d7733' db3",
            "DRAIN ''",
        ] {
            assert_eq!(read(wrong), Err(errno::ER_PARSE_ERROR), "{wrong}");
        }
        assert_eq!(read("EXPLAIN digests"), Err(0), "that is a view");
    }
}
