//! Writing packets out, coupled into super-packets where they follow each other.

use std::io::IoSlice;

use super::device::Device;
use crate::forward::{Frame, Router};
use crate::offload::{GsoKind, Train};

/// Slices of one write: virtio-net header, packet header, and the payloads of a train.
const SLICES: usize = 66;

/// The way out of one port. Keeps its room between uses.
#[derive(Debug, Default)]
pub struct Egress {
    cars: Vec<Frame>,
}

impl Egress {
    /// Writes every packet that has arrived at the far end of `port`'s link.
    pub fn flush(
        &mut self,
        now: pathmark_cc::Instant,
        router: &mut Router,
        port: usize,
        device: &Device,
    ) {
        let mut train: Option<Train> = None;
        while let Some(frame) = router.poll(now, port) {
            let coupled = train
                .as_mut()
                .is_some_and(|train| train.couple(frame.bytes(), frame.offload));
            if !coupled {
                self.write(train.take(), router, port, device);
                train = start(&frame, device);
            }
            self.cars.push(frame);
        }
        self.write(train, router, port, device);
    }

    fn write(&mut self, train: Option<Train>, router: &mut Router, port: usize, device: &Device) {
        let Some(first) = self.cars.first() else {
            return;
        };
        let mut train = train;
        let header_len = train.as_ref().map_or(0, Train::header_len);
        let result = if let Some((header, offload)) = train.as_mut().and_then(Train::finish) {
            let vnet = offload.emit(u16::try_from(header_len).unwrap_or(0));
            let mut slices = [IoSlice::new(&[]); SLICES];
            let payloads = self.cars.iter().map(|car| car.bytes().get(header_len..));
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
        let packets = self.cars.iter().map(|car| u64::from(car.packets())).sum();
        router.wrote(port, packets, result.is_ok());
        let counters = router.counters_mut();
        match result {
            Ok(()) => counters.written += 1,
            Err(_) => counters.write_errors += 1,
        }
        for frame in self.cars.drain(..) {
            router.pool_mut().give(frame);
        }
    }
}

/// A train is only started where the interface takes what it would become.
fn start(frame: &Frame, device: &Device) -> Option<Train> {
    let train = Train::start(frame.bytes(), frame.offload)?;
    let allowed = match train.kind() {
        GsoKind::Udp => device.offloads().udp,
        GsoKind::TcpV4 | GsoKind::TcpV6 => device.offloads().tcp,
    };
    allowed.then_some(train)
}
