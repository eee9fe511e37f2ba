//! Measures the rate of a slower link behind a port, such as a modem's, from the round trips of
//! probes that bypass the port and wait in the modem's queue.
//!
//! Packets that the port sends between two probes leave the modem between these probes, too. So
//! while the modem has a queue, the distance at which both probes leave it gives its rate exactly
//! (the dispersion of a packet train: Dovrolis, Ramanathan and Moore, "What Do Packet Dispersion
//! Techniques Measure?", INFOCOM 2001, section IV): bytes between the probes, divided by the time
//! between them plus the growth of their round trips. Without a queue, the modem is at least as
//! fast as the port sends. Accordingly, the port
//!
//! - sends slower than the measured rate until the queue is gone, when a probe waited;
//! - then sends slightly slower than the measured rate, so that no queue forms;
//! - then tries a rate that is higher by 1/64, 1/32 and so on, as long as no probe waits and the
//!   port's packets use the rate.
//!
//! After each change, probes sent before the change are not judged, since they say nothing about
//! it. A probe that is overdue has waited at least until now, which shows an outage or a much
//! slower modem earlier than its answer. Because a lost probe looks the same, only one probe may
//! be judged before its answer until the next answer arrives: where no answers arrive at all, the
//! rate falls only once.

use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};

/// Shortest and longest time between probes while the port is busy.
const BUSY: (u64, u64) = (25 * MILLI, 250 * MILLI);
/// Time between probes while the port sends less than `IDLE` of its rate.
const REST: u64 = 1000 * MILLI;
const IDLE: (u64, u64) = (1, 16);
/// Bytes of an ICMP echo over IPv6 with a payload of 16 bytes; with its answer, probes take at
/// most 1/`PART` of the least rate.
const PROBE_BYTES: u64 = 64;
const PART: u64 = 100;
/// A rate is measured over at least this time and this number of bytes, so that the size of
/// single packets hardly matters.
const LEAST_SPAN: u64 = 50 * MILLI;
const LEAST_BYTES: u64 = 8 * 1500;
/// Longest time over which a rate is measured.
const MOST_SPAN: u64 = 2000 * MILLI;
/// Probes that wait longer than this, plus 1/32 of the shortest round trip, show a queue. Shorter
/// delays are the jitter of the path.
const JITTER: u64 = 5 * MILLI;
const JITTER_PART: u64 = 32;
/// Number of earlier probes that must have waited, too.
const RECENT: usize = 1;
/// Each half of the window of the shortest round trip.
const WINDOW: u64 = 30_000 * MILLI;
/// The least and the largest step upwards, in 1/1024.
const STEP: (u64, u64) = (16, 512);
/// A step may not add a longer queue than this within a round trip.
const MOST_QUEUE: u64 = 50 * MILLI;
/// To drain a queue, at least a quarter of the measured rate is used.
const DRAIN: u64 = 768;
/// Part of the measured rate that is used when the queue is gone, in 1/1024.
const KEEP: u64 = 1008;
/// Number of further probes with the same round trip until the path itself counts as longer. The
/// largest of the port's rates before them must be at least 3/2 of the least.
const UNCHANGED: u8 = 3;
/// Probes of which an answer may arrive.
const MOST_PROBES: usize = 256;

const MILLI: u64 = 1_000_000;
const NANOS: u64 = 1_000_000_000;
const ONE: u64 = 1024;

/// The range of a rate, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRange {
    /// The least rate, whatever is measured.
    pub floor: u64,
    /// The largest rate.
    pub ceiling: u64,
}

/// A probe: its number, when it was sent, and the bytes that the port had sent by then.
#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u16,
    at: Instant,
    sent: u64,
}

/// A probe with its round trip in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Timed {
    probe: Probe,
    rtt: u64,
    /// Whether there is no answer yet, so that the round trip takes longer.
    is_late: bool,
}

/// The shortest round trip of the last 30 to 60 s.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    current: u64,
    previous: u64,
    since: Instant,
}

impl Shortest {
    fn get(&self) -> Option<u64> {
        let shortest = self.current.min(self.previous);
        (shortest < u64::MAX).then_some(shortest)
    }

    fn add(&mut self, now: Instant, rtt: u64) {
        if nanos(now, self.since) > WINDOW {
            (self.previous, self.current, self.since) = (self.current, u64::MAX, now);
        }
        self.current = self.current.min(rtt);
    }

    fn restart(&mut self, now: Instant, rtt: u64) {
        (self.current, self.previous, self.since) = (rtt, u64::MAX, now);
    }
}

/// A queue behind the port that slower rates are draining.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The rate that was measured when the queue was found.
    found: u64,
    /// The last probes in sequence with the same round trip: this round trip, their number, and the
    /// least and the largest rate of the port before them.
    rtt: u64,
    same: u8,
    rates: (u64, u64),
}

