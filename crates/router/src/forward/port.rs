//! A port of the complete router: a link, with the settings and counters that IP needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::{Arrival, Instant};
use pathmark_link::{DropCause, Link, Owner};
use pathmark_protocols::shim::Carrier;

use super::classify::Classifier;
use super::frame::Frame;
use super::pool::Account;
use super::tally::{Tally, TunnelTally};
use crate::encapsulation::Encapsulation;
use crate::ip::Prefix;

/// Maximum time, in microseconds, that a super-packet may take on the link and still pass uncut.
/// It should stay below the time scale on which shaping promises smooth traffic.
const WHOLE_MICROS: u64 = 250;

/// Settings of a [`RouterPort`].
#[derive(Debug, Default)]
pub struct PortSettings {
    /// Its name.
    pub name: String,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The router's own addresses on this port.
    pub addresses: Vec<IpAddr>,
    /// True if packets are impaired individually (loss, jitter), so that super-packets must
    /// always be cut.
    pub per_packet: bool,
    /// Bytes of packet buffers that the port can always use. Beyond them, it shares the rest of
    /// the pool with other ports.
    pub reserve: usize,
    /// Sources whose shims the port trusts.
    pub shims: Trust,
    /// Requires that the source of each arriving packet routes back to this port (RFC 3704
    /// §2.2).
    pub source_check: bool,
    /// The tunnel in front of which the port is, if any.
    pub tunnel: Option<Encapsulation>,
    /// True if the host's kernel forwards between this port's interface and network cards, and
    /// therefore decrements the TTL of each packet there.
    pub kernel_forwards: bool,
    /// True if the control law needs estimates of the clouds upstream.
    pub measures: bool,
}

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

/// An output port.
#[derive(Debug)]
pub struct RouterPort {
    /// Settings.
    pub settings: PortSettings,
    /// The link behind it.
    pub link: Link<Frame>,
    /// The account for its packets' buffers, once it belongs to a router.
    pub(super) account: Account,
    pub(super) not_believed: u64,
    pub(super) tally: Tally,
    pub(super) tunnel: TunnelTally,
}

impl RouterPort {
    /// Creates a port that does not belong to a router yet.
    pub fn new(settings: PortSettings, link: Link<Frame>) -> Self {
        Self {
            settings,
            link,
            account: Account::NONE,
            not_believed: 0,
            tally: Tally::default(),
            tunnel: TunnelTally::default(),
        }
    }

    /// Passes `packets` packets on to the port, with their shims if these are trusted. Otherwise
    /// removes the feedback and counts the packets.
    #[inline]
    pub(super) fn heed(
        &mut self,
        believed: bool,
        (arrival, carrier): (Arrival, Carrier),
        packets: u32,
    ) -> (Arrival, Carrier) {
        if believed || !carrier.is_shim() {
            return (arrival, carrier);
        }
        self.not_believed += u64::from(packets);
        Classifier::plain(arrival)
    }

    /// Number of packets whose shim was not trusted.
    pub fn not_believed(&self) -> u64 {
        self.not_believed
    }

    /// Counts of IP packets that arrived and left here.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts of shims in a tunnel's packets; `None` for a port without a tunnel.
    pub fn tunnel(&self) -> Option<TunnelTally> {
        self.settings.tunnel.map(|_| self.tunnel)
    }

    /// Number of IP packets in the queue and on the wire.
    pub fn held_packets(&self) -> u64 {
        self.link.port().depth().packets + self.wire_packets()
    }

    fn wire_packets(&self) -> u64 {
        let stats = self.link.port().stats();
        let lost = |cause| stats.drops().of(cause);
        let wire_lost = lost(DropCause::RandomLoss) + lost(DropCause::WireFull);
        let left = self.tally.off_wire + wire_lost;
        stats.sent_packets().saturating_sub(left)
    }

    /// Drops all packets in the queue and on the wire.
    pub(super) fn clear(&mut self, now: Instant, owner: &mut dyn Owner<Frame>) {
        self.tally.off_wire += self.wire_packets();
        self.link.clear(now, owner);
    }

    /// Counts packets that were dropped for want of a buffer.
    pub(super) fn no_buffer(&mut self, packets: u32) {
        self.tally.offered += u64::from(packets);
        self.link.port_mut().refuse(DropCause::NoBuffer, packets);
    }

    /// Returns true if a super-packet of `bytes` in total may pass uncut.
    #[inline]
    pub fn passes_whole(&self, bytes: usize) -> bool {
        let fast = self.link.port().rate().is_none_or(|rate| {
            (bytes as u64).saturating_mul(1_000_000) <= rate.saturating_mul(WHOLE_MICROS)
        });
        fast && !self.settings.per_packet
    }

    /// Returns the source address for ICMP messages from this port to a host of the same IP
    /// version as `like`. Without an IPv4 address, the port uses the dummy address of RFC 7600;
    /// without an IPv6 address, it sends none.
    pub fn source_for(&self, like: IpAddr) -> Option<IpAddr> {
        const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
        let own = self.settings.addresses.iter().copied();
        match like {
            IpAddr::V4(_) => Some(
                own.into_iter()
                    .find(IpAddr::is_ipv4)
                    .unwrap_or(IpAddr::V4(DUMMY)),
            ),
            IpAddr::V6(to) => {
                let link_local = |a: &Ipv6Addr| a.is_unicast_link_local();
                own.into_iter()
                    .find(|a| matches!(a, IpAddr::V6(v6) if link_local(v6) == link_local(&to)))
            }
        }
    }
}
