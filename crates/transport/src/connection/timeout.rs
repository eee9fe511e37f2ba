//! Processing of deadlines.

use super::ConnectionError;
use super::receive::Receiving;
use super::timers::Timer;
use crate::wire::SpaceId;

impl Receiving<'_> {
    /// Performs everything that is due.
    pub(super) fn timeout(&mut self) {
        let now = self.now;
        while let Some(timer) = self.lifecycle.timers.take_due(now) {
            self.on_timer(timer);
        }
        if !self.lifecycle.is_open() {
            return;
        }
        // Losses by timeout are removed one space at a time. After a probe timeout, packets must be
        // sent before the next one is calculated, even if the backoff is at its limit.
        for _ in 0..8 {
            if self.spaces.recovery.deadline().is_none_or(|at| at > now) {
                break;
            }
            let probes = self.spaces.recovery.pto_count();
            if let Some(later) = self.fates().on_timeout() {
                let timers = &mut self.lifecycle.timers;
                timers.set(Timer::SecondProbe, now + later);
            }
            if self.spaces.recovery.pto_count() != probes {
                break;
            }
        }
        let others = self.spaces.others(&mut self.sources.control.remote_ids);
        let moved = self.paths.check_validation(now, others);
        let path = &self.paths.path;
        self.sources.on_move(moved, path, self.outbox);
        self.spaces.keys.on_time(now);
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            // This only requires the next poll_transmit.
            Timer::Pacing => {}
            Timer::Idle => self.lose(ConnectionError::TimedOut),
            Timer::KeepAlive => {
                let established = self.sources.handshake.is_complete() && self.lifecycle.is_open();
                let wanted = self.lifecycle.keeps_alive()
                    || self.sources.streams.limit() == pathmark_cc::Limit::Peer;
                self.sources.control.ping |= established && wanted;
            }
            Timer::Close => {
                self.lifecycle.forget();
                self.sources.control.remove_ids(self.outbox);
            }
            Timer::Handshake => self.lose(ConnectionError::HandshakeTimedOut),
            Timer::SecondProbe => self.probe_again(),
        }
    }

    /// Sends the second probe unless the peer has answered.
    fn probe_again(&mut self) {
        let path = &self.paths.path;
        let limit = path.route.probe_limit(self.spaces.recovery.pto_count());
        if self.spaces.second_probe(limit) == Some(SpaceId::Data) {
            self.sources.fill_data_probe(self.now, self.spaces, path);
        }
    }
}
