//! Executions of prepared statements, also for many rows, and statements with attributes: what is read is written again.

use wire::Capabilities;
use wire::attributes;
use wire::command::{BulkExecute, Command, Execute, query_text_at};

use crate::Input;

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let parameters = u16::from_le_bytes([input.byte(), input.byte()]);
    let number = input.number();
    let payload = input.remaining();
    let capabilities = if number >> 32 & 1 == 1 { Capabilities::QUERY_ATTRIBUTES } else { Capabilities::empty() };
    if let Ok(at) = query_text_at(payload, capabilities) {
        assert!(at <= payload.len());
    }
    attributes::of_query(payload, capabilities, |name, value| assert!(name.len() + value.len() <= payload.len()));
    let statement = number as u32;
    execute(payload, parameters, statement, capabilities);
    bulk(payload, parameters, statement);
}

fn execute(payload: &[u8], parameters: u16, statement: u32, capabilities: Capabilities) {
    let Ok(execute) = Execute::parse(payload, parameters, capabilities) else { return };
    let types = execute.types.unwrap_or_default();
    execute.attributes(types, parameters, |name, value| assert!(name.len() + value.len() <= payload.len()));
    let mut written = Vec::new();
    execute.write(&mut written, statement, execute.types);
    assert_eq!(written.first(), Some(&Command::StmtExecute.byte()));
    let again = Execute::parse(&written[1..], parameters, capabilities);
    assert_eq!(again, Ok(Execute { statement, ..execute }));
    if execute.count.is_none() && parameters > 0 && execute.types.is_none() {
        let types = vec![3; 2 * usize::from(parameters)];
        let mut with_types = Vec::new();
        execute.write(&mut with_types, statement, Some(&types));
        let again = Execute::parse(&with_types[1..], parameters, capabilities);
        assert_eq!(again, Ok(Execute { statement, types: Some(&types), ..execute }));
    }
}

fn bulk(payload: &[u8], parameters: u16, statement: u32) {
    let Ok(bulk) = BulkExecute::parse(payload, parameters) else { return };
    let mut written = Vec::new();
    bulk.write(&mut written, statement, bulk.types);
    assert_eq!(written.first(), Some(&Command::StmtBulkExecute.byte()));
    let again = BulkExecute::parse(&written[1..], parameters);
    assert_eq!(again, Ok(BulkExecute { statement, ..bulk }));
}
