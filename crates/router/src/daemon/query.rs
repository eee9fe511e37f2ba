//! Queries on the status socket, one line each.

use std::fmt;
use std::str::FromStr;

use pathmark_link::keys::RateValue;

use crate::config::{PORT_NAME, is_port_name};

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
    /// The capacity; `None`: the configured value.
    pub rate: Option<RateValue>,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Metrics => f.write_str("metrics"),
            Self::Reload => f.write_str("reload"),
            Self::Capacity(Hint { port, rate }) => match rate {
                Some(rate) => write!(f, "capacity {port} {}bit", rate.bits),
                None => write!(f, "capacity {port} none"),
            },
        }
    }
}

impl Query {
    /// Creates a query that sets the capacity of a port's law to `rate`, which is a rate as in
    /// files, or `none`.
    ///
    /// # Errors
    /// A line about an invalid name or rate.
    pub fn capacity(port: &str, rate: &str) -> Result<Self, String> {
        let rate = match rate {
            "none" => None,
            rate => match rate.parse::<RateValue>() {
                Ok(rate) if rate.bytes() > 0 => Some(rate),
                Err(error) => return Err(error.to_string()),
                Ok(_) => return Err("a capacity is at least 8bit, or none".to_owned()),
            },
        };
        if !is_port_name(port) {
            return Err(format!("no port is called {port:?}: {PORT_NAME}"));
        }
        let port = port.to_owned();
        Ok(Self::Capacity(Hint { port, rate }))
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
        // A port's name may contain spaces, but a rate cannot.
        let hint = line.strip_prefix("capacity ");
        let Some((port, rate)) = hint.and_then(|hint| hint.trim_start().rsplit_once(' ')) else {
            return Err("ask for json, metrics, reload or capacity PORT RATE".to_owned());
        };
        Self::capacity(port.trim_end(), rate)
    }
}
