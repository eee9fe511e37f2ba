//! Both ends of the FEEDBACK frame: counting for the peer, and calculating differences between the
//! frames that it returns. They show how often packets need to carry the signal, and the rate that
//! a later connection may request from routers.
//!
//! An epoch is identified by the number of the first packet that counts for it; earlier packets
//! don't count. The receiver begins an epoch when the sender migrates to another path or challenges
//! its path. The sender accepts an epoch that begins after its own last change of path, and no more
//! epochs than it has caused. Both sides therefore agree without a handshake.

use pathmark_cc::{Acked, Countable, Feedback, KnownPath};

use crate::{Arrived, Breach, Counters, Duration, Instant, Meter, Signal};

/// Number of times that an answer is repeated. Totals that change all the time don't need copies,
/// because the next difference includes the lost one. After a single question, however, nothing
/// changes.
const COPIES: u8 = 3;

/// The receiver's side, which counts the current path epoch.
#[derive(Debug)]
pub struct Counting {
    meter: Box<dyn Meter>,
    epoch: Option<u64>,
    returned: Option<Counters>,
    /// Number of repetitions for each change.
    copies: u8,
    /// Repetitions of the last change that are still to be sent.
    left: u8,
}

impl Counting {
    /// Begins a new epoch for packets with `signal`. The next packet identifies it.
    pub fn new(signal: &dyn Signal) -> Self {
        Self {
            meter: signal.meter(),
            epoch: None,
            returned: None,
            copies: if signal.asks_once() { COPIES } else { 0 },
            left: 0,
        }
    }

    /// Counts a 1-RTT packet that was decrypted for the first time, on the current path and as the
    /// first of its datagram.
    pub fn on_packet(&mut self, arrived: &Arrived<'_>) {
        if arrived.number >= *self.epoch.get_or_insert(arrived.number) {
            self.meter.on_packet(arrived);
        }
    }

    /// Returns the epoch and totals for a FEEDBACK frame if they have changed since the last frame,
    /// or if a repetition is due because that frame may be lost.
    pub fn poll(&self) -> Option<(u64, Counters)> {
        let counters = self.meter.counters()?;
        let due = self.left > 0 || self.returned != Some(counters);
        due.then_some((self.epoch?, counters))
    }

    /// Records that a FEEDBACK frame with `counters` was sent.
    pub fn on_sent(&mut self, counters: Counters) {
        self.left = if self.returned == Some(counters) {
            self.left.saturating_sub(1)
        } else {
            self.copies
        };
        self.returned = Some(counters);
    }
}

/// Number of rejected frames, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disbelieved {
    /// The counters aren't the signal's: their number is wrong, or a field is out of its range.
    pub form: u64,
    /// A total decreased.
    pub backwards: u64,
    /// More packets than were sent since the epoch began, or packets counted for a second time.
    pub packets: u64,
    /// Bytes or sums that are inconsistent with the packets.
    pub sums: u64,
    /// An epoch that begins with a packet that hasn't been sent yet.
    pub unsent_epochs: u64,
    /// A new epoch that this side didn't cause.
    pub uncalled_epochs: u64,
}

impl Disbelieved {
    /// Returns the total number of rejected frames.
    pub const fn total(&self) -> u64 {
        let counted = self.form + self.backwards + self.packets + self.sums;
        counted + self.unsent_epochs + self.uncalled_epochs
    }

    /// Returns the sums of both.
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

/// Maximum number of expected epochs: one for a new path, and those of its challenges.
const MOST_CALLED: u8 = 4;

/// Number of packets, and their bytes of UDP payload including the shim.
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

/// The sender's side, which checks the counters that the peer returned for the current path.
///
/// Since the peer can send any frame, each packet that was sent counts at most once: in a single
/// epoch, and only if it was sent after this epoch began. An epoch is accepted only if this side
/// did something to cause it.
#[derive(Debug)]
pub struct Returned {
    /// First packet number sent on this path.
    path_start: u64,
    /// Largest packet number sent with the signal.
    last_sent: Option<u64>,
    /// Packets sent with the signal on this path.
    sent: Amount,
    /// Size of the largest of these packets.
    longest: u64,
    /// Packets counted in finished epochs of this path.
    over: Amount,
    /// Packets counted in the current epoch.
    counted: Amount,
    /// Number of the packet that carried the newest frame.
    newest: Option<u64>,
    /// Epoch and totals of that frame.
    last: Option<(u64, Counters)>,
    /// New epochs that this side caused but hasn't seen yet.
    called: u8,
    disbelieved: Disbelieved,
}

impl Default for Returned {
    fn default() -> Self {
        Self::new()
    }
}

impl Returned {
    /// Creates the state before any packet or frame.
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

