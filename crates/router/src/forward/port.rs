//! A port of the whole router: a link, and what IP needs to know of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::core::Link;

use super::frame::Frame;
use super::pool::Account;
use super::trust::Trust;

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
    /// Whose shims it believes.
    pub shims: Trust,
    /// Packets that come in here must have a source that routes back here (RFC 3704 §2.2).
    pub source_check: bool,
    /// Its control law is told what is left of the clouds before the router.
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
        }
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
