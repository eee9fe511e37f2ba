//! Whose shims a port believes.

use std::net::IpAddr;

use super::classify::Classifier;
use super::frame::Carrier;
use super::port::RouterPort;
use crate::ip::Prefix;
use pathmark_cc::Arrival;

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

impl RouterPort {
    /// What the port is to know of `packets` packets: all, or nothing of their shims, which then
    /// are counted.
    #[inline]
    pub(super) fn heed(
        &mut self,
        believed: bool,
        (arrival, carrier): (Arrival, Carrier),
        packets: u32,
    ) -> (Arrival, Carrier) {
        match carrier {
            Carrier::Vcp(_) | Carrier::Shim { .. } if !believed => {
                self.not_believed += u64::from(packets);
                Classifier::plain(arrival)
            }
            _ => (arrival, carrier),
        }
    }

    /// Packets whose shim it did not believe.
    #[must_use]
    pub fn not_believed(&self) -> u64 {
        self.not_believed
    }
}
