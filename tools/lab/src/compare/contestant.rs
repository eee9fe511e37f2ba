//! A law, and the law of the ports in its runs.

use std::fmt;
use std::str::FromStr;

use pathmark_cc::{Algorithm, LinkAlgorithm, ParseError};

/// A law and its port: `xcp`, `cubic@codel`, `vcp[paper]@vcp[paper]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    law: Algorithm,
    port: Port,
    /// True if the port was named.
    named: bool,
}

/// The law or queue of answering routers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    /// A DropTail queue without answers.
    DropTail,
    /// Controlled delay (RFC 8289) without answers.
    CoDel,
    /// A controller that answers.
    Controller(LinkAlgorithm),
}

/// Error for an unknown law or port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadContestant {
    /// The law.
    #[error(transparent)]
    Law(ParseError),
    /// The port.
    #[error(
        "`{port}` behind @ is no port's law: {source}; without one it is `droptail` or `codel`"
    )]
    Port {
        /// The text after the `@`.
        port: String,
        /// The error.
        source: ParseError,
    },
}

impl Contestant {
    /// Creates a law with its own port, or with DropTail without router signals.
    pub fn new(law: Algorithm) -> Self {
        let port = law.port();
        Self {
            law,
            port: port.map_or(Port::DropTail, Port::Controller),
            named: false,
        }
    }

    /// Returns the sender's law.
    pub const fn law(&self) -> &Algorithm {
        &self.law
    }

    /// True if answering routers differ from plain routers for this law.
    pub(super) fn hears_routers(&self) -> bool {
        self.port != Port::DropTail
    }

    /// Returns the lines of a link's table that set its port's law and queue.
    pub(super) fn port(&self, limit: &str) -> String {
        match &self.port {
            Port::DropTail => format!("queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\n"),
            Port::CoDel => format!("queue = {{ kind = \"codel\", limit = \"{limit}\" }}\n"),
            Port::Controller(law) => format!(
                "queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\ncontroller = \"{law}\"\n"
            ),
        }
    }
}

impl FromStr for Contestant {
    type Err = BadContestant;
    fn from_str(text: &str) -> Result<Self, BadContestant> {
        let (law, port) = match text.split_once('@') {
            Some((law, port)) => (law, Some(port.trim())),
            None => (text, None),
        };
        let law: Algorithm = law.trim().parse().map_err(BadContestant::Law)?;
        let Some(port) = port else {
            return Ok(Self::new(law));
        };
        let read = match port {
            "droptail" | "none" => Port::DropTail,
            "codel" => Port::CoDel,
            _ => Port::Controller(port.parse().map_err(|source| BadContestant::Port {
                port: port.to_owned(),
                source,
            })?),
        };
        Ok(Self {
            law,
            port: read,
            named: true,
        })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.law.fmt(f)?;
        match (&self.port, self.named) {
            (_, false) => Ok(()),
            (Port::DropTail, true) => f.write_str("@droptail"),
            (Port::CoDel, true) => f.write_str("@codel"),
            (Port::Controller(law), true) => write!(f, "@{law}"),
        }
    }
}
