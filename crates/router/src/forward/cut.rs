//! Cutting packets in transit: super-packets into segments, large IPv4 packets into fragments.

use pathmark_cc::Instant;
use pathmark_shim::ip::Layout;

use super::frame::Frame;
use super::refuse::generated;
use super::route::{KernelHops, Route};
use super::router::{Router, enqueue};
use crate::ip::{Fragments, complete};
use crate::offload::{Offload, Super};

impl Router {
    /// Cuts a super-packet, and sends each segment separately.
    pub(super) fn cut(
        &mut self,
        now: Instant,
        bytes: &[u8],
        whole: &Super,
        route: &Route,
        believed: bool,
    ) {
        for index in 0..whole.segments() {
            let Some(mut buffer) = self.store.pool.take(whole.segment_len(index)) else {
                self.no_buffer(route.port);
                continue;
            };
            let Some((len, offload)) = whole.segment(bytes, index, &mut buffer) else {
                self.store.pool.give_buffer(buffer);
                continue;
            };
            let mut frame = Frame::new(buffer, len, offload);
            frame.hops = route.kernel.hops();
            if !route.fits {
                let exit = (route.port, route.kernel);
                self.fragment(now, frame.bytes(), offload, exit, believed);
                self.store.pool.give(frame);
                continue;
            }
            let Ok(layout) = Layout::walk(frame.bytes()) else {
                self.store.pool.give(frame);
                continue;
            };
            let known = self
                .classifier
                .classify(frame.bytes(), &layout, route.kernel.before);
            let Some(port) = self.ports.get_mut(route.port) else {
                self.store.pool.give(frame);
                return;
            };
            let (arrival, carrier) = port.heed(believed, known, 1);
            self.enqueue(now, route.port, Some(frame), arrival, carrier, 1);
        }
    }

    /// Counts a packet for port `port` that was dropped for want of a buffer.
    fn no_buffer(&mut self, port: usize) {
        self.counters.no_buffer += 1;
        if let Some(port) = self.ports.get_mut(port) {
            port.no_buffer(1);
        }
    }

    pub(super) fn fragment(
        &mut self,
        now: Instant,
        bytes: &[u8],
        offload: Offload,
        (port, kernel): (usize, KernelHops),
        believed: bool,
    ) {
        let mtu = self.ports.get(port).map_or(0, |p| p.settings.mtu as usize);
        let Some(mut whole) = self.store.pool.copy(bytes, Offload::default()) else {
            self.no_buffer(port);
            return;
        };
        if let Some(partial) = offload.checksum {
            complete(whole.bytes_mut(), partial);
        }
        match Fragments::new(whole.bytes(), mtu) {
            Ok(mut fragments) => {
                self.counters.fragmented += 1;
                let mut pieces = 0;
                while let Some(len) = fragments.next_into(&mut self.scratch) {
                    let part = self.scratch.get(..len).unwrap_or(&[]);
                    pieces += 1;
                    let Ok(layout) = Layout::walk(part) else {
                        continue;
                    };
                    let known = self.classifier.classify(part, &layout, kernel.before);
                    let Some(heeding) = self.ports.get_mut(port) else {
                        break;
                    };
                    let (arrival, carrier) = heeding.heed(believed, known, 1);
                    let mut frame = self.store.pool.copy(part, Offload::default());
                    kernel.note(&mut frame);
                    self.wake(port);
                    enqueue(
                        &mut self.ports,
                        &mut self.store,
                        &mut self.counters,
                        now,
                        port,
                        frame,
                        (arrival, carrier, 1),
                    );
                }
                // The first fragment counts as the packet itself.
                generated(&mut self.ports, port, usize::saturating_sub(pieces, 1));
            }
            Err(_) => {
                self.counters.too_big += 1;
                if let Some(port) = self.ports.get_mut(port) {
                    port.tally.offered += 1;
                    port.tally.too_big += 1;
                }
            }
        }
        self.store.pool.give(whole);
    }
}
