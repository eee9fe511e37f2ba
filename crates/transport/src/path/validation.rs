//! How far an address is validated (RFC 9000 §8): the challenges on a path (§8.2), and the limit on
//! the bytes sent to an address before that (§8.1).

use crate::{Duration, Instant};

/// Number of challenges, one probe timeout apart, before validation fails (RFC 9000 §8.2.4).
const ATTEMPTS: usize = 3;
/// Maximum number of responses owed. A peer that floods us with challenges gets only the latest
/// answered.
const MAX_RESPONSES: usize = 4;

/// Content of PATH_CHALLENGE and PATH_RESPONSE.
type Data = [u8; 8];

/// Result of a successful validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validated {
    /// Time from the challenge to its response, which is a first estimate of the path's RTT.
    pub rtt: Duration,
    /// Whether the challenge filled a datagram of 1200 bytes. If it didn't, you must validate again
    /// with a challenge that does, because the path may be too narrow (RFC 9000 §8.2.1).
    pub full_size: bool,
}

#[derive(Clone, Copy, Debug)]
struct Challenge {
    data: Data,
    sent_at: Instant,
    full_size: bool,
}

/// One attempt to validate a path, from the first challenge until a response or a failure.
#[derive(Clone, Debug)]
pub struct PathValidation {
    challenges: [Option<Challenge>; ATTEMPTS],
    sent: usize,
    next_at: Instant,
    period: Duration,
    /// When the attempt ends, whether or not challenges could be sent.
    ends_at: Instant,
}

impl PathValidation {
    /// Starts an attempt at `now`. `pto` is the larger of the current probe timeout and the probe
    /// timeout of an unknown path (RFC 9000 §8.2.4).
    pub fn new(now: Instant, pto: Duration) -> Self {
        Self {
            challenges: [None; ATTEMPTS],
            sent: 0,
            next_at: now,
            period: pto,
            ends_at: now + pto * 3,
        }
    }

    /// Delays the next challenge until a period after `last`, when a previous attempt challenged
    /// the path. The end is delayed accordingly.
    pub fn wait_since(&mut self, last: Instant) {
        self.next_at = self.next_at.max(last + self.period);
        self.ends_at = self.next_at + self.period * 3;
    }

    /// Returns true if a PATH_CHALLENGE with fresh random data should be sent.
    pub fn wants_challenge(&self, now: Instant) -> bool {
        self.sent < ATTEMPTS && now >= self.next_at && !self.failed(now)
    }

    /// Records that a PATH_CHALLENGE with `data`, which was drawn at random for it, was sent.
    pub fn on_challenge_sent(&mut self, now: Instant, data: Data, full_size: bool) {
        if let Some(slot) = self.challenges.get_mut(self.sent) {
            *slot = Some(Challenge {
                data,
                sent_at: now,
                full_size,
            });
            self.sent += 1;
        }
        self.next_at = now + self.period;
    }

    /// Processes a PATH_RESPONSE, which may arrive on any path (RFC 9000 §8.2.3). Returns `None` if
    /// it doesn't answer one of our challenges.
    pub fn on_response(&self, now: Instant, data: Data) -> Option<Validated> {
        // [9000 8.2.2 any-path]
        let challenge = self.challenges.iter().flatten().find(|c| c.data == data)?;
        Some(Validated {
            rtt: now - challenge.sent_at,
            full_size: challenge.full_size,
        })
    }

    /// Returns when the next challenge is due, if there's another challenge.
    pub fn next_challenge(&self) -> Option<Instant> {
        (self.sent < ATTEMPTS && self.next_at < self.ends_at).then_some(self.next_at)
    }

    /// Returns when [`failed`](Self::failed) becomes true.
    pub const fn deadline(&self) -> Instant {
        self.ends_at
    }

    /// Returns true after three periods without a response, because the path isn't usable (RFC 9000
    /// §8.2.4). This includes the case in which the amplification limit prevented every challenge.
    pub fn failed(&self, now: Instant) -> bool {
        now >= self.ends_at
    }
}

/// A PATH_RESPONSE to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// Content of the challenge.
    pub data: Data,
    /// Whether the challenge filled a datagram of 1200 bytes, as the response then must (RFC 9000
    /// §8.2.2). Responses to smaller challenges are small, so that these can't cause a flood of
    /// large responses.
    pub full_size: bool,
}

/// PATH_RESPONSEs owed to one path. If there are too many, the oldest are dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathResponses {
    owed: [Owed; MAX_RESPONSES],
    len: usize,
}