/// Measures the rate behind a port, as described in the module. It starts at the floor. Callers
/// send a probe when [`due`](Self::due), pass its answer to [`on_answer`](Self::on_answer), and
/// let the port send at [`rate`](Self::rate).
///
/// It is in one of three phases: no queue is known and the rate rises; a queue is drained
/// (`queue` is set), from the first probe that waited until the first that did not; and from then
/// on the rate is held for a round trip (`held_until`).
#[derive(Clone, Debug)]
pub struct RateEstimator {
    range: RateRange,
    rate: u64,
    number: u16,
    due: Instant,
    outstanding: VecDeque<Probe>,
    timed: VecDeque<Timed>,
    shortest: Shortest,
    /// When the rate last changed.
    changed: Instant,
    held_until: Instant,
    step: u64,
    /// The last measured rate.
    measured: Option<u64>,
    queue: Option<Queue>,
    /// Whether an overdue probe may be judged.
    may_be_late: bool,
    /// How long the last answered probe waited behind the port, in nanoseconds.
    delay: Option<u64>,
    answered: Option<Instant>,
}

impl RateEstimator {
    /// An estimator for a rate within `range`, whose first probe is due now.
    pub fn new(range: RateRange, now: Instant) -> Self {
        Self {
            range,
            rate: range.floor.min(range.ceiling),
            number: 0,
            due: now,
            outstanding: VecDeque::new(),
            timed: VecDeque::new(),
            shortest: Shortest {
                current: u64::MAX,
                previous: u64::MAX,
                since: now,
            },
            changed: now,
            held_until: now,
            step: STEP.0,
            measured: None,
            queue: None,
            may_be_late: false,
            delay: None,
            answered: None,
        }
    }

    /// The range of the rate.
    pub fn range(&self) -> RateRange {
        self.range
    }

    /// The rate at which the port should send, in bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Uses a rate that somebody who knows the link reports, as if it had just been measured. If
    /// the report is late, the following probes show the queue that it left.
    pub fn on_report(&mut self, now: Instant, rate: u64) {
        self.queue = None;
        self.step = STEP.0;
        self.set(now, rate);
        self.measured = Some(self.rate);
    }

    /// When the next probe must be sent.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// How long the last answered probe waited behind the port. `None`: there was no answer yet.
    pub fn delay(&self) -> Option<Duration> {
        self.delay.map(Duration::from_nanos)
    }

    /// When the last answer arrived.
    pub fn answered(&self) -> Option<Instant> {
        self.answered
    }

