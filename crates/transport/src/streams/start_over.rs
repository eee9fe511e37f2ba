//! Streams that were opened, and written to, before a server that then wanted nothing of it (RFC
//! 9001 §4.6.2): the application's streams stay, and all of them is sent as if for the first time.

use super::{
    ConnectionFrames, Dir, PeerLimits, Schedule, SendCredit, StreamEvent, StreamId, Streams,
};
use super::{record::Turn, slot};

impl Streams {
    /// The peer has seen nothing of what was sent, and `limits` rule in place of those by which it
    /// was. To be called before anything was acknowledged or received, and after all packets that
    /// were sent were declared [lost](Self::on_lost). Streams beyond the new limits wait until the
    /// peer allows them.
    pub fn start_over(&mut self, limits: PeerLimits) {
        self.peer = limits;
        self.ready = None;
        self.credit = SendCredit::new(limits.max_data);
        self.due.remove(ConnectionFrames::DATA_BLOCKED);
        for (dir, max) in [
            (Dir::Bi, limits.max_streams_bidi),
            (Dir::Uni, limits.max_streams_uni),
        ] {
            if let Some(local) = self.local.get_mut(slot(dir))
                && local.start_over(max)
            {
                self.events.push_back(StreamEvent::Available(dir));
            }
        }
        self.schedule = Schedule::default();
        self.parked.clear();
        self.control.clear();
        for id in self.sorted_ids() {
            let credit = self.initial_credit(id);
            let is_allowed = self.is_allowed(id);
            self.any_held |= !is_allowed;
            if let Some(record) = self.records.get_mut(&id) {
                record.in_control = false;
                record.turn = if is_allowed { Turn::None } else { Turn::Held };
                if let Some(send) = record.send.as_mut() {
                    send.start_over(credit);
                }
            }
            self.settle_send(id);
            self.queue_control(id);
        }
    }

    /// Streams that the peer allows now are sent on.
    pub(super) fn release_held(&mut self) {
        self.any_held = false;
        for id in self.sorted_ids() {
            let is_allowed = self.is_allowed(id);
            let Some(record) = self.records.get_mut(&id) else {
                continue;
            };
            if record.turn != Turn::Held {
                continue;
            }
            if is_allowed {
                record.turn = Turn::None;
                self.settle_send(id);
                self.queue_control(id);
            } else {
                self.any_held = true;
            }
        }
    }

    /// The peer's limit allows the stream, or it is the peer's own.
    fn is_allowed(&self, id: StreamId) -> bool {
        let local = self.local.get(slot(id.dir()));
        id.initiator() != self.side || local.is_none_or(|local| id.index() < local.max())
    }
}