impl PathResponses {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self {
            owed: [Owed {
                data: [0; 8],
                full_size: false,
            }; MAX_RESPONSES],
            len: 0,
        }
    }

    /// Queues the response to a PATH_CHALLENGE.
    pub fn on_challenge(&mut self, data: Data, full_size: bool) {
        if self.owed.iter().take(self.len).any(|d| d.data == data) {
            return;
        }
        if self.len == MAX_RESPONSES {
            self.owed.rotate_left(1);
            self.len -= 1;
        }
        if let Some(slot) = self.owed.get_mut(self.len) {
            // [9000 8.2.2 echo]
            *slot = Owed { data, full_size };
            self.len += 1;
        }
    }

    /// Returns the next response, to be sent on the path of its challenge. It is sent only once,
    /// because the peer repeats its challenges.
    pub fn pop(&mut self) -> Option<Owed> {
        if self.len == 0 {
            return None;
        }
        let [owed, ..] = self.owed;
        // [9000 8.2.2 one-response]
        self.owed.rotate_left(1);
        self.len -= 1;
        Some(owed)
    }

    /// Returns true if no response is owed.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An address that isn't validated yet gets at most this many times the bytes received from it.
const FACTOR: u64 = 3;

/// Bytes of UDP payload that may be sent to one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmplificationLimit {
    validated: bool,
    /// Whether the limit is lifted, because the peer receives the packets sent to the address.
    lifted: bool,
    /// Bytes that may be sent in addition to three times those received.
    lent: u64,
    received: u64,
    sent: u64,
}

impl AmplificationLimit {
    /// Creates the limit for an address that someone else may have forged.
    pub const fn new() -> Self {
        Self::lending(0)
    }

    /// Creates the limit for another port of a host known to be the peer's. Up to `bytes` may be
    /// sent there in addition to three times those received.
    pub const fn lending(bytes: u64) -> Self {
        Self {
            validated: false,
            lifted: false,
            lent: bytes,
            received: 0,
            sent: 0,
        }
    }

    /// Creates an unlimited state, for an address known to be the peer's.
    pub const fn validated() -> Self {
        Self {
            validated: true,
            lifted: true,
            lent: 0,
            received: 0,
            sent: 0,
        }
    }

    /// Limits the sender again after a packet from the validated address that the peer had left,
    /// because someone else may have forged this packet (RFC 9000 §9.3). Until the peer proves that
    /// it is back, up to `bytes` may be sent in addition to three times those received from now on.
    /// Further returns without proof don't add anything. Returns true if there was no limit before.
    pub const fn lend(&mut self, bytes: u64) -> bool {
        let was_lifted = self.lifted;
        if was_lifted {
            *self = Self::lending(bytes);
            self.validated = true;
        }
        was_lifted
    }

    /// Counts a datagram received from the address.
    pub const fn on_received(&mut self, bytes: u64) {
        self.received = self.received.saturating_add(bytes);
    }

    /// Counts a datagram sent to the address.
    pub const fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Lifts the limit, because the address is proven to be the peer's. The proof is a token, a
    /// Handshake packet, a PATH_RESPONSE or, if the address was validated before, an
    /// acknowledgement.
    pub const fn validate(&mut self) {
        self.validated = true;
        self.lifted = true;
    }

    /// Returns true if there's no limit.
    pub const fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// Returns true if the address was validated.
    pub const fn is_validated(&self) -> bool {
        self.validated
    }

