//! Both ends of the FEEDBACK frame: counting for the peer, and taking differences of what it
//! returns.
//!
//! An epoch is named by a packet number: that of the first packet counted, and none from before it
//! counts. The receiver begins one when the sender moves to another path, or challenges its path.
//! The sender believes an epoch that begins after its own last change of path, and as many as it
//! has called for. So both agree without a handshake.

use pathmark_cc::{Countable, Feedback};

use crate::{Arrived, Breach, Counters, Meter, Signal};

/// An answer to a question goes back so often again. Totals that move all the time need no copies:
/// the next difference holds what was lost. After one question nothing moves.
const COPIES: u8 = 3;

/// The receiver's side: counts the present path epoch.
#[derive(Debug)]
pub struct Counting {
    meter: Box<dyn Meter>,
    epoch: Option<u64>,
    returned: Option<Counters>,
    /// Frames for each change, after the first.
    copies: u8,
    /// Those of the last change that are still to be sent.
    left: u8,
}

impl Counting {
    /// A new epoch of what the peer sends with `signal`; its name is the first packet to come.
    #[must_use]
    pub fn new(signal: &dyn Signal) -> Self {
        Self {
            meter: signal.meter(),
            epoch: None,
            returned: None,
            copies: if signal.asks_once() { COPIES } else { 0 },
            left: 0,
        }
    }

    /// A 1-RTT packet opened, for the first time, on the current path, as the first of its
    /// datagram.
    #[inline]
    pub fn on_packet(&mut self, arrived: &Arrived<'_>) {
        if arrived.number >= *self.epoch.get_or_insert(arrived.number) {
            self.meter.on_packet(arrived);
        }
    }

    /// Epoch and totals for a FEEDBACK frame, if they tell more than the last one sent, or it may
    /// be lost.
    #[must_use]
    pub fn poll(&self) -> Option<(u64, Counters)> {
        let counters = self.meter.counters()?;
        let due = self.left > 0 || self.returned != Some(counters);
        due.then_some((self.epoch?, counters))
    }

    /// A FEEDBACK frame with `counters` was sent.
    pub fn on_sent(&mut self, counters: Counters) {
        self.left = if self.returned == Some(counters) {
            self.left.saturating_sub(1)
        } else {
            self.copies
        };
        self.returned = Some(counters);
    }
}

/// Frames that were not believed, by what was wrong with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disbelieved {
    /// Not the signal's counters: their number, or a field out of its range.
    pub form: u64,
    /// A total fell.
    pub backwards: u64,
    /// More packets than were sent since the epoch began, or counted a second time.
    pub packets: u64,
    /// Bytes or sums that do not fit the packets.
    pub sums: u64,
    /// An epoch that begins with a packet which was not sent yet.
    pub unsent_epochs: u64,
    /// A new epoch, and nothing that this side did called for one.
    pub uncalled_epochs: u64,
}

impl Disbelieved {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let counted = self.form + self.backwards + self.packets + self.sums;
        counted + self.unsent_epochs + self.uncalled_epochs
    }

    /// Both together.
    pub(crate) const fn plus(self, other: &Self) -> Self {
        Self {
            form: self.form + other.form,
            backwards: self.backwards + other.backwards,
            packets: self.packets + other.packets,
            sums: self.sums + other.sums,
            unsent_epochs: self.unsent_epochs + other.unsent_epochs,
            uncalled_epochs: self.uncalled_epochs + other.uncalled_epochs,
        }
    }

    const fn count(&mut self, breach: Breach) {
        *match breach {
            Breach::Form => &mut self.form,
            Breach::Backwards => &mut self.backwards,
            Breach::Packets => &mut self.packets,
            Breach::Sum => &mut self.sums,
        } += 1;
    }
}

/// Most epochs that may be waited for at a time: that of a new path, and those of its challenges.
const MOST_CALLED: u8 = 4;

/// Packets, and their bytes of UDP payload with the shim.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    packets: u64,
    bytes: u64,
}

