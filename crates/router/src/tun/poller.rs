//! Waits for interfaces, with epoll, so that the cost of idle ones does not grow with their
//! number.
//!
//! Each wake-up costs several system calls, which packets handled together share, so the loop
//! sleeps while packets accumulate. It also finds out whether it did not run for a while because
//! this process was stopped. The monotonic clock does not count time in which the machine was
//! suspended.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use pathmark_cc::{Duration, Instant};

use super::sys;

/// Maximum number of descriptors reported at once; the next turns report the others.
const EVENTS: usize = 64;
/// Marks descriptors that are not interfaces.
const WATCHED: u64 = 1 << 63;

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// The interface of this port.
    Port(usize),
    /// The watched descriptor with this index.
    Watched(usize),
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub(super) struct Poller {
    set: OwnedFd,
    watched: Vec<RawFd>,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            set: sys::epoll()?,
            watched: Vec::new(),
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Adds the interface of `port`.
    pub(super) fn add(&self, port: usize, fd: RawFd) -> io::Result<()> {
        sys::epoll_add(self.set.as_raw_fd(), fd, port as u64)
    }

    /// Removes a descriptor. If it was not in the set, nothing happens.
    pub(super) fn remove(&self, fd: RawFd) {
        let _ = sys::epoll_remove(self.set.as_raw_fd(), fd);
    }

    /// Waits for these descriptors besides interfaces, replacing the previous ones. A descriptor
    /// must be replaced before it is closed, since another one may get its number.
    pub(super) fn watch(&mut self, watched: &[RawFd]) -> io::Result<()> {
        if self.watched == watched {
            return Ok(());
        }
        for fd in std::mem::take(&mut self.watched) {
            self.remove(fd);
        }
        for (index, fd) in watched.iter().enumerate() {
            sys::epoll_add(self.set.as_raw_fd(), *fd, WATCHED | index as u64)?;
        }
        self.watched = watched.to_vec();
        Ok(())
    }

    /// Waits until a descriptor is ready, or `timeout` has passed (`None`: forever).
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        sys::epoll_wait(self.set.as_raw_fd(), &mut self.events, timeout)
    }

    /// The results of the last wait.
    pub(super) fn ready(&self) -> impl Iterator<Item = Ready> + '_ {
        self.events.iter().map(|event| {
            let token = event.u64;
            let index = usize::try_from(token & !WATCHED).unwrap_or(usize::MAX);
            match token & WATCHED {
                0 => Ready::Port(index),
                _ => Ready::Watched(index),
            }
        })
    }

    /// The result with this index, for callers that make changes meanwhile.
    pub(super) fn nth(&self, index: usize) -> Option<Ready> {
        self.ready().nth(index)
    }
}

/// The longest sleep, and thus the longest delay that it adds to a packet.
const LONGEST: Duration = Duration::from_micros(500);
/// A shorter sleep gains nothing, because at such a rate packets accumulate while others are
/// handled.
const SHORTEST: Duration = Duration::from_micros(100);
/// Number of packets to accumulate per sleep, according to the recent rate.
const PACKETS: u32 = 8;
/// A super-packet counts as packets of this many bytes.
const BYTES: usize = 1500;
/// The newest wake-up has a weight of 1 / `WEIGHT` in the mean time between packets.
const WEIGHT: u32 = 4;

/// The time between packets, estimated from the loop's wake-ups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    /// The last wake-up that read packets.
    read_at: Instant,
    /// Packets read in this wake-up.
    packets: u32,
    /// Mean time between two packets.
    interval: Duration,
}

impl Gather {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            read_at: now,
            packets: 0,
            interval: Duration::MAX,
        }
    }

    /// Records a packet or super-packet of `bytes`.
    pub(super) fn on_packet(&mut self, bytes: usize) {
        let packets = u32::try_from(bytes.div_ceil(BYTES)).unwrap_or(u32::MAX);
        self.packets = self.packets.saturating_add(packets.max(1));
    }

    /// Records at `now` that all ready interfaces were read. A pause in traffic counts
    /// immediately, but an increasing rate only gradually.
    pub(super) fn on_all_read(&mut self, now: Instant) {
        let packets = std::mem::take(&mut self.packets);
        if packets == 0 {
            return;
        }
        let each = now.saturating_since(self.read_at) / packets;
        self.read_at = now;
        self.interval = if each > LONGEST || self.interval > LONGEST {
            each
        } else {
            (self.interval * (WEIGHT - 1) + each) / WEIGHT
        };
    }

    /// Returns how long to sleep before reading the next packets. It is zero if fewer than three
    /// would arrive meanwhile, because a sleep costs about as much as two wake-ups.
    pub(super) fn pause(&self) -> Duration {
        if self.interval > LONGEST / 3 {
            return Duration::ZERO;
        }
        let pause = (self.interval * PACKETS).min(LONGEST);
        if pause < SHORTEST {
            Duration::ZERO
        } else {
            pause
        }
    }
}

