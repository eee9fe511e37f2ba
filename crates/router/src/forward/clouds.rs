//! Messages of XCP-i routers (`docs/wire.md`, section 9) in this router: taken in where they are
//! for its own address, sent along its routes like any packet, and what they tell passed on to the
//! ports that look for clouds.
//!
//! A router that packets of both versions of IP come from has two names, and a cloud behind it is
//! measured for each: to the one, what comes by the other is foreign.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use pathmark_cc::{CloudEstimate, Duration, Instant, Upstream};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::Datagram;
use xcp_edge::{Measurer, Own};

use super::own_udp::{HEADERS, udp_around};
use super::refuse::generated;
use super::router::{Router, Target};
use super::turns::TICK;
use crate::ip::TokenBucket;
use crate::offload::Offload;

/// Time between two estimates that are passed to ports.
const EVERY: Duration = Duration::from_millis(50);
/// Messages that are verified per second, and in one burst: an authenticator takes some
/// microseconds, and any host can send a wrong one.
const LOOKED_AT: u32 = 10_000;
const LOOKED_AT_ONCE: u32 = 1_000;
/// Upstream routers that are asked about at most.
const MOST_NAMED: usize = 64;

/// Measures clouds, and lets others measure theirs.
#[derive(Debug)]
pub struct CloudMeter {
    own: Own,
    port: u16,
    measurer: Measurer,
    /// When ports get the next estimate.
    next: Instant,
    estimates: Vec<Estimated>,
    /// Where upstream routers are gathered.
    named: Vec<(Upstream, u64)>,
    looks: TokenBucket,
    counts: MessageCounts,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Datagrams for the router's message port.
    pub received: u64,
    /// Those that came too fast to be looked at.
    pub too_many: u64,
    /// Datagrams that left by a port.
    pub sent: u64,
    /// Datagrams without a route, or too long for it.
    pub unsent: u64,
}

/// The last estimate of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// The router before the cloud.
    pub upstream: IpAddr,
    /// What is left of it.
    pub estimate: CloudEstimate,
    /// When that was.
    pub at: Instant,
}

impl CloudMeter {
    /// A meter whose messages go between the UDP ports `port` of routers. `own` has the addresses
    /// that headers name this router by, and that `measurer` was made with.
    #[must_use]
    pub fn new(own: Own, port: u16, measurer: Measurer) -> Self {
        Self {
            own,
            port,
            measurer,
            next: Instant::ZERO,
            estimates: Vec::new(),
            named: Vec::new(),
            looks: TokenBucket::new(LOOKED_AT, LOOKED_AT_ONCE),
            counts: MessageCounts::default(),
        }
    }

    /// Its messages, to look at.
    #[must_use]
    pub const fn measurer(&self) -> &Measurer {
        &self.measurer
    }

    /// What became of datagrams.
    #[must_use]
    pub const fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Estimates that hold at `now`.
    pub fn estimates(&self, now: Instant) -> impl Iterator<Item = &Estimated> {
        let holds = move |known: &&Estimated| now < known.at + known.estimate.valid_for;
        self.estimates.iter().filter(holds)
    }

    fn note(&mut self, now: Instant, upstream: IpAddr, estimate: CloudEstimate) {
        let known = Estimated {
            upstream,
            estimate,
            at: now,
        };
        self.estimates
            .retain(|kept| kept.upstream != upstream && now < kept.at + kept.estimate.valid_for);
        self.estimates.push(known);
    }

    /// When something is due.
    fn deadline(&self) -> Instant {
        let messages = self.measurer.deadline().unwrap_or(Instant::FAR_FUTURE);
        messages.min(self.next)
    }
}

/// Adds what came from an upstream router. Where there are too many, those from which the most came
/// are named: made-up addresses of one port leave room for the routers before another.
fn gather(named: &mut Vec<(Upstream, u64)>, upstream: Upstream, bytes: u64) {
    if let Some((_, sum)) = named.iter_mut().find(|(known, _)| *known == upstream) {
        *sum = sum.saturating_add(bytes);
    } else if named.len() < MOST_NAMED {
        named.push((upstream, bytes));
    } else if let Some(least) = named.iter_mut().min_by_key(|(_, sum)| *sum)
        && least.1 < bytes
    {
        *least = (upstream, bytes);
    }
}

impl Router {
    /// From now on it measures clouds with `meter`, or (`None`) does not.
    pub fn set_cloud_meter(&mut self, meter: Option<CloudMeter>) {
        self.meter = meter.map(Box::new);
        self.meter_due = match self.meter {
            Some(_) => Instant::ZERO,
            None => Instant::FAR_FUTURE,
        };
    }

