//! Compares the packet buffers that the limits of ports require with `memory`.

use pathmark_link::WireConfig;
use pathmark_link::keys::{ByteCount, LinkSpec};
use pathmark_link::queue::Limit;

use super::schema::{Config, PortSpec};
use crate::forward::{WORKING, cost};

impl Config {
    /// Bytes of packet buffers reserved for a port.
    pub fn reserve(&self, port: &PortSpec) -> u64 {
        port.reserve.map_or_else(|| self.share(), |given| given.0)
    }

    /// The default reserve: half of `memory`, divided by the number of ports.
    fn share(&self) -> u64 {
        let ports = u64::try_from(self.ports.len()).unwrap_or(u64::MAX);
        self.free() / 2 / ports.max(1)
    }

    /// The part of `memory` for waiting packets, in bytes.
    fn free(&self) -> u64 {
        self.memory.0.saturating_sub(WORKING as u64)
    }

    /// The most that a port can hold: everything that is not reserved for others.
    fn room(&self, port: &PortSpec) -> u64 {
        let others = self.reserved().saturating_sub(self.reserve(port));
        self.free().saturating_sub(others)
    }

    fn reserved(&self) -> u64 {
        let reserves = self.ports.iter().map(|port| self.reserve(port));
        reserves.fold(0, u64::saturating_add)
    }

    /// Returns the first port that requires more than `memory` allows, and a remedy.
    pub(super) fn short_of_memory(&self) -> Option<(usize, String)> {
        if self.reserved() > self.free() {
            let last = self.ports.iter().rposition(|port| port.reserve.is_some());
            let message = format!(
                "the ports' reserves are {} together, but `memory` has {} for them: raise it, or \
                 lower `reserve`",
                ByteCount(self.reserved()),
                ByteCount(self.free())
            );
            return Some((last.unwrap_or(0), message));
        }
        self.ports.iter().enumerate().find_map(|(index, port)| {
            let (need, room) = (need(&port.link, port.mtu), self.room(port));
            let message = format!(
                "full, the port's queue and delay take {} of packet buffers, but of `memory` it \
                 may use {}: lower `limit`, or raise `memory`",
                ByteCount(need),
                ByteCount(room)
            );
            (need > room).then_some((index, message))
        })
    }
}

/// Bytes of packet buffers for a port whose queue and wire are full of packets of its MTU.
fn need(link: &LinkSpec, mtu: u32) -> u64 {
    let mtu = u64::from(mtu);
    let buffer = usize::try_from(mtu).ok().and_then(cost).unwrap_or(0) as u64;
    let packets = |bytes: u128| {
        let packets = bytes.div_ceil(u128::from(mtu.max(1)));
        u64::try_from(packets).unwrap_or(u64::MAX)
    };
    let queue = match link.limit(None) {
        Limit::Packets(packets) => packets,
        Limit::Bytes(bytes) => packets(bytes.into()),
    };
    // With the worst values of all changes.
    let rates = link.at.iter().filter_map(|change| change.rate);
    let rate = rates.chain(link.rate).map(|rate| rate.bytes()).max();
    let delays = link.at.iter().filter_map(|change| change.delay);
    let delay = delays.map(|delay| delay.0).max().unwrap_or_default();
    let jitter = link
        .jitter
        .map_or_else(Default::default, |jitter| jitter.max.0);
    let delay = link.delay.0.max(delay).saturating_add(jitter);
    let under_way = u128::from(rate.unwrap_or(0)).saturating_mul(delay.as_nanos());
    let most = WireConfig::default().capacity as u64;
    let wire = packets(under_way / 1_000_000_000).min(most);
    queue.saturating_add(wire).saturating_mul(buffer)
}
