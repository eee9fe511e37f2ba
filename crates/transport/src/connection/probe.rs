//! Probes for a larger datagram (RFC 8899).

use super::building::{Building, Contents, Permit};
use super::{Connection, Transmit};
use crate::wire::{Frame, SpaceId};
use crate::{Ecn, Instant};

impl Connection {
    /// A probe for a larger datagram: PING and padding, and nothing that would be missed. None is
    /// sent before the application has data to send: a connection that only listens or is closed
    /// at once would pay for it and never use it.
    pub(super) fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if !self.route.carries_data {
            self.route.carries_data = self.has_data();
        }
        if !self.route.carries_data
            || !self.handshake.is_confirmed()
            || self.address.validation.is_some()
            || self.probes != [0; 3]
        {
            return None;
        }
        let window = self.route.controller.window();
        let in_flight = self.recovery.bytes_in_flight();
        let size = self.route.mtud.poll_probe(now)?;
        if in_flight + u64::from(size) > window || u64::from(size) > self.address.limit.available()
        {
            return None;
        }
        let room = buffer.get_mut(..usize::from(size))?;
        let mut building = Building::new(room, Permit::All);
        let shim = self.reserve_shim(now, None, &mut building.w);
        let dcid = self.control.remote_ids.current().id;
        let open = self.start_packet(SpaceId::Data, &dcid, &mut building.w)?;
        Frame::Ping.encode(&mut building.w).ok()?;
        let rest = building.w.remaining();
        building.w.put_zeros(rest).ok()?;
        // A packet that is to find out about two things tells of neither.
        let ecn = match self.route.ecn.is_tried() {
            true => Ecn::NotEct,
            false => self.route.ecn(self.feedback.signal()),
        };
        let number = open.number;
        let contents = Contents {
            eliciting: true,
            padded: true,
            mtu_probe: true,
            shim,
            ecn,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut building.w)?;
        self.route.mtud.on_probe_sent(number, size);
        let len = building.len();
        self.on_datagram_sent(len);
        Some(Transmit {
            remote: self.address.remote,
            local: self.address.local,
            ecn,
            len,
            segment_size: len,
        })
    }
}
