//! Reads logs with the crate `qlog` of quiche, which has the types of the drafts' events. Because
//! it keeps unknown keys, a key counts as known if it can't have another type.

use std::collections::HashSet;
use std::error::Error;

use qlog::events::{Event, JsonEvent};
use serde_json::Value;

/// Keys of our own in events of QUIC (docs/logs.md).
const OWN_KEYS: [&str; 2] = ["shim", "ack_only"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut events = 0;
    let mut known = HashSet::new();
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path)?;
        let mut records = text.split('\u{1e}').skip(1);
        let header = records.next().ok_or("no header")?;
        serde_json::from_str::<qlog::QlogSeq>(header)
            .map_err(|error| format!("{path}: {error}"))?;
        for record in records {
            judge(record, &mut known).map_err(|error| format!("{path}: {error}: {record}"))?;
            events += 1;
        }
    }
    if events < 1000 {
        return Err(format!("only {events} events").into());
    }
    println!("qlog has read {events} events");
    Ok(())
}

fn judge(record: &str, known: &mut HashSet<String>) -> Result<(), Box<dyn Error>> {
    let event: Value = serde_json::from_str(record)?;
    let name = event["name"].as_str().ok_or("no name")?;
    if !name.starts_with("quic:") {
        serde_json::from_str::<JsonEvent>(record)?;
        return Ok(());
    }
    serde_json::from_str::<Event>(record)?;
    for path in keys(&event["data"], "/data") {
        if !known.insert(format!("{name}{path}")) {
            continue;
        }
        let mut other = event.clone();
        *other.pointer_mut(&path).ok_or("no such key")? = Value::Array(vec![Value::Null]);
        if serde_json::from_value::<Event>(other).is_ok() {
            return Err(format!("{path} is no key of {name} in the draft").into());
        }
    }
    Ok(())
}

/// Returns the paths of all keys except our own.
fn keys(value: &Value, at: &str) -> Vec<String> {
    let object = value.as_object().into_iter().flatten();
    let theirs = object.filter(|(key, _)| !OWN_KEYS.contains(&key.as_str()));
    let paths = theirs.flat_map(|(key, value)| {
        let path = format!("{at}/{key}");
        let mut all = keys(value, &path);
        all.push(path);
        all
    });
    paths.collect()
}
