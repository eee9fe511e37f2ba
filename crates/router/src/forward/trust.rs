//! Whose shims a port believes.

use std::net::IpAddr;

use crate::ip::Prefix;

/// Whose shims a port reads and writes. All others' packets are plain traffic to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The shims of all packets.
    #[default]
    All,
    /// No shims.
    None,
    /// Those of packets from these places.
    From {
        /// Prefixes that hold their source.
        prefixes: Vec<Prefix>,
        /// Ports on which they come in, by index.
        ports: Vec<usize>,
    },
}

impl Trust {
    /// True if packets from `source` that come in on port `from` are believed.
    #[inline]
    #[must_use]
    pub fn covers(&self, from: usize, source: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::From { prefixes, ports } => {
                ports.contains(&from) || prefixes.iter().any(|prefix| prefix.contains(source))
            }
        }
    }
}