    /// Returns the number of bytes that may still be sent.
    pub const fn available(&self) -> u64 {
        if self.lifted {
            u64::MAX
        } else {
            self.received
                // [9000 8 amplification]
                .saturating_mul(FACTOR)
                .saturating_add(self.lent)
                .saturating_sub(self.sent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_challenges_and_any_answer_counts() {
        // [9000 8.2.2 any-path]
        let pto = Duration::from_secs(1);
        let at = |s: u64| Instant::from_millis(1000 * s);
        let mut v = PathValidation::new(at(0), pto);
        assert!(v.wants_challenge(at(0)));
        v.on_challenge_sent(at(0), [1; 8], false);
        assert!(!v.wants_challenge(at(0)));
        for n in 1..3u8 {
            let next = v.next_challenge().unwrap();
            assert!(v.wants_challenge(next) && !v.failed(next));
            v.on_challenge_sent(next, [n + 1; 8], true);
        }
        assert_eq!(v.next_challenge(), None);
        assert!(!v.wants_challenge(at(2)));
        assert_eq!(v.on_response(at(2), [9; 8]), None);
        let (rtt, full_size) = (2 * pto, false);
        let validated = Some(Validated { rtt, full_size });
        assert_eq!(v.on_response(at(2), [1; 8]), validated);
        assert!(v.on_response(at(2), [3; 8]).is_some_and(|v| v.full_size));
        assert!(!v.failed(at(2)) && v.failed(at(3)));
    }

    #[test]
    fn it_ends_although_nothing_could_be_sent() {
        let v = PathValidation::new(Instant::ZERO, Duration::from_secs(1));
        assert!(v.wants_challenge(Instant::from_millis(2999)));
        assert_eq!(v.next_challenge(), Some(Instant::ZERO));
        assert_eq!(v.deadline(), Instant::from_millis(3000));
        assert!(v.failed(v.deadline()) && !v.wants_challenge(v.deadline()));
    }

    /// A challenge may be sent so late that the next one would be due after the end.
    #[test]
    fn no_challenge_is_due_at_the_end() {
        let mut v = PathValidation::new(Instant::ZERO, Duration::from_secs(1));
        v.on_challenge_sent(Instant::from_millis(1999), [1; 8], true);
        assert_eq!(v.next_challenge(), Some(Instant::from_millis(2999)));
        let mut v = PathValidation::new(Instant::ZERO, Duration::from_secs(1));
        v.on_challenge_sent(Instant::from_millis(2000), [1; 8], true);
        assert_eq!(v.next_challenge(), None);
        assert!(!v.failed(Instant::from_millis(2999)));
    }

    /// A response to a fourth challenge, which the sender shouldn't send, doesn't count.
    #[test]
    fn more_challenges_than_three_are_not_remembered() {
        let now = Instant::ZERO;
        let mut v = PathValidation::new(now, Duration::from_secs(1));
        for n in 0..4 {
            v.on_challenge_sent(now, [n; 8], true);
        }
        assert_eq!(v.next_challenge(), None);
        assert!(!v.wants_challenge(Instant::from_millis(1500)));
        let mut answered = vec![0, 1, 2, 3];
        answered.retain(|n| v.on_response(now, [*n; 8]).is_some());
        assert_eq!(answered, [0, 1, 2]);
    }

    #[test]
    fn responses_keep_the_size_of_their_challenges() {
        // [9000 8.2.2 echo]
        let mut owed = PathResponses::new();
        owed.on_challenge([1; 8], true);
        owed.on_challenge([2; 8], false);
        assert!(!owed.is_empty());
        let sizes = core::iter::from_fn(|| owed.pop()).map(|owed| (owed.data[0], owed.full_size));
        assert_eq!(sizes.collect::<Vec<_>>(), [(1, true), (2, false)]);
    }

    #[test]
    fn a_flood_of_challenges_is_bounded() {
        // [9000 8.2.2 one-response]
        let mut owed = PathResponses::new();
        for n in 0..100 {
            owed.on_challenge([n; 8], true);
            owed.on_challenge([n; 8], false);
        }
        let sent = core::iter::from_fn(|| owed.pop()).map(|o| o.data[0]);
        assert_eq!(sent.collect::<Vec<_>>(), [96, 97, 98, 99]);
        assert!(owed.is_empty());
    }

    #[test]
    fn three_times_what_came() {
        // [9000 8 amplification]
        let mut limit = AmplificationLimit::new();
        assert_eq!(limit.available(), 0);
        limit.on_received(1200);
        limit.on_sent(3000);
        assert_eq!(limit.available(), 600);
        limit.on_sent(1200);
        assert_eq!(limit.available(), 0);
        limit.on_received(u64::MAX);
        assert_eq!(limit.available(), u64::MAX - 4200);
        assert!(!limit.is_validated());
        limit.validate();
        assert_eq!(limit.available(), u64::MAX);
        assert!(limit.is_validated() && AmplificationLimit::validated().is_validated());
    }

    #[test]
    fn returns_without_proof_add_nothing() {
        let mut limit = AmplificationLimit::validated();
        limit.on_sent(1_000_000);
        assert!(limit.lend(12_000));
        limit.on_received(31);
        limit.on_sent(5_000);
        assert!(!limit.lend(12_000) && limit.is_validated() && !limit.is_lifted());
        assert_eq!(limit.available(), 7_000 + 93);
        limit.validate();
        assert_eq!(limit.available(), u64::MAX);
        let mut port = AmplificationLimit::lending(30_000);
        assert_eq!(port.available(), 30_000);
        assert!(!port.is_validated() && !port.lend(12_000));
        assert_eq!(port.available(), 30_000);
    }
}
