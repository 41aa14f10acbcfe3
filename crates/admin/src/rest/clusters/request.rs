//! The body of a request for an action on a cluster.

use std::time::Duration;

use facts::command::Command;
use facts::view::ServerId;
use serde_json::{Map, Value};

use super::Mistake;

/// Longest wait for the end of a run. Silent connections are closed a little later.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The actions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Switchover,
    Failover,
    Primary,
    Acknowledge,
    Rejoin,
    Drain,
    Resume,
    Maintenance,
}

impl Action {
    /// Those that concern a whole cluster.
    pub(super) const OF_CLUSTERS: &[(&'static str, Action)] = &[
        ("switchover", Action::Switchover),
        ("failover", Action::Failover),
        ("primary", Action::Primary),
        ("acknowledge", Action::Acknowledge),
    ];
    /// Those that concern one server, but for `rejoin`, which needs another role.
    pub(super) const OF_SERVERS: &[(&'static str, Action)] =
        &[("drain", Action::Drain), ("resume", Action::Resume), ("maintenance", Action::Maintenance)];

    /// The one with this word.
    pub(super) fn named(word: &str, among: &[(&'static str, Action)]) -> Result<Action, Mistake> {
        let found = among.iter().find(|(known, _)| *known == word).map(|(_, action)| *action);
        let known = || among.iter().map(|(known, _)| (*known).to_owned());
        found.ok_or_else(|| Mistake::unknown(format!("nothing is called {word:?} here"), known()))
    }

    /// The keys that its body may have.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Action::Switchover => &["to", "dry_run", "wait_ms"],
            Action::Failover => &["to", "dry_run", "force", "wait_ms"],
            Action::Primary => &["to"],
            Action::Rejoin => &["dry_run", "wait_ms"],
            Action::Drain | Action::Maintenance => &["dry_run", "wait_ms"],
            Action::Acknowledge | Action::Resume => &[],
        }
    }
}

/// The body of a request for an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActionRequest {
    pub(super) to: Option<String>,
    pub(super) dry_run: bool,
    pub(super) force: bool,
    /// How long to wait for the end, if that was said.
    pub(super) wait: Option<Duration>,
}

impl ActionRequest {
    /// Reads a body; an empty one asks for nothing special.
    pub(super) fn read(action: Action, body: &[u8]) -> Result<ActionRequest, String> {
        let object: Map<String, Value> = match body.trim_ascii() {
            [] => Map::new(),
            body => match serde_json::from_slice(body) {
                Ok(Value::Object(object)) => object,
                Ok(_) => return Err("the body is a JSON object, as in {\"dry_run\": true}".into()),
                Err(error) => return Err(format!("the body is not JSON: {error}")),
            },
        };
        if let Some(key) = object.keys().find(|key| !action.keys().contains(&key.as_str())) {
            let keys = match action.keys() {
                [] => "none".to_owned(),
                keys => keys.join(", "),
            };
            return Err(format!("the body has no key {key:?}; there are: {keys}"));
        }
        let flag = |key: &str| match object.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("{key} is true or false")),
        };
        Ok(ActionRequest {
            to: match object.get("to") {
                None | Some(Value::Null) => None,
                Some(Value::String(name)) => Some(name.clone()),
                Some(_) => return Err("to is the name of a server, in quotes".into()),
            },
            dry_run: flag("dry_run")?,
            force: flag("force")?,
            wait: match object.get("wait_ms") {
                None => None,
                Some(value) => {
                    let millis = value.as_u64().map(Duration::from_millis).filter(|wait| *wait <= WAIT_MAX);
                    Some(millis.ok_or_else(|| format!("wait_ms is a whole number up to {}", WAIT_MAX.as_millis()))?)
                }
            },
        })
    }

    /// The command, with servers found by `named`.
    pub(super) fn command(
        &self,
        action: Action,
        server: Option<&str>,
        named: impl Fn(&str) -> Result<ServerId, Mistake>,
    ) -> Result<Command, Mistake> {
        let to = self.to.as_deref().map(&named).transpose()?;
        let (dry_run, force) = (self.dry_run, self.force);
        let server = || named(server.unwrap_or_default());
        Ok(match action {
            Action::Switchover => Command::Switchover { to, dry_run },
            Action::Failover => Command::Failover { to, dry_run, force },
            Action::Primary => match to {
                Some(server) => Command::SetPrimary { server },
                None => return Err(Mistake::request("say which: {\"to\": \"NAME\"}".to_owned())),
            },
            Action::Acknowledge => Command::Acknowledge,
            Action::Rejoin => Command::Rejoin { server: server()?, dry_run },
            Action::Drain => Command::Drain { server: server()?, dry_run },
            Action::Resume => Command::Resume { server: server()? },
            Action::Maintenance => Command::Maintenance { server: server()?, dry_run },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_strictly() {
        let read = |body: &str| ActionRequest::read(Action::Failover, body.as_bytes());
        let nothing = ActionRequest { to: None, dry_run: false, force: false, wait: None };
        assert_eq!(read(""), Ok(nothing.clone()));
        assert_eq!(read(" {} \n"), Ok(nothing.clone()));
        let all = read(r#"{"to": "db2", "dry_run": true, "force": true, "wait_ms": 5}"#).unwrap();
        assert_eq!(
            all,
            ActionRequest { to: Some("db2".into()), dry_run: true, force: true, wait: Some(Duration::from_millis(5)) }
        );
        for (body, words) in [
            ("[]", "is a JSON object"),
            ("{", "is not JSON"),
            (r#"{"dryrun": true}"#, "no key \"dryrun\"; there are: to, dry_run, force, wait_ms"),
            (r#"{"dry_run": 1}"#, "dry_run is true or false"),
            (r#"{"to": 5}"#, "name of a server"),
            (r#"{"wait_ms": 60001}"#, "up to 60000"),
            (r#"{"wait_ms": -1}"#, "up to 60000"),
        ] {
            let said = read(body).unwrap_err();
            assert!(said.contains(words), "{body}: {said}");
        }
        assert!(ActionRequest::read(Action::Resume, br#"{"to": "x"}"#).unwrap_err().ends_with("there are: none"));
    }

    #[test]
    fn each_word_has_its_action() {
        let named = |_: &str| Ok(ServerId(7));
        let nothing = ActionRequest { to: None, dry_run: false, force: false, wait: None };
        for (_, action) in Action::OF_CLUSTERS.iter().filter(|(word, _)| *word != "primary") {
            assert!(nothing.command(*action, None, named).is_ok());
        }
        assert!(nothing.command(Action::Primary, None, named).unwrap_err().words.starts_with("say which"));
        let drain = nothing.command(Action::Drain, Some("db1"), named);
        assert_eq!(drain.ok(), Some(Command::Drain { server: ServerId(7), dry_run: false }));
        assert_eq!(Action::named("resume", Action::OF_SERVERS).ok(), Some(Action::Resume));
        assert_eq!(Action::named("resume", Action::OF_CLUSTERS).unwrap_err().known.len(), Action::OF_CLUSTERS.len());
    }
}
