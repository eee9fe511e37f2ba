//! Timers: what is due, and the next deadline.

use super::spaces::PacketSpaces;
use super::timers::Timer;
use super::{Connection, ConnectionError};
use crate::Instant;
use crate::wire::SpaceId;

/// The earlier of two deadlines.
#[inline]
fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Connection {
    /// Does what is due at `now`: call it at or after [`deadline`](Self::deadline). Early calls do
    /// no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.lifecycle.timers_mut().take_due(now) {
            match timer {
                // Nothing but the next poll_transmit has to happen.
                Timer::Pacing => {}
                Timer::Idle => self.lose(now, ConnectionError::TimedOut),
                Timer::KeepAlive => {
                    if self.lifecycle.is_open() && self.is_complete() {
                        self.control.ping = true;
                    }
                }
                Timer::Close => self.forget(),
                Timer::Handshake => self.lose(now, ConnectionError::HandshakeTimedOut),
                Timer::SecondProbe => self.probe_again(now),
            }
        }
        if !self.lifecycle.is_open() {
            return;
        }
        // Losses by time are taken out, space by space. A probe timeout asks for packets; the next
        // one counts from those, also where it has backed off as far as it may.
        for _ in 0..8 {
            if self.spaces.recovery().deadline().is_none_or(|at| at > now) {
                break;
            }
            let probes = self.spaces.recovery().pto_count();
            self.on_recovery_timeout(now);
            if self.spaces.recovery().pto_count() != probes {
                break;
            }
        }
        let (paths, others) = self.paths();
        let moved = paths.check_validation(now, others);
        self.on_move(moved);
        self.spaces.keys_mut().on_time(now);
    }

    /// The earliest of all deadlines.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if !self.lifecycle.is_open() {
            return self.lifecycle.timers().next();
        }
        // What only poll_transmit can do and what it could not do just now (the amplification limit
        // forbids it, say) waits for something else.
        let polled_at = self.lifecycle.timers().polled_at();
        let next = sooner(
            self.spaces.deadline(polled_at),
            self.paths.deadline(polled_at),
        );
        sooner(next, self.lifecycle.timers().next())
    }

    /// A probe timeout fired in `space`: there must be something to send, best what is missing the
    /// longest.
    pub(super) fn prepare_probes(&mut self, now: Instant, space: SpaceId) {
        self.repeat_early_data();
        let later = self.spaces.begin_probes(space);
        let timers = self.lifecycle.timers_mut();
        timers.set(Timer::SecondProbe, now + later);
        if space == SpaceId::Data {
            self.fill_data_probe(now);
        }
    }

    /// The second probe is due: it leaves if nothing has come back.
    fn probe_again(&mut self, now: Instant) {
        let count = self.spaces.recovery().pto_count();
        let limit = self.paths.path().probe_limit(count);
        if self.spaces.second_probe(limit) == Some(SpaceId::Data) {
            self.fill_data_probe(now);
        }
    }

    /// What a probe of the Data space is to carry. A client's holds a PING in any case: where a NAT
    /// has rebound, a server follows no packet that has probing frames alone (RFC 9000 §9.1), as
    /// repeats of NEW_CONNECTION_ID are, and its answers go to the address before.
    fn fill_data_probe(&mut self, now: Instant) {
        if self.handshake.can_send(SpaceId::Data) {
            return;
        }
        self.control.ping |= self.side.is_client();
        let again = self.spaces.probes_again();
        if again {
            self.streams.repeat_first(u64::from(self.mtu()));
            self.streams.serve_lowest_first();
        }
        if again || !self.wants_data(now) {
            self.repeat_oldest(SpaceId::Data, 0, PacketSpaces::PROBES);
        }
    }

    /// Each probe of a handshake carries what is missing, also if another has just carried it: the
    /// handshake cannot go on without, and a server may refuse a client whose first packet to
    /// arrive has no CRYPTO frame. That is one datagram, and two for each timeout (RFC 9002
    /// §6.2.4): of a flight of several packets the second probe carries the second, together with
    /// what is missing of the other packet number space.
    pub(super) fn fill_probe(&mut self, space: SpaceId) {
        if space != SpaceId::Data
            && let Some(later) = self.spaces.probe_index(space)
            && !self.handshake.can_send(space)
        {
            self.repeat_oldest(space, later.into(), 1);
        }
    }

    /// What the oldest packets carried is due again: those from place `from` on, `packets` of them.
    /// In a handshake only those with CRYPTO frames count.
    fn repeat_oldest(&mut self, space: SpaceId, from: usize, packets: usize) {
        for packet in self.spaces.repeatable(space).skip(from).take(packets) {
            self.streams.on_lost(&packet.frames.streams);
            for range in packet.frames.crypto() {
                self.handshake.on_loss(space, range.clone());
            }
            for frame in packet.frames.control() {
                self.control.on_lost(*frame);
            }
        }
    }
}
