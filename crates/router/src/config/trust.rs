//! `shims` of a port: `true`, `false`, or `{ from = [prefixes and names of ports] }`.

use std::collections::BTreeMap;

use pathmark_link::keys::nearest;
use toml::Value;

use crate::forward::Trust;

const HOW: &str = "write true, false, or { from = [\"10.1.0.0/16\", \"PORT\"] }";

/// Parses the value; `ports` maps the names of the router's ports to their indices.
///
/// # Errors
/// The reason why the value is invalid.
pub(super) fn read(value: &Value, ports: &BTreeMap<String, usize>) -> Result<Trust, String> {
    let table = match value {
        Value::Boolean(true) => return Ok(Trust::All),
        Value::Boolean(false) => return Ok(Trust::None),
        Value::Table(table) => table,
        _ => return Err(HOW.to_owned()),
    };
    if let Some(other) = table.keys().find(|key| *key != "from") {
        return Err(format!("unknown name `{other}`: {HOW}"));
    }
    let Some(Value::Array(places)) = table.get("from") else {
        return Err(HOW.to_owned());
    };
    let (mut prefixes, mut known) = (Vec::new(), Vec::new());
    for place in places {
        let Value::String(place) = place else {
            return Err(HOW.to_owned());
        };
        if let Some(port) = ports.get(place) {
            known.push(*port);
        } else if place.contains(['/', ':']) || place.parse::<std::net::IpAddr>().is_ok() {
            let prefix = place.parse().map_err(|error| format!("{error}"))?;
            prefixes.push(prefix);
        } else {
            let meant = nearest(place, ports.keys().map(String::as_str));
            let hint = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
            return Err(format!("`{place}` is neither a prefix nor a port{hint}"));
        }
    }
    Ok(Trust::From {
        prefixes,
        ports: known,
    })
}
