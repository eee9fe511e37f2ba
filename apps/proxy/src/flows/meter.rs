//! Measures the rates of a flow's directions, the time they wait, and its queue before the path.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pathmark_transport::{QueueCounters, QueueCounts};
use serde::Serialize;
use tokio::time::Instant;

use crate::lock;

/// Minimum interval for computing a rate.
pub(super) const LEAST: Duration = Duration::from_secs(1);

/// A flow's direction: its bytes, and the time in which the receiving side accepted none.
#[derive(Debug)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    is_blocked: AtomicBool,
    window: Mutex<Window>,
}

/// Measures a direction between two looks at it.
#[derive(Debug)]
struct Window {
    begun: Instant,
    /// Bytes at the beginning.
    bytes: u64,
    blocked: Duration,
    blocked_since: Option<Instant>,
    last: Option<Rate>,
}

/// A direction's figures in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) bps: f64,
    /// The share of time in which the receiving side accepted no bytes.
    pub(super) blocked: f64,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
            window: Mutex::new(Window {
                begun: now,
                bytes: 0,
                blocked: Duration::ZERO,
                blocked_since: None,
                last: None,
            }),
        }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records whether the receiving side currently accepts no bytes.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        if self.is_blocked.swap(blocked, Ordering::Relaxed) != blocked {
            lock(&self.window).set_blocked(blocked, Instant::now());
        }
    }

    /// Waits for the receiving side, recording the time as blocked.
    pub(crate) async fn hand_over<F: Future>(&self, handing: F) -> F::Output {
        let mut handing = pin!(handing);
        let handed = poll_fn(|cx| {
            let polled = handing.as_mut().poll(cx);
            self.set_blocked(polled.is_pending());
            polled
        });
        handed.await
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn rate(&self, now: Instant) -> Rate {
        lock(&self.window).look(self.bytes(), now)
    }
}

impl Window {
    fn set_blocked(&mut self, blocked: bool, now: Instant) {
        match (blocked, self.blocked_since) {
            (true, None) => self.blocked_since = Some(now),
            (false, Some(since)) => {
                self.blocked += now.saturating_duration_since(since);
                self.blocked_since = None;
            }
            _ => {}
        }
    }

    /// Returns the rate since the last look, or the previous window's rate if the last look was
    /// only a moment ago.
    fn look(&mut self, bytes: u64, now: Instant) -> Rate {
        let time = now.saturating_duration_since(self.begun);
        if time < LEAST && self.last.is_some() {
            return self.last.unwrap_or_default();
        }
        let since = self
            .blocked_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = Rate {
            bps: bytes.saturating_sub(self.bytes) as f64 * 8.0 / seconds,
            blocked: (self.blocked + since).as_secs_f64() / seconds,
        };
        if time >= LEAST {
            *self = Self {
                begun: now,
                bytes,
                blocked: Duration::ZERO,
                blocked_since: self.blocked_since.map(|_| now),
                last: Some(rate),
            };
        }
        rate
    }
}

/// A flow's datagrams that wait for the path, and the marks they got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueView {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams sent that the queue marked.
    pub marked: u64,
    /// Datagrams that the queue dropped.
    pub dropped: u64,
    /// The median waiting time in milliseconds since the last look at the list, rounded up to
    /// the next bound of the metric's histogram. `None` if no datagram was sent or it is above
    /// all bounds.
    pub wait_p50_ms: Option<u64>,
    /// The 99th percentile.
    pub wait_p99_ms: Option<u64>,
}

/// A queue, if the flow has one.
#[derive(Debug, Default)]
pub(super) struct Queue {
    counters: OnceLock<Arc<QueueCounters>>,
    window: Mutex<Option<QueueWindow>>,
}

/// The interval between two looks.
#[derive(Debug)]
struct QueueWindow {
    begun: Instant,
    before: QueueCounts,
    waits: [Option<u64>; 2],
    /// The share of time in which datagrams waited.
    busy: f64,
}

impl Queue {
    /// Sets the counters. Only the first call has an effect.
    pub(super) fn set(&self, counters: Arc<QueueCounters>) {
        let _ = self.counters.set(counters);
    }

    pub(super) fn counts(&self) -> Option<QueueCounts> {
        self.counters.get().map(|counters| counters.counts())
    }