/// Time without running after which waiting packets are too old to send. A late acknowledgement
/// would give its sender a round trip that no path has, and a retransmission timeout of the same
/// length.
const ABSENT: Duration = Duration::from_secs(3);

/// When the loop must run again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    due: Option<Instant>,
}

impl Presence {
    /// The loop will run again at `due` at the latest; `None`: unknown.
    pub(super) fn expect(&mut self, due: Option<Instant>) {
        self.due = due;
    }

    /// Whether the loop runs far too late.
    pub(super) fn was_absent(&self, now: Instant) -> bool {
        self.due
            .is_some_and(|due| now.saturating_since(due) >= ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Only the ready ones of 1,000 descriptors are reported.
    #[test]
    fn only_ready_descriptors_are_reported() {
        let mut poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..1_000).map(|_| UnixStream::pair().unwrap()).collect();
        for (port, (end, _)) in pairs.iter().enumerate() {
            poller.add(port, end.as_raw_fd()).unwrap();
        }
        let (wake_fd, mut waker) = UnixStream::pair().unwrap();
        poller.watch(&[wake_fd.as_raw_fd()]).unwrap();
        poller.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(poller.nth(0), None);
        (&pairs[7].1).write_all(&[1]).unwrap();
        (&pairs[900].1).write_all(&[1]).unwrap();
        waker.write_all(&[1]).unwrap();
        poller.wait(None).unwrap();
        let mut ready: Vec<_> = poller.ready().collect();
        ready.sort_by_key(|ready| format!("{ready:?}"));
        assert_eq!(ready, [Ready::Port(7), Ready::Port(900), Ready::Watched(0)]);
        poller.remove(pairs[7].0.as_raw_fd());
        poller.watch(&[]).unwrap();
        poller.wait(None).unwrap();
        assert_eq!(poller.ready().collect::<Vec<_>>(), [Ready::Port(900)]);
    }

    /// Returns the pause in microseconds after wake-ups. Each has the time since the previous
    /// one in microseconds, the number of packets, and their size in bytes.
    fn pause(wakeups: &[(u64, u32, usize)]) -> u128 {
        let mut now = Instant::ZERO;
        let mut gather = Gather::new(now);
        for (micros, packets, bytes) in wakeups {
            now += Duration::from_micros(*micros);
            for _ in 0..*packets {
                gather.on_packet(*bytes);
            }
            gather.on_all_read(now);
        }
        gather.pause().as_micros()
    }

    #[test]
    fn eight_packets_or_half_a_millisecond() {
        for (each, expected) in [(20, 160), (50, 400), (100, 500), (166, 500), (167, 0)] {
            assert_eq!(pause(&[(each, 1, 1200); 50]), expected, "{each} us");
        }
        assert_eq!(pause(&[(400, 8, 40); 50]), 400, "batches");
    }

    #[test]
    fn what_gathers_by_itself_does_not_wait() {
        assert_eq!(pause(&[(12, 1, 1500); 50]), 0, "1 Gbit/s");
        assert_eq!(pause(&[(50, 1, 64_000); 50]), 0, "super-packets");
    }

    #[test]
    fn a_lone_packet_does_not_wait() {
        assert_eq!(pause(&[]), 0);
        assert_eq!(pause(&[(20, 1, 100), (10_000, 1, 100)]), 0);
        assert_eq!(pause(&[(1_000_000, 1, 100)]), 0);
        assert_eq!(pause(&[(20, 0, 0)]), 0);
    }

    #[test]
    fn only_who_is_far_too_late_was_absent() {
        let at = Instant::from_millis;
        let mut presence = Presence::default();
        assert!(!presence.was_absent(at(1_000_000)));
        presence.expect(Some(at(1_000)));
        for (now, expected) in [(500, false), (1_000, false), (3_999, false), (4_000, true)] {
            assert_eq!(presence.was_absent(at(now)), expected, "{now}");
        }
        // A wait without a deadline can end at any time.
        presence.expect(None);
        assert!(!presence.was_absent(at(1_000_000)));
    }
}
