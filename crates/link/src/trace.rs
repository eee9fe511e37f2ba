//! Links with varying capacity: recorded opportunities to deliver packets.

use std::io::{BufRead, ErrorKind, Read};
use std::sync::Arc;

use pathmark_cc::Instant;

/// Bytes that one opportunity delivers.
pub const OPPORTUNITY: u32 = 1500;

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Maximum number of opportunities in a trace; a day at 1 Gbit/s would exceed it.
const MOST: usize = 50_000_000;
/// Maximum length of a line, including blanks, in bytes.
const LINE: u64 = 64;
/// Longest time without an opportunity, ns.
const GAP: u64 = 3_600_000 * NANOS_PER_MILLI;
/// Time over which the current rate of a link is averaged, ns.
const WINDOW: u64 = 100_000_000;

/// A recording of a link's opportunities to deliver. In mahimahi's format, each line is one
/// opportunity to deliver 1500 bytes, in milliseconds from the start. After the last line, the
/// recording repeats.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// Nanoseconds from the start, in order.
    at: Vec<u64>,
    /// Length of the recording, ns.
    period: u64,
}

/// Text that is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTrace {
    /// A line is not a number.
    #[error("line {line} of the trace is no time in whole milliseconds")]
    Number {
        /// Line number, from 1.
        line: usize,
    },
    /// Time decreases.
    #[error("line {line} of the trace is earlier than the one before it")]
    Order {
        /// Line number, from 1.
        line: usize,
    },
    /// The trace is empty, or all lines are at time 0.
    #[error("the trace has no length: its last line is the time after which it begins again")]
    Empty,
    /// The trace is too long for memory.
    #[error("the trace has more than 50 million lines: cut it")]
    Long,
    /// No link should be out for so long.
    #[error(
        "line {line} of the trace is more than an hour after the one before it: times are in \
         milliseconds"
    )]
    Gap {
        /// Line number, from 1.
        line: usize,
    },
    /// The trace cannot be read.
    #[error("cannot read the trace: {0}")]
    Read(std::io::ErrorKind),
}

impl Trace {
    /// Parses a trace.
    ///
    /// # Errors
    /// [`BadTrace`].
    pub fn parse(text: &str) -> Result<Self, BadTrace> {
        Self::read(text.as_bytes())
    }

    /// Reads a trace line by line, so that the text can be of any length.
    ///
    /// # Errors
    /// [`BadTrace`].
    pub fn read(mut text: impl BufRead) -> Result<Self, BadTrace> {
        let mut at: Vec<u64> = Vec::new();
        let mut line = String::new();
        for number in 1.. {
            line.clear();
            // An endless line is not a number.
            match text.by_ref().take(LINE).read_line(&mut line) {
                Ok(0) => break,
                Ok(length) if length as u64 == LINE && !line.ends_with('\n') => {
                    return Err(BadTrace::Number { line: number });
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(BadTrace::Number { line: number });
                }
                Err(error) => return Err(BadTrace::Read(error.kind())),
            }
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let millis = line.parse::<u64>().ok();
            let nanos = millis.and_then(|millis| millis.checked_mul(NANOS_PER_MILLI));
            let Some(nanos) = nanos.filter(|nanos| *nanos < u64::MAX / 4) else {
                return Err(BadTrace::Number { line: number });
            };
            let last = at.last().copied().unwrap_or(0);
            if last > nanos {
                return Err(BadTrace::Order { line: number });
            }
            if nanos - last > GAP {
                return Err(BadTrace::Gap { line: number });
            }
            if at.len() >= MOST {
                return Err(BadTrace::Long);
            }
            at.push(nanos);
        }
        Self::new(at)
    }

    /// Creates a trace from times in nanoseconds from the start, in order. The last one is also
    /// the length.
    ///
    /// # Errors
    /// [`BadTrace`].
    pub fn new(at: Vec<u64>) -> Result<Self, BadTrace> {
        if at.len() > MOST {
            return Err(BadTrace::Long);
        }
        let pairs = at.iter().zip(at.iter().skip(1));
        if let Some(place) = pairs.into_iter().position(|(first, then)| first > then) {
            return Err(BadTrace::Order { line: place + 2 });
        }
        match at.last() {
            Some(&period) if (1..u64::MAX / 4).contains(&period) => Ok(Self { at, period }),
            _ => Err(BadTrace::Empty),
        }
    }

    /// Mean rate of the whole trace, in bytes per second.
    pub fn mean_rate(&self) -> u64 {
        per_second(self.at.len() as u64, self.period)
    }

    /// Number of opportunities in each period of `nanos` ns; the last period may be shorter.
    pub fn counts(&self, nanos: u64) -> Vec<u64> {
        let nanos = nanos.max(1);
        let stretches = self.period.div_ceil(nanos);
        let edge = |n: u64| self.at.partition_point(|at| *at <= n.saturating_mul(nanos)) as u64;
        // Opportunities at time 0 belong to the first period.
        let first = |n: u64| if n == 0 { 0 } else { edge(n) };
        (0..stretches).map(|n| edge(n + 1) - first(n)).collect()
    }

