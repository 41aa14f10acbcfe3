//! A request of the API: its path, its meaning, and who answers it. The router and the OpenAPI document are both made from these.

use std::sync::Arc;

use axum::routing::MethodRouter;
use serde_json::{Map, Value, json};

use crate::access::Role;
use crate::shared::Shared;

/// A request that the API knows.
pub(super) struct Endpoint {
    /// The method, in small letters.
    pub(super) method: &'static str,
    /// The path below `/api/v1`.
    pub(super) path: &'static str,
    /// The role that a key needs for it.
    pub(super) role: Role,
    /// Its effect, in a few words.
    pub(super) summary: &'static str,
    /// Keys behind `?`.
    pub(super) query: &'static [Key],
    /// Keys of the body, a JSON object.
    pub(super) body: &'static [Key],
    /// The function that answers.
    pub(super) answer: fn() -> MethodRouter<Arc<Shared>>,
}

/// A key of a request: name, type, meaning.
pub(super) struct Key(pub(super) &'static str, pub(super) Type, pub(super) &'static str);

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Number,
    Flag,
}

impl Key {
    fn schema(&self) -> Value {
        let word = match self.1 {
            Type::Text => "string",
            Type::Number => "integer",
            Type::Flag => "boolean",
        };
        json!({ "type": word, "description": self.2 })
    }
}

impl Endpoint {
    /// The names in braces of the path.
    fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    fn operation(&self) -> Value {
        let in_path = self
            .path_names()
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
        let behind = self.query.iter().map(|key| {
            json!({ "name": key.0, "in": "query", "required": false, "description": key.2, "schema": key.schema() })
        });
        let mut operation = json!({
            "summary": self.summary,
            "operationId": self.id(),
            "x-role": self.role.word(),
            "parameters": in_path.chain(behind).collect::<Vec<_>>(),
            "responses": {
                "200": { "description": "The reply.", "content": { "application/json": { "schema": { "type": "object" } } } },
                "400": { "description": "The request is not understood; the text says why." },
                "401": { "description": "The key is missing or wrong." },
                "403": { "description": "The key lacks the role, or no key is configured; the text says which." },
                "429": { "description": "Too many wrong keys came from this address." },
            },
        });
        if !self.body.is_empty() {
            let keys: Map<String, Value> = self.body.iter().map(|key| (key.0.to_owned(), key.schema())).collect();
            let schema = json!({ "type": "object", "properties": keys, "additionalProperties": false });
            operation["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
        }
        operation
    }

    /// A name that no other one has, as in `put_sessions_kill`.
    fn id(&self) -> String {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        let words = parts.map(|part| part.trim_matches(['{', '}']).replace('.', "_"));
        std::iter::once(self.method.to_owned()).chain(words).collect::<Vec<_>>().join("_")
    }
}

/// The OpenAPI document of these requests.
pub(super) fn document(endpoints: &[Endpoint]) -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(format!("/api/v1{}", endpoint.path)).or_insert_with(|| json!({}));
        path[endpoint.method] = endpoint.operation();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sqluice",
            "version": "1",
            "description": "The API of a running Sqluice. Keys are added in later versions, and none is taken away.",
        },
        "security": [{ "key": [] }],
        "components": { "securitySchemes": { "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "The key of a role. `x-role` is the least role: view, operate, admin.",
        } } },
        "paths": paths,
    })
}
