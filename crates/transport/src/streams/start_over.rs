//! Streams that were opened, and written to, before a server that then wanted nothing of it (RFC
//! 9001 §4.6.2): the application's streams stay, and all of them is sent as if for the first time.

use std::collections::VecDeque;

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
        self.held = Default::default();
        for id in self.sorted_ids() {
            let credit = self.initial_credit(id);
            let is_allowed = self.is_allowed(id);
            if let (false, Some(held)) = (is_allowed, self.held.get_mut(slot(id.dir()))) {
                held.push_back(id);
            }
            if let Some(record) = self.records.get_mut(&id) {
                record.in_control = false;
                record.in_parked = false;
                record.turn = if is_allowed { Turn::None } else { Turn::Held };
                if let Some(send) = record.send.as_mut() {
                    send.start_over(credit);
                }
            }
            self.settle_send(id);
            self.queue_control(id);
        }
    }

    /// Streams that the peer allows now are sent on. No others are looked at, however often the
    /// peer's limits arrive.
    pub(super) fn release_held(&mut self, dir: Dir) {
        while let Some(&id) = self.held.get(slot(dir)).and_then(VecDeque::front)
            && self.is_allowed(id)
        {
            if let Some(held) = self.held.get_mut(slot(dir)) {
                held.pop_front();
            }
            if let Some(record) = self.records.get_mut(&id)
                && record.turn == Turn::Held
            {
                record.turn = Turn::None;
                self.settle_send(id);
                self.queue_control(id);
            }
        }
    }

    /// The peer's limit allows the stream, or it is the peer's own.
    fn is_allowed(&self, id: StreamId) -> bool {
        let local = self.local.get(slot(id.dir()));
        id.initiator() != self.side || local.is_none_or(|local| id.index() < local.max())
    }
}