    /// Records a probe that is sent now, when the port has sent `sent` bytes in total, and returns
    /// the probe's number.
    pub fn on_probe(&mut self, now: Instant, sent: u64) -> u16 {
        self.look_for_late(now);
        let probe = Probe {
            number: self.number,
            at: now,
            sent,
        };
        let timed = self.timed.back().map(|timed| &timed.probe);
        let is_idle = self.outstanding.back().or(timed).is_some_and(|last| {
            per_second(sent.saturating_sub(last.sent), nanos(now, last.at))
                < part(self.rate, IDLE.0, IDLE.1)
        });
        let pause = if is_idle { REST } else { self.pause() };
        self.due = now + Duration::from_nanos(pause);
        self.number = self.number.wrapping_add(1);
        if self.outstanding.len() == MOST_PROBES {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(probe);
        probe.number
    }

    /// Records the answer to the probe `number`. Answers to unknown probes, and repeated ones,
    /// have no effect.
    pub fn on_answer(&mut self, now: Instant, number: u16) {
        let mut probes = self.outstanding.iter();
        let Some(index) = probes.position(|probe| probe.number == number) else {
            return;
        };
        // Earlier ones are lost, as links keep the order.
        let Some(probe) = self.outstanding.drain(..=index).next_back() else {
            return;
        };
        let rtt = nanos(now, probe.at);
        self.shortest.add(now, rtt);
        self.answered = Some(now);
        self.may_be_late = true;
        let timed = Timed {
            probe,
            rtt,
            is_late: false,
        };
        self.delay = Some(self.wait(rtt));
        self.judge(now, timed);
        if self.timed.len() == MOST_PROBES {
            self.timed.pop_front();
        }
        self.timed.push_back(timed);
    }

    /// Judges the oldest outstanding probe if even the next one should have been answered by now.
    fn look_for_late(&mut self, now: Instant) {
        let (Some(&probe), Some(shortest)) = (self.outstanding.front(), self.shortest.get()) else {
            return;
        };
        let rtt = nanos(now, probe.at);
        if self.may_be_late && rtt > shortest + jitter(shortest) + self.pause() {
            self.may_be_late = false;
            self.judge(
                now,
                Timed {
                    probe,
                    rtt,
                    is_late: true,
                },
            );
        }
    }

    /// Changes the rate according to a probe.
    fn judge(&mut self, now: Instant, timed: Timed) {
        let Some(span) = self.span(timed) else {
            return;
        };
        // The probe says nothing about the present rate.
        if timed.probe.at <= self.changed {
            return;
        }
        let waited = self.wait(timed.rtt);
        let sent = per_second(span.bytes, span.nanos);
        let jitter = jitter(timed.rtt - waited);
        // A single probe can be late for many reasons. A queue delays several in sequence.
        let recent = self.timed.iter().rev().take(RECENT);
        let least = recent.map(|earlier| self.wait(earlier.rtt)).min();
        if waited.min(least.unwrap_or(waited)) > jitter {
            // A queue that the port cannot have filled is another's, or on the way back.
            let least = self.measured.map_or(self.rate, |rate| rate.min(self.rate));
            if sent >= part(least, 3, 4) || self.queue.is_some() {
                self.drain(now, timed, span, sent);
            }
        } else if waited <= jitter && self.queue.take().is_some() {
            self.held_until = now + Duration::from_nanos(timed.rtt + self.pause());
            let rate = self
                .measured
                .map_or(self.rate, |rate| part(rate, KEEP, ONE));
            self.set(now, rate);
        } else if waited <= jitter && now >= self.held_until && sent >= part(self.rate, 9, 10) {
            // A rate that is too high by `step` for a round trip adds `step` of it as a queue.
            let most = part(MOST_QUEUE, ONE, timed.rtt + self.pause()).min(STEP.1);
            let step = self.step.min(most).max(STEP.0);
            self.set(now, part(self.rate, ONE + step, ONE));
            self.step = step * 2;
        }
    }

    /// Measures the rate of a link with a queue, and sends slower until the queue is gone.
    fn drain(&mut self, now: Instant, timed: Timed, span: Span, sent: u64) {
        let waited = self.wait(timed.rtt);
        let jitter = jitter(timed.rtt - waited);
        let round = timed.rtt + self.pause();
        let measured = if span.waited > jitter / 2 {
            per_second(span.bytes, span.served.max(MILLI))
        } else {
            // The link had no queue for a part of the span, so it could have sent more.
            self.rate - part(self.rate, waited.min(round / 2), round)
        };
        // The time until the answer of a late probe is not over, so its rate is an upper bound.
        if timed.is_late && measured >= self.rate {
            return;
        }
        let known = self
            .queue
            .filter(|queue| timed.rtt.abs_diff(queue.rtt) <= jitter / 2);
        let queue = Queue {
            found: self.queue.map_or(measured, |queue| queue.found),
            rtt: known.map_or(timed.rtt, |queue| queue.rtt),
            same: known.map_or(1, |queue| queue.same.saturating_add(1)),
            rates: known.map_or((sent, sent), |Queue { rates, .. }| {
                (rates.0.min(sent), rates.1.max(sent))
            }),
        };
        if queue.same > UNCHANGED && queue.rates.0 <= part(queue.rates.1, 2, 3) {
            // No queue stays the same at different rates: the path itself is longer.
            self.shortest.restart(now, timed.rtt);
            self.queue = None;
            self.set(now, queue.found);
            return;
        }
        self.queue = Some(queue);
        self.measured = Some(measured);
        self.step = STEP.0;
        let drained = part(waited - jitter / 2, ONE, round).min(DRAIN);
        self.set(now, part(measured, ONE - drained, ONE));
    }

    /// From the last answered probe that is far enough back to this one.
    fn span(&self, timed: Timed) -> Option<Span> {
        let mut waited = u64::MAX;
        let mut earlier = self.timed.iter().rev();
        let start = earlier.find(|start| {
            waited = waited.min(self.wait(start.rtt));
            nanos(timed.probe.at, start.probe.at) >= LEAST_SPAN
                && timed.probe.sent.saturating_sub(start.probe.sent) >= LEAST_BYTES
        })?;
        let passed = nanos(timed.probe.at, start.probe.at);
        (passed <= MOST_SPAN).then(|| Span {
            nanos: passed,
            bytes: timed.probe.sent - start.probe.sent,
            served: (passed + timed.rtt).saturating_sub(start.rtt),
            waited,
        })
    }

    /// How much longer a round trip is than the shortest.
    fn wait(&self, rtt: u64) -> u64 {
        rtt.saturating_sub(self.shortest.get().unwrap_or(rtt))
    }

    /// Nanoseconds between probes while the port is busy.
    fn pause(&self) -> u64 {
        let least = part(PROBE_BYTES * PART, NANOS, self.range.floor.max(1));
        let half = self.shortest.get().map_or(BUSY.1, |shortest| shortest / 2);
        half.clamp(BUSY.0, BUSY.1).max(least.min(REST))
    }

    fn set(&mut self, now: Instant, rate: u64) {
        self.rate = rate.max(self.range.floor).min(self.range.ceiling);
        self.changed = now;
    }
}

/// The time and the bytes between two probes.
#[derive(Clone, Copy, Debug)]
struct Span {
    nanos: u64,
    bytes: u64,
    /// Nanoseconds between the times at which both left the queue.
    served: u64,
    /// How long each earlier probe waited at least.
    waited: u64,
}

fn jitter(shortest: u64) -> u64 {
    JITTER + shortest / JITTER_PART
}

/// Nanoseconds from `earlier` to `now`, 0 if `earlier` is later.
fn nanos(now: Instant, earlier: Instant) -> u64 {
    now.as_nanos().saturating_sub(earlier.as_nanos())
}

/// Bytes per second, if `bytes` passed in `nanos`.
fn per_second(bytes: u64, nanos: u64) -> u64 {
    part(bytes, NANOS, nanos)
}

/// `a * b / c`, where 0 as `c` counts as 1.
fn part(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
