//! Changes between two views, in words for the log.

use std::sync::Arc;

use facts::view::{Health, Role, ServerId, View};

use super::{Driver, Event, Level, Output};
use crate::diagnosis::Diagnosis;

impl Driver {
    pub(super) fn tell_changes(&mut self, before: &View) {
        let after = self.view.clone();
        if before.primary != after.primary {
            let name = |id: ServerId| {
                [&after, before].into_iter().find_map(|view| view.server(id)).map_or("?".into(), |s| s.name.to_string())
            };
            match (before.primary, after.primary) {
                (_, Some(new)) => {
                    let text = match self.reign.last_primary() {
                        Some(old) if old == new => format!("primary is {} again", name(new)),
                        Some(old) => format!("primary is {}, after {}", name(new), name(old)),
                        None => format!("primary is {}", name(new)),
                    };
                    self.tell(Level::Info, Some(name(new).into()), text);
                }
                (Some(old), None) => {
                    self.tell(Level::Error, Some(name(old).into()), format!("primary {} is lost", name(old)));
                    // The new primary should be known at once.
                    let others = after.servers.iter().filter(|server| server.id != old).map(|server| server.id);
                    self.outputs.extend(others.map(Output::Probe));
                }
                (None, None) => {}
            }
        }
        for server in after.servers.iter() {
            let old = before.server(server.id);
            let was = old.map(|old| (old.role, old.health, old.serves_reads));
            if was == Some((server.role, server.health, server.serves_reads))
                || (old.is_none() && server.role == Role::Unknown)
            {
                continue;
            }
            let level = match server.health {
                Health::Down | Health::Suspect => Level::Warn,
                _ if server.role == Role::Replica && !server.serves_reads => Level::Warn,
                Health::Up | Health::Draining | Health::Maintenance => Level::Info,
            };
            let text =
                format!("{} is {}, {}: {}", server.name, server.role.word(), server.health.word(), server.reason);
            self.tell(level, Some(server.name.clone()), text);
        }
    }

    pub(super) fn tell_diagnoses(&mut self, before: &[Diagnosis]) {
        let new: Vec<_> = self.diagnoses.iter().filter(|diagnosis| !before.contains(diagnosis)).cloned().collect();
        for diagnosis in new {
            let level = if diagnosis.is_severe() { Level::Error } else { Level::Warn };
            self.tell(level, None, format!("{}: {diagnosis}", diagnosis.name()));
        }
        let gone: Vec<_> = before.iter().filter(|diagnosis| !self.diagnoses.contains(diagnosis)).collect();
        for diagnosis in gone {
            self.tell(Level::Info, None, format!("no longer {}: {diagnosis}", diagnosis.name()));
        }
    }

    /// A change of state.
    fn tell(&mut self, level: Level, server: Option<Arc<str>>, text: String) {
        self.outputs.push_back(Output::Log(Event { level, server, text, is_state: true }));
    }

    /// Something else that the operator should know.
    pub(super) fn log(&mut self, level: Level, server: Option<Arc<str>>, text: String) {
        self.outputs.push_back(Output::Log(Event { level, server, text, is_state: false }));
    }
}
