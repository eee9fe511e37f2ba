//! Queries on the status socket, one line each.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use pathmark_link::keys::{RateValue, Span};

use crate::config::{PORT_NAME, is_port_name};

/// The least capacity that a law can use: one byte per second.
const LEAST: RateValue = RateValue { bits: 8 };

/// A client's query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The state as JSON.
    Json,
    /// Prometheus text.
    Metrics,
    /// Change the capacity that a port's control law uses.
    Capacity(Hint),
    /// Read the configuration again.
    Reload,
}

/// A capacity for a port's control law, set by an operator or by a program that monitors the
/// link behind the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The port's name.
    pub port: String,
    /// The capacity, at least 8 bit/s; `None`: the configured value.
    pub rate: Option<RateValue>,
    /// Time after which the report expires; `None`: never.
    pub hold: Option<Duration>,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Metrics => f.write_str("metrics"),
            Self::Reload => f.write_str("reload"),
            Self::Capacity(Hint { port, rate, hold }) => {
                match rate {
                    Some(rate) => write!(f, "capacity {port} {}bit", rate.bits)?,
                    None => write!(f, "capacity {port} none")?,
                }
                hold.map_or(Ok(()), |hold| write!(f, " for {}ns", hold.as_nanos()))
            }
        }
    }
}

impl Query {
    /// Creates a query that sets the capacity of a port's law to `rate`, which is a rate as in
    /// files, or `none`. A rate below 8 bit/s, also `0`, counts as 8 bit/s, because laws need
    /// a capacity of at least one byte per second. The capacity expires after `hold`.
    ///
    /// # Errors
    /// A line about an invalid name, rate or time.
    pub fn capacity(port: &str, rate: &str, hold: Option<Span>) -> Result<Self, String> {
        let rate = match rate {
            "none" if hold.is_some() => return Err("`none` never expires".to_owned()),
            "none" => None,
            "0" => Some(LEAST),
            rate => {
                let rate = rate.parse::<RateValue>();
                Some(rate.map_err(|error| error.to_string())?.max(LEAST))
            }
        };
        let hold = hold.map(|hold| hold.0);
        if hold.is_some_and(|hold| hold.is_zero()) {
            return Err("a report that expires holds for longer than 0".to_owned());
        }
        if !is_port_name(port) {
            return Err(format!("no port is called {port:?}: {PORT_NAME}"));
        }
        let port = port.to_owned();
        Ok(Self::Capacity(Hint { port, rate, hold }))
    }
}

impl FromStr for Query {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim();
        match line {
            "json" | "" => return Ok(Self::Json),
            "metrics" => return Ok(Self::Metrics),
            "reload" => return Ok(Self::Reload),
            _ => {}
        }
        // A port's name may contain spaces and `for`; a rate is one word, and no time.
        let hint = line.strip_prefix("capacity ").unwrap_or_default();
        let Some((port, rate)) = last_word(hint) else {
            return Err("ask for json, metrics, reload, capacity PORT RATE [for TIME]".to_owned());
        };
        let timed = port.strip_suffix(" for").and_then(last_word);
        match (timed, rate.parse()) {
            (Some((port, rate)), Ok(hold)) => Self::capacity(port, rate, Some(hold)),
            _ => Self::capacity(port, rate, None),
        }
    }
}

/// Splits a text before its last word.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.trim().rsplit_once(' ')?;
    Some((before.trim_end(), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_may_expire() {
        let hint = |line: &str| match line.parse() {
            Ok(Query::Capacity(Hint { port, rate, hold })) => {
                (port, rate.map(|rate| rate.bits), hold)
            }
            other => panic!("{line}: {other:?}"),
        };
        let five = Some(Duration::from_secs(5));
        let eight = Some(8_000_000);
        for (line, port, bits, hold) in [
            ("wan 8Mbit", "wan", eight, None),
            ("wan 8Mbit for 5s", "wan", eight, five),
            (" wan  8Mbit  for  5s ", "wan", eight, five),
            ("wan none", "wan", None, None),
            // The least that a law can use.
            ("wan 0", "wan", Some(8), None),
            ("wan 0 for 5s", "wan", Some(8), five),
            ("wan 7bit", "wan", Some(8), None),
            // Names with `for`.
            ("a for 8Mbit", "a for", eight, None),
            ("a for 0", "a for", Some(8), None),
            ("a for b 8Mbit for 5s", "a for b", eight, five),
        ] {
            let expected = (port.to_owned(), bits, hold);
            assert_eq!(hint(&format!("capacity {line}")), expected, "{line}");
        }
        for (line, part) in [
            ("capacity wan none for 5s", "`none` never expires"),
            ("capacity wan 8Mbit for 0s", "longer than 0"),
            ("capacity wan 8Mbit for 5parsec", "5parsec"),
            ("capacity wan fast for 5s", "fast"),
            ("capacity wan", "capacity PORT RATE [for TIME]"),
        ] {
            let error = line.parse::<Query>().unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