    /// Records that packet `number` was sent with the signal, in a datagram of `bytes`.
    pub const fn on_sent(&mut self, number: u64, bytes: u64) {
        self.last_sent = Some(number);
        self.sent.add(1, bytes);
        if bytes > self.longest {
            self.longest = bytes;
        }
    }

    /// Processes a frame from the peer's packet `number`, and returns the difference from the
    /// previous frame for the controller. Older frames and those of an epoch before this path are
    /// ignored. Impossible frames are counted.
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
        // A repeated answer doesn't contain anything new.
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
        // Each packet has a different number, so the numbers since the epoch began bound the
        // packets.
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

    /// Forgets all counts, because the connection left its path. `next` is the first packet number
    /// of the new path.
    pub fn on_path_change(&mut self, next: u64) {
        *self = Self {
            path_start: next,
            last_sent: self.last_sent,
            newest: self.newest,
            disbelieved: self.disbelieved,
            ..Self::new()
        };
    }

    /// Records that a challenge of the path was sent. The peer begins an epoch when it arrives.
    pub fn on_challenge(&mut self) {
        self.called = (self.called + 1).min(MOST_CALLED);
    }

    /// Returns the number of rejected frames.
    pub const fn disbelieved(&self) -> &Disbelieved {
        &self.disbelieved
    }

    /// Returns the epoch of the newest frame.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.last.as_ref().map(|(epoch, _)| *epoch)
    }

    /// Returns true if a FEEDBACK frame has arrived for this path.
    pub const fn has_feedback(&self) -> bool {
        self.last.is_some()
    }
}

/// How often packets carry the signal: counts those sent without it.
///
/// A shim takes bytes from every packet that carries it. If the controller needs fewer shims,
/// because no router answers or one answer per round trip is enough, most packets are sent without
/// a shim, and their data fills the space. Datagrams have the same size either way, so a batch can
/// mix them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cadence {
    /// Ack-eliciting packets since the last with the signal.
    without: u32,
    /// When the last packet with the signal was sent.
    last: Option<Instant>,
}

impl Cadence {
    /// Creates the state of a path that hasn't carried anything yet.
    pub const fn new() -> Self {
        Self {
            without: 0,
            last: None,
        }
    }

    /// Returns true if the next ack-eliciting packet is the `every`-th, or if no packet carried the
    /// signal for a round trip.
    pub fn due(&self, now: Instant, every: u32, srtt: Duration) -> bool {
        self.without.saturating_add(1) >= every
            || self
                .last
                .is_none_or(|last| now.saturating_since(last) >= srtt)
    }

    /// Records that an ack-eliciting packet was sent, with or without the signal.
    pub const fn on_sent(&mut self, now: Instant, signal: bool) {
        if signal {
            self.without = 0;
            self.last = Some(now);
        } else {
            self.without = self.without.saturating_add(1);
        }
    }
}

/// Size of a packet's IPv4 and UDP headers, which known rates include.
const HEADERS: u64 = 28;
/// A rate is measured over a smoothed round trip, but over at least this time.
const LEAST: Duration = Duration::from_millis(20);
/// A rate is only worth keeping if more than this arrives within a round trip, because roughly an
/// initial window (RFC 9002 §7.2) and a handshake arrive in any case.
const WORTH: u64 = 32_000;

