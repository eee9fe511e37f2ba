//! Writes packets to interfaces, coalescing consecutive packets of a flow into a super-packet.

use std::io::IoSlice;

use super::device::Device;
use crate::forward::{Frame, Router};
use crate::offload::{Coalescer, GsoKind};

/// Slices per write: virtio-net header, packet header, and the payloads of a super-packet.
const SLICES: usize = 66;

/// The output of one port, which keeps its allocation between uses.
#[derive(Debug, Default)]
pub struct Egress {
    segments: Vec<Frame>,
}

impl Egress {
    /// Writes all packets that have reached the far end of `port`'s link.
    pub fn flush(
        &mut self,
        now: pathmark_cc::Instant,
        router: &mut Router,
        port: usize,
        device: &Device,
    ) {
        let mut coalescer: Option<Coalescer> = None;
        while let Some(frame) = router.poll(now, port) {
            let appended = coalescer
                .as_mut()
                .is_some_and(|coalescer| coalescer.append(frame.bytes(), frame.offload));
            if !appended {
                self.write(coalescer.take(), router, port, device);
                coalescer = start(&frame, device);
            }
            self.segments.push(frame);
        }
        self.write(coalescer, router, port, device);
    }

    fn write(
        &mut self,
        coalescer: Option<Coalescer>,
        router: &mut Router,
        port: usize,
        device: &Device,
    ) {
        let Some(first) = self.segments.first() else {
            return;
        };
        let mut coalescer = coalescer;
        let header_len = coalescer.as_ref().map_or(0, Coalescer::header_len);
        let result = if let Some((header, offload)) = coalescer.as_mut().and_then(Coalescer::finish)
        {
            let vnet = offload.emit(u16::try_from(header_len).unwrap_or(0));
            let mut slices = [IoSlice::new(&[]); SLICES];
            let payloads = self
                .segments
                .iter()
                .map(|segment| segment.bytes().get(header_len..));
            let parts = [&vnet, header].into_iter();
            let parts = parts.chain(payloads.map(Option::unwrap_or_default));
            let mut used = 0;
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
                used += 1;
            }
            device.write(slices.get(..used).unwrap_or(&[]))
        } else {
            let vnet = first.offload.emit(first.header_len());
            device.write(&[IoSlice::new(&vnet), IoSlice::new(first.bytes())])
        };
        let packets = self
            .segments
            .iter()
            .map(|segment| u64::from(segment.packets()))
            .sum();
        router.wrote(port, packets, result.is_ok());
        let counters = router.counters_mut();
        match result {
            Ok(()) => counters.written += 1,
            Err(_) => counters.write_errors += 1,
        }
        for frame in self.segments.drain(..) {
            router.pool_mut().give(frame);
        }
    }
}

/// Starts coalescing only if the interface accepts the resulting kind of super-packet.
fn start(frame: &Frame, device: &Device) -> Option<Coalescer> {
    let coalescer = Coalescer::start(frame.bytes(), frame.offload)?;
    let allowed = match coalescer.kind() {
        GsoKind::Udp => device.offloads().udp,
        GsoKind::TcpV4 | GsoKind::TcpV6 => device.offloads().tcp,
    };
    allowed.then_some(coalescer)
}