    /// Returns the queue of a flow that began at `began`, and the share of time since the last
    /// look in which datagrams waited.
    pub(super) fn view(&self, now: Instant, began: Instant) -> Option<(QueueView, f64)> {
        let counts = self.counts()?;
        let mut window = lock(&self.window);
        let last = window.as_ref().map(|window| (window.begun, window.before));
        let (since, before) = last.unwrap_or((began, QueueCounts::default()));
        let time = now.saturating_duration_since(since);
        if last.is_none() || time >= LEAST {
            let busy = counts.busy.saturating_sub(before.busy);
            let busy = busy.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
            *window = Some(QueueWindow {
                begun: now,
                before: counts,
                waits: [50, 99].map(|percent| quantile(&before, &counts, percent)),
                busy: busy.min(1.0),
            });
        }
        let window = window.as_ref();
        let [wait_p50_ms, wait_p99_ms] = window.map_or([None; 2], |window| window.waits);
        let view = QueueView {
            sent: counts.sent,
            marked: counts.marked,
            dropped: counts.dropped,
            wait_p50_ms,
            wait_p99_ms,
        };
        Some((view, window.map_or(0.0, |window| window.busy)))
    }
}

/// Returns the bound that this percentage of the waits since `before` doesn't exceed.
fn quantile(before: &QueueCounts, now: &QueueCounts, percent: u64) -> Option<u64> {
    let waits = now.waits.iter().zip(before.waits);
    let waits: Vec<_> = waits.map(|(now, before)| now - before).collect();
    let all: u64 = waits.iter().sum();
    let mut seen = 0;
    let mut bounds = QueueCounts::BOUNDS.into_iter().zip(waits);
    let found = bounds.find(|(_, waits)| {
        seen += waits;
        seen * 100 >= all * percent
    });
    found.filter(|_| all > 0).map(|(bound, _)| bound)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[test]
    fn rates_are_of_the_time_between_looks() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let meter = Meter::new(begun);
        let rate = |bps, blocked| Rate { bps, blocked };
        meter.add(1000);
        assert_eq!(meter.rate(at(500)), rate(16_000.0, 0.0));
        assert_eq!(meter.rate(at(2_000)), rate(4_000.0, 0.0));
        meter.add(500);
        lock(&meter.window).set_blocked(true, at(2_250));
        assert_eq!(meter.rate(at(2_999)), rate(4_000.0, 0.0), "a moment ago");
        assert_eq!(meter.rate(at(3_000)), rate(4_000.0, 0.75));
        lock(&meter.window).set_blocked(false, at(3_500));
        assert_eq!(meter.rate(at(4_000)), rate(0.0, 0.5));
        assert_eq!(meter.rate(at(6_000)), rate(0.0, 0.0));
    }

    #[tokio::test]
    async fn a_side_that_takes_no_bytes_is_waited_for() {
        let meter = Meter::new(Instant::now());
        let (mut one, mut other) = tokio::io::duplex(1);
        let hand = async { tokio::io::AsyncWriteExt::write_all(&mut one, b"ab").await };
        let mut handing = pin!(meter.hand_over(hand));
        let pending = poll_fn(|cx| Poll::Ready(handing.as_mut().poll(cx).is_pending()));
        assert!(pending.await && meter.is_blocked.load(Ordering::Relaxed));
        let mut got = [0; 2];
        let reading = tokio::io::AsyncReadExt::read_exact(&mut other, &mut got);
        let (read, handed) = tokio::join!(reading, handing);
        assert!(read.is_ok() && handed.is_ok());
        assert!(!meter.is_blocked.load(Ordering::Relaxed));
    }

    #[test]
    fn waits_are_those_between_two_counts() {
        let mut before = QueueCounts::default();
        assert_eq!(quantile(&before, &before, 50), None);
        before.waits[9] = 100;
        let mut now = before;
        (now.waits[0], now.waits[2], now.waits[8]) = (50, 49, 1);
        let [p50, p99, most] = [50, 99, 100].map(|percent| quantile(&before, &now, percent));
        assert_eq!((p50, p99, most), (Some(1), Some(5), Some(500)));
        now.waits[9] += 100;
        assert_eq!(quantile(&before, &now, 99), None);
    }

    #[tokio::test]
    async fn a_flow_without_a_queue_has_no_view() {
        let queue = Queue::default();
        let now = Instant::now();
        assert_eq!(queue.view(now, now), None);
        queue.set(Arc::default());
        assert_eq!(queue.view(now, now), Some((QueueView::default(), 0.0)));
    }
}