/// Measures the highest rate at which data arrived, over a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalRate {
    /// Start of the period over which `bytes` counts.
    since: Option<Instant>,
    bytes: u64,
    /// Highest rate, in bytes of IP packets per second.
    most: u64,
    min_rtt: Duration,
}

impl ArrivalRate {
    /// Counts acknowledged packets, which have arrived since the previous ACK frame.
    pub fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.min_rtt = acked.min_rtt;
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        let bytes = acked
            .bytes
            .saturating_add(acked.packets.saturating_mul(HEADERS));
        self.bytes = self.bytes.saturating_add(bytes);
        let took = now.saturating_since(since);
        if took >= acked.srtt.max(LEAST) {
            let nanos = took.as_nanos().max(1);
            let rate = u128::from(self.bytes) * 1_000_000_000 / nanos;
            self.most = self.most.max(u64::try_from(rate).unwrap_or(u64::MAX));
            self.since = Some(now);
            self.bytes = 0;
        }
    }

    /// Returns the rate that a later connection may request.
    pub fn known(&self) -> Option<KnownPath> {
        let within = u128::from(self.most) * self.min_rtt.as_nanos() / 1_000_000_000;
        (within > u128::from(WORTH)).then_some(KnownPath {
            rate: self.most,
            rtt: Some(self.min_rtt),
        })
    }
}

#[cfg(test)]
mod tests {
    use pathmark_cc::PacketState;

    use super::*;

    /// Returns which of `count` packets, one per millisecond, carry the signal.
    fn sent(every: u32, srtt: u64, count: u64) -> Vec<u64> {
        let mut cadence = Cadence::new();
        (0..count)
            .filter(|&n| {
                let now = Instant::from_millis(n);
                let due = cadence.due(now, every, Duration::from_millis(srtt));
                cadence.on_sent(now, due);
                due
            })
            .collect()
    }

    #[test]
    fn each_nth_packet_bears_it() {
        assert_eq!(sent(1, 1000, 4), [0, 1, 2, 3]);
        assert_eq!(sent(0, 1000, 3), [0, 1, 2]);
        assert_eq!(sent(4, 1000, 12), [0, 4, 8]);
    }

    #[test]
    fn no_round_trip_goes_by_without_it() {
        assert_eq!(sent(u32::MAX, 5, 14), [0, 5, 10]);
        assert_eq!(sent(4, 3, 8), [0, 3, 6]);
    }

    fn acked(bytes: u64, rtt: Duration) -> Acked {
        Acked {
            bytes,
            packets: bytes / 1000,
            marked: 0,
            largest: 0,
            sent_at: Instant::ZERO,
            state: PacketState::default(),
            rtt: Some(rtt),
            forward_delay: None,
            srtt: rtt,
            min_rtt: rtt,
            in_flight_before: bytes,
            window_limited: true,
        }
    }

    /// Acknowledges `bytes` each millisecond from `from` until `until`, with round trips of 50 ms.
    fn run(rate: &mut ArrivalRate, from: u64, until: u64, bytes: u64) {
        for millis in from..until {
            let rtt = Duration::from_millis(50);
            rate.on_ack(Instant::from_millis(millis), &acked(bytes, rtt));
        }
    }

    #[test]
    fn it_is_the_most_of_any_round_trip_with_headers() {
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 49, 1_000_000);
        assert_eq!(rate.known(), None, "no round trip yet");
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 500, 2000);
        run(&mut rate, 500, 1001, 5000);
        run(&mut rate, 1001, 3000, 1000);
        let known = rate.known().unwrap();
        assert_eq!(known.rate, 5 * 1028 * 1000);
        assert_eq!(known.rtt, Some(Duration::from_millis(50)));
    }

    #[test]
    fn what_the_first_window_carries_is_not_kept_and_nothing_overflows() {
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 500, 600);
        assert_eq!(rate.known(), None);
        for at in [0, 1, u64::MAX / 2_000_000] {
            let acked = acked(u64::MAX, Duration::from_secs(u64::MAX / 4_000_000_000));
            rate.on_ack(Instant::from_millis(at), &acked);
        }
        let _ = rate.known();
    }
}
