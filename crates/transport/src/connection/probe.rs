//! Probes for a larger datagram (RFC 8899).

use super::building::{Building, Contents, Permit};
use super::{Connection, Transmit};
use crate::Instant;
use crate::wire::{Frame, SpaceId};

impl Connection {
    /// A probe for a larger datagram: PING and padding, and nothing that would be missed. None is
    /// sent before the application has data to send: a connection that only listens or is closed
    /// at once would pay for it and never use it.
    pub(super) fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let Self {
            paths,
            datagrams,
            streams,
            ..
        } = self;
        let path = paths.path_mut();
        let carries_data =
            path.carries_data(|| datagrams.wants_to_send() || streams.wants_to_send());
        if !carries_data || !self.handshake.is_confirmed() || self.spaces.is_probing() {
            return None;
        }
        let size = path.poll_mtu_probe(now, self.spaces.recovery().bytes_in_flight())?;
        let room = buffer.get_mut(..usize::from(size))?;
        let mut building = Building::new(room, Permit::All);
        let shim = self.reserve_shim(now, None, &mut building.w);
        let dcid = self.control.remote_ids.current().id;
        let open = self.start_packet(SpaceId::Data, &dcid, &mut building.w)?;
        Frame::Ping.encode(&mut building.w).ok()?;
        let rest = building.w.remaining();
        building.w.put_zeros(rest).ok()?;
        let ecn = self.paths.path().mtu_probe_mark();
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
        self.paths.path_mut().on_mtu_probe_sent(number, size);
        let len = building.len();
        self.on_datagram_sent(len);
        Some(self.paths.path().transmit(ecn, len, len))
    }
}
