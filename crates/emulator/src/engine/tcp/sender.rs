//! The sending end: Reno's window, or that of routers within Reno, go-back-N, and the
//! retransmission timeout of ns-2 with timestamps: RFC 6298 with a clock of 10 ms and a minimum of
//! 200 ms.

use std::net::SocketAddr;

use pathmark_cc::{Duration, Instant};
use pathmark_protocols::forged::{self, Stated};
use pathmark_shim::Kind;
use pathmark_transport::connection::Transmit;

use super::{Ack, Segment, transmit};
use crate::engine::packet::IP_UDP_HEADER;

/// Duplicate acknowledgements that cause a fast retransmit.
const DUPLICATES: u64 = 3;
/// Bytes of IP and UDP header.
const HEADER_OUTSIDE: u16 = IP_UDP_HEADER as u16;
/// Fraction bits of the window.
const BITS: u32 = 16;
const ONE: i128 = 1 << BITS;
/// Largest window in segments, so that packets in flight fit into memory.
const MOST: u64 = 1 << 20;

/// The initial settings of a sender.
#[derive(Debug)]
pub(in crate::engine) struct TcpSetup {
    /// The shim by which routers change the window. `None`: the window is Reno's.
    pub(in crate::engine) shim: Option<Kind>,
    /// Bytes of a datagram, and of the data in it.
    pub(in crate::engine) datagram: u16,
    pub(in crate::engine) segment: u64,
    pub(in crate::engine) start: Instant,
    pub(in crate::engine) stop: Option<Instant>,
    /// Bytes to send. `None`: without end.
    pub(in crate::engine) bytes: Option<u64>,
    /// The receiver's window in bytes. `None`: it limits nothing.
    pub(in crate::engine) receive_window: Option<u64>,
}

/// Sends segments of one size, from `start` on. Acknowledgements and the timer change its window.
#[derive(Debug)]
pub(in crate::engine) struct TcpSender {
    setup: TcpSetup,
    started: bool,
    /// Number after the last segment to send.
    end: u64,
    /// The window in 2^-16 segments, and the threshold of slow start in segments.
    window: i128,
    threshold: u64,
    /// Acknowledgements that repeat the one before, and by how many segments those beyond the
    /// third inflate the window.
    duplicates: u64,
    inflation: u64,
    /// No fast retransmit up to this number, below which segments were sent at the last one or at
    /// the last timeout, because duplicates of them also cause acknowledgements (RFC 6582, section
    /// 3.2).
    recover: u64,
    in_recovery: bool,
    /// The first segment that isn't acknowledged, the next one to send, and the number after the
    /// highest one sent.
    acked: u64,
    next: u64,
    highest: u64,
    fast_retransmit: bool,
    /// Acknowledgements beyond this number end the doublings of the timeout.
    repeated_below: u64,
    timeout: Timeout,
    deadline: Option<Instant>,
    srtt: Option<Duration>,
    sent: u64,
    repeated: u64,
    timeouts: u64,
}

impl TcpSender {
    /// Creates a sender with a window of two segments, as ns-2's senders and Linux had then.
    pub(in crate::engine) fn new(setup: TcpSetup) -> Self {
        let end = setup.bytes.map(|bytes| bytes.div_ceil(setup.segment));
        Self {
            deadline: Some(setup.start),
            started: false,
            end: end.unwrap_or(u64::MAX),
            window: 2 * ONE,
            threshold: u64::MAX,
            duplicates: 0,
            inflation: 0,
            recover: 0,
            in_recovery: false,
            acked: 0,
            next: 0,
            highest: 0,
            fast_retransmit: false,
            repeated_below: 0,
            timeout: Timeout::default(),
            srtt: None,
            sent: 0,
            repeated: 0,
            timeouts: 0,
            setup,
        }
    }