    /// Number of opportunities before `offset` ns from the start, over all repetitions.
    fn before(&self, offset: u64) -> u64 {
        let (cycle, rest) = self.split(offset);
        let within = self.at.partition_point(|at| *at < rest) as u64;
        cycle.saturating_mul(self.at.len() as u64) + within
    }

    /// The repetition, and the offset in it. The end of one is not yet the start of the next.
    fn split(&self, offset: u64) -> (u64, u64) {
        let cycle = offset.saturating_sub(1) / self.period;
        (cycle, offset - cycle * self.period)
    }
}

fn per_second(opportunities: u64, nanos: u64) -> u64 {
    let bytes = u128::from(opportunities) * u128::from(OPPORTUNITY) * 1_000_000_000;
    u64::try_from(bytes / u128::from(nanos.max(1))).unwrap_or(u64::MAX)
}

/// A position in a trace, with the rest of the current opportunity.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    trace: Arc<Trace>,
    start: u64,
    /// Start of this repetition.
    base: u64,
    index: usize,
    left: u32,
    /// When the last delivered packet is complete.
    through: Instant,
    window: Window,
}

/// The period over which the current rate is averaged.
#[derive(Clone, Copy, Debug)]
struct Window {
    end: u64,
    rate: u64,
}

impl Cursor {
    /// Starts a trace at `now`.
    pub(super) fn new(trace: Arc<Trace>, now: Instant) -> Self {
        let start = now.as_nanos();
        let mut cursor = Self {
            trace,
            start,
            base: start,
            index: 0,
            left: OPPORTUNITY,
            through: now,
            window: Window {
                end: start,
                rate: 0,
            },
        };
        cursor.turn();
        cursor
    }

    /// The time of the current opportunity.
    pub(super) fn at(&self) -> Instant {
        let within = self.trace.at.get(self.index).copied().unwrap_or(0);
        Instant::from_nanos(self.base.saturating_add(within))
    }

    /// Lets opportunities before `from` pass unused.
    pub(super) fn skip_to(&mut self, from: Instant) {
        if from > self.at() {
            let (cycle, rest) = self.trace.split(from.as_nanos() - self.start);
            self.base = self.start + cycle * self.trace.period;
            self.index = self.trace.at.partition_point(|at| *at < rest);
            self.left = OPPORTUNITY;
        }
    }

    /// Delivers `bytes` bytes with the following opportunities, whole or in parts. Returns the
    /// time of the last one.
    pub(super) fn deliver(&mut self, mut bytes: u32) -> Instant {
        while bytes > self.left {
            bytes -= self.left;
            self.next();
        }
        self.left -= bytes;
        let at = self.at();
        self.through = at;
        if self.left == 0 {
            self.next();
        }
        at
    }

    /// When the last delivered packet is complete.
    pub(super) const fn delivers_until(&self) -> Instant {
        self.through
    }

    fn next(&mut self) {
        self.left = OPPORTUNITY;
        self.index += 1;
        if self.index >= self.trace.at.len() {
            self.index = 0;
            self.base = self.base.saturating_add(self.trace.period);
        }
    }

    /// Bytes that could have been delivered until `now`, used or not.
    pub(super) fn offered(&self, now: Instant) -> u64 {
        let offset = now.as_nanos().saturating_sub(self.start);
        let passed = self.trace.before(offset);
        passed.saturating_mul(u64::from(OPPORTUNITY))
    }

