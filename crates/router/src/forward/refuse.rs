//! What becomes of packets that are not forwarded: counted, answered, complained about.

use std::net::IpAddr;

use pathmark_cc::Instant;
use pathmark_shim::ip::Layout;

use super::frame::Frame;
use super::router::{Router, Target};
use crate::ip::{IcmpError, echo_reply, icmp_error};
use crate::offload::{Offload, Super};

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Not an IP packet.
    Malformed,
    /// IPv4 header checksum wrong.
    BadChecksum,
    /// Its virtio-net header contradicts it.
    BadOffload,
    /// Addresses that no router forwards between.
    NotForwardable,
    /// For the router itself.
    Local,
    /// Its sender should be told.
    Icmp(IcmpError),
}

impl Router {
    #[cold]
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        from: usize,
        bytes: &[u8],
        offload: Offload,
        why: Refusal,
    ) {
        match why {
            Refusal::Malformed => self.counters.malformed += 1,
            Refusal::BadChecksum => self.counters.bad_checksum += 1,
            Refusal::BadOffload => self.counters.bad_offload += 1,
            Refusal::NotForwardable => self.counters.not_forwardable += 1,
            Refusal::Local => self.answer_local(now, bytes, offload),
            Refusal::Icmp(what) => {
                match what {
                    IcmpError::TimeExceeded => self.counters.ttl_exceeded += 1,
                    IcmpError::NoRoute => self.counters.no_route += 1,
                    IcmpError::TooBig(_) => self.counters.too_big += 1,
                }
                self.complain(now, from, bytes, offload, what);
            }
        }
    }

    fn answer_local(&mut self, now: Instant, bytes: &[u8], offload: Offload) {
        self.counters.local += 1;
        // An echo request comes with a complete checksum; anything else is not for this router to understand.
        if offload.checksum.is_some() {
            return;
        }
        let length = Layout::walk(bytes).ok().and_then(|layout| {
            let room = self.room_towards(layout.source(bytes)?)?;
            echo_reply(bytes, &layout, self.workbench.get_mut(..room)?)
        });
        if let Some(len) = length {
            self.originate(now, len);
        }
    }

    /// Largest packet that the router itself may send to `destination`.
    fn room_towards(&self, destination: IpAddr) -> Option<usize> {
        match self.routes.lookup(destination)? {
            Target::Port(port) => Some(self.ports.get(*port)?.settings.mtu as usize),
            Target::Local => None,
        }
    }

    /// Sends an ICMP error about a packet that came in on port `from`.
    fn complain(
        &mut self,
        now: Instant,
        from: usize,
        bytes: &[u8],
        offload: Offload,
        what: IcmpError,
    ) {
        // About a super-packet: quote its first segment, as the network would have seen it.
        let mut first = None;
        if let (Some(gso), Ok(layout)) = (offload.gso, Layout::walk(bytes))
            && let Ok(whole) = Super::new(bytes, &layout, gso)
            && let Some(mut buffer) = self.yard.pool.take(whole.largest())
        {
            let len = whole
                .segment(bytes, 0, &mut buffer)
                .map_or(0, |(len, _)| len);
            first = Some(Frame::new(buffer, len, Offload::default()));
        }
        let quoted = first.as_ref().map_or(bytes, |frame| frame.bytes());
        let length = Layout::walk(quoted).ok().and_then(|layout| {
            let to = layout.source(quoted)?;
            let source = self.ports.get(from)?.source_for(to)?;
            let room = self.room_towards(to)?;
            let out = self.workbench.get_mut(..room)?;
            icmp_error(what, quoted, &layout, source, out)
        });
        match length {
            Some(len) if self.icmp.take(now) => self.originate(now, len),
            _ => self.counters.icmp_suppressed += 1,
        }
        if let Some(frame) = first {
            self.yard.pool.give(frame);
        }
    }

    /// Sends the packet of `len` bytes on the workbench.
    fn originate(&mut self, now: Instant, len: usize) {
        let bytes = self.workbench.get(..len).unwrap_or(&[]);
        let Ok(layout) = Layout::walk(bytes) else {
            return;
        };
        let target = layout
            .destination(bytes)
            .and_then(|to| self.routes.lookup(to));
        if let Some(&Target::Port(port)) = target {
            let (arrival, carrier) = self.classifier.classify(bytes, &layout);
            let frame = self.yard.pool.copy(bytes, Offload::default());
            self.counters.icmp_sent += 1;
            self.enqueue(now, port, frame, arrival, carrier, 1);
        }
    }
}