    /// When [`on_time`](Self::on_time) must be called.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        match (self.deadline, self.setup.stop) {
            (Some(at), Some(stop)) if self.end > self.acked => Some(at.min(stop)),
            (at, _) => at,
        }
    }

    /// Performs the actions that are due.
    pub(in crate::engine) fn on_time(&mut self, now: Instant) {
        if self.setup.stop.is_some_and(|stop| stop <= now) {
            // Nothing new is sent, and what is missing isn't sent again.
            (self.end, self.deadline) = (0, None);
        } else if !self.started {
            (self.started, self.deadline) = (true, None);
        } else if self.deadline.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
    }

    /// Sends everything again from the first missing segment on, with a window of one segment.
    fn on_timeout(&mut self, now: Instant) {
        self.timeouts += 1;
        self.threshold = (self.segments() / 2).max(2);
        self.window = ONE;
        self.timeout.back_off();
        self.recover = self.highest;
        (self.duplicates, self.inflation, self.in_recovery) = (0, 0, false);
        self.fast_retransmit = false;
        self.next = self.acked;
        self.repeated_below = self.highest;
        self.deadline = Some(now + self.timeout.get());
    }

    /// Handles an arriving datagram.
    pub(in crate::engine) fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let Some(ack) = Ack::read(datagram) else {
            return;
        };
        let outstanding = self.acked + 1..=self.highest;
        if outstanding.contains(&ack.next) {
            self.on_new(now, &ack);
        } else if ack.next == self.acked && !outstanding.is_empty() {
            self.on_duplicate(now);
        }
    }

    fn on_new(&mut self, now: Instant, ack: &Ack) {
        (self.duplicates, self.inflation, self.in_recovery) = (0, 0, false);
        // It has arrived already if it was still to be sent at this instant.
        self.fast_retransmit = false;
        self.acked = ack.next;
        self.next = self.next.max(self.acked);
        self.timeout.sample(ack.echo, now);
        if ack.next > self.repeated_below {
            self.timeout.recover();
        }
        let rtt = now - ack.echo;
        let srtt = self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8);
        self.srtt = Some(srtt);
        self.window += match self.setup.shim {
            Some(_) => {
                // Rate times round trip, by the bytes of a packet, in 2^-16 segments.
                i128::from(ack.delta) * nanos(srtt) / 1_000_000_000 / i128::from(self.packet())
            }
            None if self.segments() < self.threshold => ONE,
            None => ONE * ONE / self.window,
        };
        self.window = self.window.clamp(ONE, i128::from(MOST) * ONE);
        self.deadline = (self.highest > self.acked).then(|| now + self.timeout.get());
    }

    fn on_duplicate(&mut self, now: Instant) {
        self.duplicates += 1;
        if self.duplicates > DUPLICATES {
            self.inflation += u64::from(self.in_recovery);
        } else if self.duplicates == DUPLICATES && self.acked > self.recover {
            self.recover = self.highest;
            self.in_recovery = true;
            self.fast_retransmit = true;
            self.threshold = (self.segments() / 2).max(2);
            self.window = (self.window / 2).max(ONE);
            self.deadline = Some(now + self.timeout.get());
        }
    }

    /// The window in whole segments.
    fn segments(&self) -> u64 {
        let allowed = self.setup.receive_window.unwrap_or(u64::MAX) / self.setup.segment;
        let window = u64::try_from(self.window >> BITS).unwrap_or(MOST);
        window.min(allowed).clamp(1, MOST)
    }

    /// Returns the number of the segment to send now.
    fn take(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.fast_retransmit) && self.acked < self.end {
            return Some(self.acked);
        }
        let room = self.segments().saturating_add(self.inflation);
        let open = self.next < self.acked.saturating_add(room) && self.next < self.end;
        (self.started && open).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Returns a datagram to send now.
    pub(in crate::engine) fn poll_transmit(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let number = self.take()?;
        let len = usize::from(self.setup.datagram);
        let out = buffer.get_mut(..len)?;
        out.fill(0);
        let (shim, rest) = out.split_at_mut_checked(shim_len(self.setup.shim))?;
        if self.setup.shim.is_some() {
            forged::write_tcp_shim(&self.stated(), shim);
        }
        Segment { number, sent: now }.write(rest);
        self.sent += 1;
        if number < self.highest {
            self.repeated += 1;
        } else {
            self.highest = number + 1;
        }
        self.deadline.get_or_insert(now + self.timeout.get());
        Some(transmit(remote, len))
    }

    /// The contents of the next shim.
    fn stated(&self) -> Stated {
        Stated {
            rtt: self.srtt,
            window: u64::try_from(self.window).unwrap_or(u64::MAX),
            bytes: self.packet(),
        }
    }

    /// Bytes of an IP packet, which routers count.
    fn packet(&self) -> u16 {
        self.setup.datagram.saturating_add(HEADER_OUTSIDE)
    }

    /// The smoothed RTT.
    pub(in crate::engine) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The window in bytes.
    pub(in crate::engine) fn window(&self) -> u64 {
        self.segments().saturating_mul(self.setup.segment)
    }

    /// Bytes sent from the first missing segment on.
    pub(in crate::engine) fn in_flight(&self) -> u64 {
        (self.next - self.acked).saturating_mul(self.setup.segment)
    }

    /// Segments sent so far.
    pub(in crate::engine) fn sent(&self) -> u64 {
        self.sent
    }

    /// Segments sent again so far.
    pub(in crate::engine) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Timeouts so far.
    pub(in crate::engine) fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Bytes of data in a segment.
    pub(in crate::engine) fn segment(&self) -> u64 {
        self.setup.segment
    }
}

/// Bytes of the shims that a sender writes.
pub(in crate::engine) fn shim_len(kind: Option<Kind>) -> usize {
    kind.map_or(0, |_| forged::tcp_shim_len())
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// Resolution of the clock in nanoseconds, `tcpTick_` of ns-2.
const TICK: u64 = 10_000_000;
/// Minimum, `minrto_` of ns-2, and maximum (RFC 6298, section 2.5).
const LEAST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);
/// Timeout before the first RTT sample, `rtxcur_init_` of ns-2.
const FIRST: Duration = Duration::from_secs(3);
/// Most doublings.
const MOST_DOUBLINGS: u32 = 6;

/// Computes the timeout from RTT samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeout {
    /// Smoothed RTT in eighths of a tick, and its variation in quarters.
    rtt: Option<(u64, u64)>,
    doublings: u32,
}

impl Timeout {
    /// Takes the RTT of a segment from its timestamp.
    pub(super) fn sample(&mut self, sent: Instant, now: Instant) {
        let rtt = (now.as_nanos() / TICK).saturating_sub(sent.as_nanos() / TICK);
        let rtt = rtt.max(1);
        self.rtt = Some(match self.rtt {
            None => (rtt * 8, rtt * 2),
            Some((smoothed, variation)) => {
                let error = rtt.abs_diff(smoothed / 8);
                (
                    smoothed - smoothed / 8 + rtt,
                    (variation - variation / 4 + error).max(1),
                )
            }
        });
    }

    /// Doubles the timeout until [`recover`](Self::recover).
    pub(super) fn back_off(&mut self) {
        self.doublings = MOST_DOUBLINGS.min(self.doublings + 1);
    }

    /// Ends the doublings, because a segment was acknowledged that was first sent after them.
    pub(super) fn recover(&mut self) {
        self.doublings = 0;
    }

    pub(super) fn get(&self) -> Duration {
        let once = self.rtt.map_or(FIRST, |(smoothed, variation)| {
            Duration::from_nanos((smoothed / 8 + variation) * TICK).max(LEAST)
        });
        once.saturating_mul(1 << self.doublings).min(LONGEST)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
