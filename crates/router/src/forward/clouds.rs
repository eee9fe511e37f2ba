//! Messages between XCP-i routers (`docs/wire.md`, section 9). The router accepts messages to
//! its own address, sends its own along its routes like any packet, and passes the resulting
//! estimates to the ports that look for clouds.
//!
//! If a router receives packets of both IP versions, it has two names. A cloud upstream of it is
//! then measured once per version, because packets of the other version count as foreign.

use std::net::SocketAddr;
use std::ops::Range;

use pathmark_cc::{Duration, Instant, Upstream};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::Datagram;

use super::cloud_meter::{CloudMeter, HEADERS, gather, udp_around};
use super::refuse::generated;
use super::router::{Router, Target};
use super::turns::TICK;
use crate::offload::Offload;

/// Time between two estimates for the ports.
const EVERY: Duration = Duration::from_millis(50);

impl Router {
    /// Measures clouds with `meter` from now on, or stops measuring (`None`).
    pub fn set_cloud_meter(&mut self, meter: Option<CloudMeter>) {
        self.meter = meter.map(Box::new);
        self.meter_due = match self.meter {
            Some(_) => Instant::ZERO,
            None => Instant::FAR_FUTURE,
        };
    }

    /// Looks up the measuring ports again after a change of ports.
    pub(super) fn look_for_clouds(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.next = Instant::ZERO;
            self.meter_due = Instant::ZERO;
        }
    }

    /// Returns the cloud meter, if one is set.
    pub fn cloud_meter(&self) -> Option<&CloudMeter> {
        self.meter.as_deref()
    }

    /// The bytes that arrived through the cloud behind `upstream`, over all ports that measure.
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

    /// Processes a UDP packet for the router itself if it is addressed to the message port;
    /// otherwise returns false. Each segment of a super-packet is one message, because the
    /// packets of a train may be coalesced on their way.
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

    /// Performs the measurements that are due.
    #[cold]
    pub(super) fn measure(&mut self, now: Instant) {
        let Some(mut meter) = self.meter.take() else {
            self.meter_due = Instant::FAR_FUTURE;
            return;
        };
        if meter.next <= now {
            let measures = self.ports.iter().any(|port| port.settings.measures);
            meter.next = if measures {
                now + EVERY
            } else {
                Instant::FAR_FUTURE
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

    /// Passes estimates to the ports: the unused capacity of the clouds before them.
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

    /// Sends the packet at this range of `scratch` if it has a route, but never in fragments.
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
        let (arrival, carrier) = self.classifier.classify(bytes, &layout, 0);
        let frame = self.store.pool.copy(bytes, Offload::default());
        generated(&mut self.ports, port, 1);
        self.enqueue(now, port, frame, arrival, carrier, 1);
        true
    }
}

#[cfg(test)]
#[path = "clouds_tests.rs"]
mod tests;