    /// The current rate, in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        self.window.rate
    }

    /// When the current rate changes.
    #[inline]
    pub(super) fn turns_at(&self) -> Instant {
        Instant::from_nanos(self.window.end)
    }

    /// Advances to the next period, and returns its rate.
    #[cold]
    pub(super) fn turn(&mut self) -> u64 {
        let from = self.window.end;
        self.window.end = from.saturating_add(WINDOW);
        let offset = |at: u64| self.trace.before(at - self.start);
        let opportunities = offset(self.window.end) - offset(from);
        self.window.rate = per_second(opportunities, WINDOW);
        self.window.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cursor(text: &str) -> Cursor {
        Cursor::new(Arc::new(Trace::parse(text).unwrap()), Instant::ZERO)
    }

    #[test]
    fn reads_lines_of_milliseconds() {
        let trace = Trace::parse("0\n5\n5\n\n10\n").unwrap();
        assert_eq!(trace.mean_rate(), 4 * 1500 * 100);
        let fails = |text: &str| Trace::parse(text).unwrap_err();
        assert_eq!(fails("1\nx\n"), BadTrace::Number { line: 2 });
        assert_eq!(fails("5\n4\n"), BadTrace::Order { line: 2 });
        assert_eq!(fails("0\n0\n"), BadTrace::Empty);
        assert_eq!(fails(""), BadTrace::Empty);
        assert_eq!(fails("-1"), BadTrace::Number { line: 1 });
        assert_eq!(fails("1e3"), BadTrace::Number { line: 1 });
        assert_eq!(fails("0\n3600001\n"), BadTrace::Gap { line: 2 });
        assert!(Trace::parse("0\n3600000\n").is_ok());
        assert_eq!(fails(&u64::MAX.to_string()), BadTrace::Number { line: 1 });
    }

    /// Endless input must not be read completely.
    #[test]
    fn a_text_without_lines_is_refused_at_once() {
        let endless = std::io::BufReader::new(std::io::repeat(b'1'));
        let read = Trace::read(endless);
        assert_eq!(read, Err(BadTrace::Number { line: 1 }));
        let zeros = std::io::BufReader::new(std::io::repeat(0));
        assert_eq!(Trace::read(zeros), Err(BadTrace::Number { line: 1 }));
        let binary = Trace::read(&[0xff, 0xfe, b'\n'][..]);
        assert_eq!(binary, Err(BadTrace::Number { line: 1 }));
    }

    #[test]
    fn times_in_nanoseconds_are_checked_too() {
        assert_eq!(Trace::new(vec![3, 2]), Err(BadTrace::Order { line: 2 }));
        assert_eq!(Trace::new(vec![0, 0]), Err(BadTrace::Empty));
        assert_eq!(Trace::new(vec![]), Err(BadTrace::Empty));
        assert_eq!(Trace::new(vec![u64::MAX]), Err(BadTrace::Empty));
        let same = Trace::parse("3\n10\n").unwrap();
        assert_eq!(Trace::new(vec![3_000_000, 10_000_000]), Ok(same));
    }

    /// Two opportunities at 3 ms, one at 10 ms, then again at 13, 13 and 20 ms.
    #[test]
    fn opportunities_come_again_and_again() {
        let mut cursor = cursor("3\n3\n10\n");
        let times: Vec<u64> = (0..7)
            .map(|_| cursor.deliver(1500).as_nanos() / NANOS_PER_MILLI)
            .collect();
        assert_eq!(times, [3, 3, 10, 13, 13, 20, 23]);
    }

    #[test]
    fn packets_share_an_opportunity_or_take_several() {
        let mut cursor = cursor("1\n2\n4\n");
        let mut ms = |bytes| cursor.deliver(bytes).as_nanos() / NANOS_PER_MILLI;
        assert_eq!([ms(700), ms(700)], [1, 1]);
        assert_eq!(ms(1500), 2, "100 bytes at 1 ms, the rest at 2 ms");
        assert_eq!(
            ms(3000),
            5,
            "100 at 2 ms, 1500 at 4 ms, the rest in the next round"
        );
    }

    #[test]
    fn unused_opportunities_are_lost() {
        let mut cursor = cursor("1\n2\n4\n");
        cursor.deliver(700);
        cursor.skip_to(Instant::from_millis(2));
        assert_eq!(cursor.at(), Instant::from_millis(2));
        cursor.skip_to(Instant::from_millis(4));
        assert_eq!(
            cursor.at(),
            Instant::from_millis(4),
            "the end belongs to the round"
        );
        cursor.skip_to(Instant::from_micros(4_001));
        assert_eq!(cursor.at(), Instant::from_millis(5));
        cursor.skip_to(Instant::from_millis(4_000_003));
        assert_eq!(cursor.at(), Instant::from_millis(4_000_004));
    }

    #[test]
    fn the_rate_of_the_moment_is_that_of_100_ms() {
        let mut text = String::new();
        // 10 in the first 100 ms, none in the second, 50 in the third.
        for at in (0..100)
            .step_by(10)
            .chain((200..300).step_by(2))
            .chain([300])
        {
            text += &format!("{at}\n");
        }
        let mut cursor = cursor(&text);
        let mut rates = Vec::new();
        for _ in 0..4 {
            rates.push(cursor.rate() / 15_000);
            cursor.turn();
        }
        // The last line, at 300 ms, starts the second repetition together with its first line.
        assert_eq!(rates, [10, 0, 50, 11]);
    }

    proptest! {
        /// Delivered bytes never exceed the capacity of the opportunities up to then, and a busy
        /// link uses every opportunity.
        #[test]
        fn a_busy_link_uses_every_opportunity(
            gaps in prop::collection::vec(0u64..20, 1..30),
            sizes in prop::collection::vec(1u32..4000, 1..100),
        ) {
            let mut at = 0;
            let mut text = String::from("0\n");
            for gap in gaps {
                at += gap;
                text += &format!("{at}\n");
            }
            text += &format!("{}\n", at + 1);
            let mut cursor = cursor(&text);
            let trace = Arc::clone(&cursor.trace);
            let mut sum = 0u64;
            for size in sizes {
                sum += u64::from(size);
                let at = cursor.deliver(size);
                let used = sum.div_ceil(u64::from(OPPORTUNITY));
                prop_assert!(trace.before(at.as_nanos()) < used);
                prop_assert!(trace.before(at.as_nanos() + 1) >= used);
            }
        }
    }
}