impl Amount {
    const fn add(&mut self, packets: u64, bytes: u64) {
        self.packets = self.packets.saturating_add(packets);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn less(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// The sender's side: what the peer returned of the present path.
///
/// The frames are the peer's word. Each packet that was sent counts once at most, whatever they
/// say: in one epoch, and there only if it was sent since that one began. An epoch begins because
/// of something that this side did, or not at all.
#[derive(Debug)]
pub struct Returned {
    /// First packet number sent on this path.
    path_start: u64,
    /// Largest packet number sent with the signal.
    last_sent: Option<u64>,
    /// Sent with the signal on this path.
    sent: Amount,
    /// The longest of these packets.
    longest: u64,
    /// Counted in epochs of this path that are over.
    over: Amount,
    /// Counted in the present epoch.
    counted: Amount,
    /// Number of the packet that carried the newest frame.
    newest: Option<u64>,
    /// Epoch and totals of that frame.
    last: Option<(u64, Counters)>,
    /// New epochs that this side called for and has not seen yet.
    called: u8,
    disbelieved: Disbelieved,
}

impl Default for Returned {
    fn default() -> Self {
        Self::new()
    }
}

impl Returned {
    /// Nothing sent, nothing returned.
    #[must_use]
    pub fn new() -> Self {
        Self {
            path_start: 0,
            last_sent: None,
            sent: Amount::default(),
            longest: 0,
            over: Amount::default(),
            counted: Amount::default(),
            newest: None,
            last: None,
            called: 1,
            disbelieved: Disbelieved::default(),
        }
    }

    /// Packet `number` was sent with the signal, in a datagram of `bytes`.
    #[inline]
    pub const fn on_sent(&mut self, number: u64, bytes: u64) {
        self.last_sent = Some(number);
        self.sent.add(1, bytes);
        if bytes > self.longest {
            self.longest = bytes;
        }
    }

    /// A frame arrived in the peer's packet `number`. The difference to what was known goes to the
    /// controller. Frames that are older, or of an epoch before this path, are ignored; impossible
    /// ones are counted.
    pub fn on_frame(
        &mut self,
        number: u64,
        epoch: u64,
        counters: &Counters,
        signal: &dyn Signal,
    ) -> Option<Feedback> {
        let known = self.last.as_ref().map(|(epoch, _)| *epoch);
        let least = self.path_start.max(known.unwrap_or(0));
        if self.newest.is_some_and(|n| number <= n) || epoch < least {
            return None;
        }
        // An answer that was sent again contains nothing new.
        if signal.asks_once() && self.last == Some((epoch, *counters)) {
            return None;
        }
        let Some(last_sent) = self.last_sent.filter(|&last| epoch <= last) else {
            self.disbelieved.unsent_epochs += 1;
            return None;
        };
        let (older, over, mut counted) = match &self.last {
            Some((known, counters)) if *known == epoch => (Some(counters), self.over, self.counted),
            _ if self.called == 0 => {
                self.disbelieved.uncalled_epochs += 1;
                return None;
            }
            _ => {
                let mut over = self.over;
                over.add(self.counted.packets, self.counted.bytes);
                (None, over, Amount::default())
            }
        };
        let left = self.sent.less(over);
        // A packet has one number, so no more were sent since the epoch began than there are
        // numbers.
        let packets = left.packets.min(last_sent - epoch + 1);
        let most = Countable {
            packets,
            bytes: left.bytes.min(packets.saturating_mul(self.longest)),
            longest: self.longest,
        };
        match signal.difference(older, counters, &most) {
            Ok(feedback) => {
                let (packets, bytes) = feedback.counted();
                counted.add(packets, bytes);
                if older.is_none() {
                    self.called -= 1;
                }
                self.over = over;
                self.counted = counted;
                self.newest = Some(number);
                self.last = Some((epoch, *counters));
                Some(feedback)
            }
            Err(bad) => {
                self.disbelieved.count(bad.breach);
                None
            }
        }
    }

    /// The connection left its path; `next` is the first packet number of the new one. What was
    /// counted before is forgotten.
    pub fn on_path_change(&mut self, next: u64) {
        *self = Self {
            path_start: next,
            last_sent: self.last_sent,
            newest: self.newest,
            disbelieved: self.disbelieved,
            ..Self::new()
        };
    }

    /// A challenge of the path was sent: the peer begins an epoch when it comes.
    pub fn on_challenge(&mut self) {
        self.called = (self.called + 1).min(MOST_CALLED);
    }

    /// Frames that were not believed.
    #[must_use]
    pub const fn disbelieved(&self) -> &Disbelieved {
        &self.disbelieved
    }

    /// The epoch of the newest frame.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.last.as_ref().map(|(epoch, _)| *epoch)
    }

    /// True if a FEEDBACK frame has arrived for this path.
    #[must_use]
    pub const fn has_feedback(&self) -> bool {
        self.last.is_some()
    }
}
