//! A port of the whole router: a link, and what IP needs to know of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::{Arrival, Instant};
use pathmark_link::{DropCause, Link, Owner};
use pathmark_protocols::shim::Carrier;

use super::classify::Classifier;
use super::frame::Frame;
use super::pool::Account;
use super::tally::{Tally, TunnelTally};
use super::trust::Trust;
use crate::encapsulation::Encapsulation;

/// Time that a super-packet may take on the link and still pass as a whole, in microseconds: below
/// what shaping promises to smooth.
const WHOLE_MICROS: u64 = 250;

/// What a [`RouterPort`] is made of.
#[derive(Debug, Default)]
pub struct PortSettings {
    /// Its name.
    pub name: String,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The router's own addresses here.
    pub addresses: Vec<IpAddr>,
    /// True if packets meet chance one by one (loss, jitter), so that super-packets are always cut.
    pub per_packet: bool,
    /// Bytes of packet buffers that it may always hold; beyond them it shares what is left with the
    /// others.
    pub reserve: usize,
    /// Sources whose shims it trusts.
    pub shims: Trust,
    /// Packets that come in here must have a source that routes back here (RFC 3704 §2.2).
    pub source_check: bool,
    /// The tunnel that the port is in front of.
    pub tunnel: Option<Encapsulation>,
    /// The kernel of the box forwards between its interface and network cards, and so takes one
    /// off the TTL of each packet there.
    pub kernel_forwards: bool,
    /// Its control law gets the estimates of the clouds before the router.
    pub measures: bool,
}

/// An output port.
#[derive(Debug)]
pub struct RouterPort {
    /// Settings.
    pub settings: PortSettings,
    /// The link behind it.
    pub link: Link<Frame>,
    /// Once it belongs to a router: who answers for its packets' buffers.
    pub(super) account: Account,
    pub(super) not_believed: u64,
    pub(super) tally: Tally,
    pub(super) tunnel: TunnelTally,
}

impl RouterPort {
    /// A port that belongs to no router yet.
    #[must_use]
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

    /// What the port is to know of `packets` packets: all, or nothing of their shims, which then
    /// are counted.
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

    /// Packets whose shim it did not believe.
    #[must_use]
    pub fn not_believed(&self) -> u64 {
        self.not_believed
    }

    /// IP packets that came in and went out here.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Shims of a tunnel's packets; `None` for a port without a tunnel.
    #[must_use]
    pub fn tunnel(&self) -> Option<TunnelTally> {
        self.settings.tunnel.map(|_| self.tunnel)
    }

    /// IP packets that wait in the queue or travel on the wire.
    #[must_use]
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

    /// Drops what waits and travels.
    pub(super) fn clear(&mut self, now: Instant, owner: &mut dyn Owner<Frame>) {
        self.tally.off_wire += self.wire_packets();
        self.link.clear(now, owner);
    }

    /// Counts packets for which there is no buffer.
    pub(super) fn no_buffer(&mut self, packets: u32) {
        self.tally.offered += u64::from(packets);
        self.link.port_mut().refuse(DropCause::NoBuffer, packets);
    }

    /// True if a super-packet of `bytes` in all may pass as a whole.
    #[inline]
    #[must_use]
    pub fn passes_whole(&self, bytes: usize) -> bool {
        let fast = self.link.port().rate().is_none_or(|rate| {
            (bytes as u64).saturating_mul(1_000_000) <= rate.saturating_mul(WHOLE_MICROS)
        });
        fast && !self.settings.per_packet
    }

    /// The address from which this port sends ICMP messages to a host of the same version as
    /// `like`. Without an IPv4 address of its own it uses the dummy address of RFC 7600; without an
    /// IPv6 address it is silent.
    #[must_use]
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
