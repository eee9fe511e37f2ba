//! Both ends of the FEEDBACK frame: counting for the peer, and taking differences of what it returns.
//!
//! An epoch is named by a packet number: that of the first packet counted. The receiver begins one whenever the
//! sender seems to come by another path (migration, NAT rebinding); the sender believes epochs that begin after
//! its own last change of path. So both agree without a handshake, whoever noticed what.

use pathmark_cc::Feedback;

use crate::{Arrived, Counters, Meter, Signal};

/// The receiver's side: counts the present path epoch.
#[derive(Debug)]
pub struct Counting {
    meter: Box<dyn Meter>,
    epoch: Option<u64>,
    returned: Option<Counters>,
}

impl Counting {
    /// A new epoch with a fresh `meter`; its name is the first packet to come.
    #[must_use]
    pub const fn new(meter: Box<dyn Meter>) -> Self {
        Self {
            meter,
            epoch: None,
            returned: None,
        }
    }

    /// 1-RTT packet `number` opened, for the first time, on the current path, as the first of its datagram.
    #[inline]
    pub fn on_packet(&mut self, number: u64, arrived: &Arrived<'_>) {
        self.epoch.get_or_insert(number);
        self.meter.on_packet(arrived);
    }

    /// Bytes that are about to arrive in each round trip, see [`Meter::expected`].
    #[inline]
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        self.meter.expected()
    }

    /// Epoch and totals for a FEEDBACK frame, if they tell more than the last one sent.
    #[must_use]
    pub fn poll(&self) -> Option<(u64, Counters)> {
        let counters = self.meter.counters()?;
        (self.returned != Some(counters)).then_some((self.epoch?, counters))
    }

    /// A FEEDBACK frame with `counters` was sent.
    pub const fn on_sent(&mut self, counters: Counters) {
        self.returned = Some(counters);
    }
}

/// The sender's side: what the peer returned of the present path.
#[derive(Debug, Default)]
pub struct Returned {
    /// First packet number sent on this path.
    path_start: u64,
    /// Largest packet number sent with the signal.
    last_sent: Option<u64>,
    /// Packets sent with the signal on this path.
    sent: u64,
    /// Number of the packet that carried the newest frame.
    newest: Option<u64>,
    /// Epoch and totals of that frame.
    last: Option<(u64, Counters)>,
    bad: u64,
}

impl Returned {
    /// Nothing sent, nothing returned.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Packet `number` was sent with the signal.
    #[inline]
    pub const fn on_sent(&mut self, number: u64) {
        self.last_sent = Some(number);
        self.sent += 1;
    }

    /// A frame arrived in the peer's packet `number`. The difference to what was known goes to the controller.
    /// Frames that are older, or of an epoch before this path, are ignored; impossible ones are counted.
    pub fn on_frame(
        &mut self,
        number: u64,
        epoch: u64,
        counters: &Counters,
        signal: &dyn Signal,
    ) -> Option<Feedback> {
        let known = self.last.as_ref().map_or(0, |(epoch, _)| *epoch);
        if self.newest.is_some_and(|n| number <= n) || epoch < self.path_start.max(known) {
            return None;
        }
        if self.last_sent.is_none_or(|last| epoch > last) {
            self.bad += 1;
            return None;
        }
        let older = self
            .last
            .as_ref()
            .filter(|(known, _)| *known == epoch)
            .map(|(_, counters)| counters);
        match signal.difference(older, counters, self.sent) {
            Ok(feedback) => {
                self.newest = Some(number);
                self.last = Some((epoch, *counters));
                Some(feedback)
            }
            Err(_) => {
                self.bad += 1;
                None
            }
        }
    }

    /// The connection left its path; `next` is the first packet number of the new one. What was counted before
    /// is forgotten.
    pub const fn on_path_change(&mut self, next: u64) {
        self.path_start = next;
        self.sent = 0;
        self.last = None;
    }

    /// Frames that could not be.
    #[must_use]
    pub const fn bad(&self) -> u64 {
        self.bad
    }

    /// True if something has come back on this path.
    #[must_use]
    pub const fn heard(&self) -> bool {
        self.last.is_some()
    }
}
