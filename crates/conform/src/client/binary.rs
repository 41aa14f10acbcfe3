//! COM_STMT_EXECUTE as scripts write it.

use wire::codec::Write as _;
use wire::command::Command;

use super::Slot;
use crate::script::Value;

pub(super) fn execution(payload: &mut Vec<u8>, slot: Slot, cursor: bool, again: bool, values: &[Value]) {
    payload.push(Command::StmtExecute.byte());
    payload.put_u32(slot.id);
    payload.push(u8::from(cursor));
    payload.put_u32(1);
    if slot.parameters == 0 {
        return;
    }
    // A script may have lost the statement that fixed the number.
    let mut values = values.to_vec();
    values.resize(usize::from(slot.parameters), Value::Null);
    let mut nulls = vec![0; values.len().div_ceil(8)];
    for (at, value) in values.iter().enumerate() {
        nulls[at / 8] |= u8::from(*value == Value::Null) << (at % 8);
    }
    payload.extend_from_slice(&nulls);
    payload.push(u8::from(!again));
    if !again {
        values.iter().for_each(|value| payload.extend_from_slice(&kind(value)));
    }
    values.iter().for_each(|value| encode(value, payload));
}

/// Types of `enum_field_types`, and whether unsigned.
fn kind(value: &Value) -> [u8; 2] {
    let kind = match value {
        Value::Null => 6,
        Value::Tiny(_) => 1,
        Value::Short(_) => 2,
        Value::Int(_) => 3,
        Value::Float(_) => 4,
        Value::Double(_) => 5,
        Value::Big(_) | Value::Unsigned(_) => 8,
        Value::Date(..) => 10,
        Value::Time(..) => 11,
        Value::DateTime(..) => 12,
        Value::Decimal(_) => 246,
        Value::Long | Value::Blob(_) => 252,
        Value::Text(_) => 253,
    };
    [kind, if matches!(value, Value::Unsigned(_)) { 0x80 } else { 0 }]
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    let clock = |out: &mut Vec<u8>, seconds: u32| {
        out.extend([seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(|part| part as u8));
    };
    match value {
        Value::Null | Value::Long => {}
        Value::Tiny(value) => out.extend(value.to_le_bytes()),
        Value::Short(value) => out.extend(value.to_le_bytes()),
        Value::Int(value) => out.extend(value.to_le_bytes()),
        Value::Big(value) => out.extend(value.to_le_bytes()),
        Value::Unsigned(value) => out.extend(value.to_le_bytes()),
        Value::Float(value) => out.extend(value.to_le_bytes()),
        Value::Double(value) => out.extend(value.to_le_bytes()),
        Value::Decimal(text) => out.put_lenenc_bytes(text.as_bytes()),
        Value::Text(bytes) | Value::Blob(bytes) => out.put_lenenc_bytes(bytes),
        Value::Date(y, m, d) => {
            out.push(4);
            out.put_u16(*y);
            out.extend([*m, *d]);
        }
        Value::DateTime(y, m, d, seconds, micros) => {
            out.push(11);
            out.put_u16(*y);
            out.extend([*m, *d]);
            clock(out, *seconds);
            out.put_u32(*micros);
        }
        Value::Time(negative, days, seconds) => {
            out.push(8);
            out.push(u8::from(*negative));
            out.put_u32(*days);
            clock(out, *seconds);
        }
    }
}
