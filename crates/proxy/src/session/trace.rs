//! The trace and the tags of a query, as its client sent them: attributes of the query, or a comment in its text.

use std::rc::Rc;
use std::sync::Arc;

use events::Trace;
use sql::{TRACE_PARENT, Tag, TraceParent};
use wire::attributes;
use wire::command::{Command, Execute};

use super::Session;
use super::count::Finished;

/// The findings so far; a later one takes the place of an earlier one.
struct Found {
    wanted: Rc<[Arc<str>]>,
    parent: Option<TraceParent>,
    tags: Vec<(Arc<str>, Box<str>)>,
}

impl Found {
    fn note(&mut self, name: &str, value: &str) {
        if name == TRACE_PARENT {
            self.parent = TraceParent::parse(value.as_bytes()).or(self.parent);
        } else if let Some(wanted) = self.wanted.iter().find(|wanted| ***wanted == *name) {
            match self.tags.iter_mut().find(|(known, _)| known == wanted) {
                Some((_, known)) => *known = value.into(),
                None => self.tags.push((wanted.clone(), value.into())),
            }
        }
    }

    fn note_comments(&mut self, text: &[u8]) {
        sql::tags(text, |Tag { name, value }| self.note(name, &value));
    }

    fn note_attribute(&mut self, name: &[u8], value: &[u8]) {
        if let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) {
            self.note(name, sql::cut_tag_value(value));
        }
    }
}

impl Session {
    /// The trace and the tags that a query came with; `None` if it has neither. A query without a trace may begin one. If its end is a
    /// reason to keep it, it gets spans in any case.
    pub(super) fn trace_of(&self, query: &impl Finished, is_kept: bool) -> Option<Box<Trace>> {
        let traces = &self.env.worker.events.traces;
        let mut found = Found { wanted: traces.tags(), parent: None, tags: Vec::new() };
        self.find_trace(query, &mut found);
        let Found { parent, tags, .. } = found;
        let (trace_id, caller, spans) = match parent {
            Some(TraceParent { trace_id, span_id, sampled }) => {
                (Some(trace_id), Some(span_id), (sampled || is_kept) && traces.makes_spans())
            }
            None => {
                let begun = traces.begin(is_kept);
                (begun, None, begun.is_some())
            }
        };
        let is_there = trace_id.is_some() || !tags.is_empty();
        is_there.then(|| Box::new(Trace { trace_id, caller, spans, tags: tags.into() }))
    }

    /// An attribute stands above a tag: a driver that knows attributes sends the newer of both.
    fn find_trace(&self, query: &impl Finished, found: &mut Found) {
        let Some((command, arguments)) = query.request().payload().split_first() else { return };
        match Command::from_byte(*command) {
            Some(Command::Query) => {
                found.note_comments(query.text(self).map(|text| text.bytes).unwrap_or_default());
                let see = |name: &[u8], value: &[u8]| found.note_attribute(name, value);
                attributes::of_query(arguments, self.client.capabilities, see);
            }
            Some(Command::StmtExecute | Command::StmtBulkExecute) => {
                let known = self.belief.statements.named_in(arguments);
                let Some(known) = known else { return };
                found.note_comments(known.prepared.tags.as_deref().unwrap_or_default());
                let execute = Execute::parse(arguments, known.parameters, self.client.capabilities);
                let Some(execute) = execute.ok().filter(|_| *command == Command::StmtExecute.byte()) else { return };
                let count = execute.count.unwrap_or(0);
                let remembered = known.types.as_ref().filter(|(of, _)| *of == count).map(|(_, types)| &**types);
                if let Some(types) = execute.types.or(remembered) {
                    execute.attributes(types, known.parameters, |name, value| found.note_attribute(name, value));
                }
            }
            _ => {}
        }
    }
}