    /// After a change of ports: the ports that measure are looked up again.
    pub(super) fn look_for_clouds(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.next = Instant::ZERO;
            self.meter_due = Instant::ZERO;
        }
    }

    /// What measures clouds, if something does.
    #[must_use]
    pub fn cloud_meter(&self) -> Option<&CloudMeter> {
        self.meter.as_deref()
    }

    /// Bytes that have come through the cloud behind `upstream`, by all ports that count them.
    fn came_from(&self, upstream: Upstream) -> u64 {
        let mut sum = 0u64;
        for port in self.ports.iter().filter(|port| port.settings.measures) {
            port.link.port().visit_clouds(&mut |known, bytes| {
                if known == upstream {
                    sum = sum.saturating_add(bytes);
                }
            });
        }
        sum
    }

    /// Takes a UDP packet for the router itself if it is for its message port; false if it is not.
    /// Each segment of a super-packet is a message: the packets of a train that a host sent may
    /// come as one.
    pub(super) fn take_message(
        &mut self,
        now: Instant,
        bytes: &[u8],
        layout: &Layout,
        offload: Offload,
    ) -> bool {
        let Some(mut meter) = self.meter.take() else {
            return false;
        };
        let taken = (|| {
            let udp = Datagram::locate(bytes, layout)?;
            let (from, to) = udp.ports(bytes)?;
            let (source, own) = (layout.source(bytes)?, layout.destination(bytes)?);
            if to != meter.port || own != meter.own.facing(source) {
                return None;
            }
            let upstream = Upstream::of(source)?;
            let from = SocketAddr::from((source, from));
            let payload = udp.payload(bytes);
            let size = offload.gso.map_or(0, |gso| usize::from(gso.size));
            let size = if size > 0 { size } else { payload.len().max(1) };
            for message in payload.chunks(size) {
                meter.counts.received += 1;
                if !meter.looks.take(now) {
                    meter.counts.too_many += 1;
                    continue;
                }
                let own = || self.came_from(upstream);
                meter.measurer.on_datagram(now, from, message, own);
            }
            Some(())
        })();
        self.meter_due = meter.deadline();
        self.meter = Some(meter);
        taken.is_some()
    }

    /// Does what is due of measuring.
    #[cold]
    pub(super) fn measure(&mut self, now: Instant) {
        let Some(mut meter) = self.meter.take() else {
            self.meter_due = Instant::FAR_FUTURE;
            return;
        };
        if meter.next <= now {
            let measures = self.ports.iter().any(|port| port.settings.measures);
            meter.next = match measures {
                true => now + EVERY,
                false => Instant::FAR_FUTURE,
            };
            self.tell_ports(now, &mut meter);
        }
        let start = usize::from(HEADERS);
        while let Some(room) = self.scratch.get_mut(start..) {
            let Some(transmit) = meter.measurer.poll_transmit(now, room) else {
                break;
            };
            let from = SocketAddr::new(meter.own.facing(transmit.to.ip()), meter.port);
            let packet = udp_around(&mut self.scratch, transmit.len, from, transmit.to);
            let sent = packet.is_some_and(|packet| self.send_own(now, packet));
            meter.counts.sent += u64::from(sent);
            meter.counts.unsent += u64::from(!sent);
        }
        self.meter_due = meter.deadline().max(now + TICK);
        self.meter = Some(meter);
    }

    /// Tells ports what is left of the clouds before them.
    fn tell_ports(&mut self, now: Instant, meter: &mut CloudMeter) {
        let mut named = std::mem::take(&mut meter.named);
        named.clear();
        for port in self.ports.iter().filter(|port| port.settings.measures) {
            port.link.port().visit_clouds(&mut |upstream, bytes| {
                gather(&mut named, upstream, bytes);
            });
        }
        for &(upstream, bytes) in &named {
            let address = upstream.address();
            let from = SocketAddr::new(address, meter.port);
            let Some(estimate) = meter.measurer.estimate(now, from, bytes) else {
                continue;
            };
            meter.note(now, address, estimate);
            for port in self.ports.iter_mut().filter(|port| port.settings.measures) {
                port.link.port_mut().tell_cloud(now, upstream, &estimate);
            }
        }
        meter.named = named;
    }

    /// Sends the packet in that range of `scratch`, if it has a route; never in fragments.
    fn send_own(&mut self, now: Instant, packet: Range<usize>) -> bool {
        let len = packet.len();
        let bytes = self.scratch.get(packet).unwrap_or(&[]);
        let Ok(layout) = Layout::walk(bytes) else {
            return false;
        };
        let to = layout.destination(bytes);
        let Some(&Target::Port(port)) = to.and_then(|to| self.routes.lookup(to)) else {
            return false;
        };
        let mtu = self.ports.get(port).map_or(0, |port| port.settings.mtu);
        if len > mtu as usize {
            return false;
        }
        let (arrival, carrier) = self.classifier.classify(bytes, &layout);
        let frame = self.store.pool.copy(bytes, Offload::default());
        generated(&mut self.ports, port, 1);
        self.enqueue(now, port, frame, arrival, carrier, 1);
        true
    }
}

#[cfg(test)]
#[path = "clouds_tests.rs"]
mod tests;
