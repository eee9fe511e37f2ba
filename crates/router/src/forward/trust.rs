//! The sources whose shims a port trusts.

use std::net::IpAddr;

use crate::ip::Prefix;

/// Selects the shims that a port reads and writes. The port treats all other packets as foreign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The shims of all packets.
    #[default]
    All,
    /// No shims.
    None,
    /// Shims of packets from these sources or ports.
    From {
        /// Prefixes that contain the source.
        prefixes: Vec<Prefix>,
        /// Input ports, by index.
        ports: Vec<usize>,
    },
}

impl Trust {
    /// Returns true if shims from `source` that arrive on port `from` are trusted.
    #[inline]
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
