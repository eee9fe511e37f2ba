//! A packet's way: from an endpoint into its first link, from link to link, to the other endpoint.

use pathmark_cc::Instant;

use super::packet::{Label, PacketId};
use super::{Engine, RunError};
use crate::observe::Observer;

impl Engine {
    /// Shows a packet that has come out of a link.
    #[cold]
    pub(super) fn capture(&mut self, link: u32, packet: PacketId, observer: &mut dyn Observer) {
        let Some((to, taken)) = self.pool.copy(packet, self.captured.datagram()) else {
            return;
        };
        if let Some(endpoint) = self.endpoints.get(to as usize) {
            let (from, to) = endpoint.addresses();
            let packet = self.captured.packet(taken, from, to);
            observer.packet(
                &self.scenario,
                link as usize,
                self.now - Instant::ZERO,
                packet,
            );
        }
    }

    /// Hands a packet to the next link of its way, or to the endpoint that it is for.
    #[inline]
    pub(super) fn forward(&mut self, packet: PacketId) -> Result<(), RunError> {
        let Some((to, hop)) = self.pool.heading(packet) else {
            return Ok(());
        };
        let way = self.ways.get(to as usize).map_or(&[][..], Vec::as_slice);
        let Some(&index) = way.get(usize::from(hop)) else {
            return self.deliver(to, packet);
        };
        if let Some(link) = self.links.get_mut(index as usize) {
            self.pool.enter_link(packet);
            link.arrive(self.now, packet, &mut self.pool);
            self.note_link(index);
        }
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, to: u32, packet: PacketId) -> Result<(), RunError> {
        let Some(taken) = self.pool.take(packet, &mut self.incoming) else {
            return Ok(());
        };
        let Some(datagram) = self.incoming.get_mut(..taken.len) else {
            return Ok(());
        };
        let Some(endpoint) = self.endpoints.get_mut(to as usize) else {
            self.edges.deliver(self.now, to, datagram, &self.links);
            taken.wipe(datagram);
            self.note_clouds();
            return Ok(());
        };
        let handled = endpoint.handle_datagram(self.now, taken, datagram);
        taken.wipe(datagram);
        handled.map_err(|source| self.connect_error(to, source))?;
        if !self.touched.contains(&to) {
            self.touched.push(to);
        }
        Ok(())
    }

    /// Sends what an endpoint has to send, and notes what it waits for.
    pub(super) fn flush(&mut self, index: u32) {
        let Some(label) = self.labels.get(index as usize).copied() else {
            return;
        };
        let mut shared = None;
        while let Some(endpoint) = self.endpoints.get_mut(index as usize)
            && let Some(transmit) = endpoint.poll_transmit(self.now, &mut self.outgoing)
        {
            let label = Label {
                flow_hash: endpoint.flow_hash(self.now, label.flow_hash),
                ..label
            };
            let batch = self.outgoing.get(..transmit.len).unwrap_or(&[]);
            for datagram in batch.chunks(transmit.segment_size.max(1)) {
                let label = Label {
                    ecn: transmit.ecn,
                    hop: 1,
                    ..label
                };
                let packet = self.pool.insert(label, datagram);
                let way = self.ways.get(label.to as usize);
                if let Some(&first) = way.and_then(|way| way.first())
                    && let Some(link) = self.links.get_mut(first as usize)
                {
                    link.arrive(self.now, packet, &mut self.pool);
                    self.agenda.set(first + 1, link.deadline());
                    shared = link.medium();
                }
            }
        }
        if let Some(medium) = shared {
            self.note_medium(medium);
        }
        if let Some(endpoint) = self.endpoints.get_mut(index as usize) {
            endpoint.settle(self.now);
        }
        self.note_finished(index);
        self.note_endpoint(index);
    }
}
