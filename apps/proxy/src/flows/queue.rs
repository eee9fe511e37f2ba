//! A flow's queue in front of the path.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pathmark_transport::{QueueCounters, QueueCounts};
use serde::Serialize;
use tokio::time::Instant;

use super::meter::LEAST;

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
    window: Mutex<Option<Window>>,
}

/// The interval between two looks.
#[derive(Debug)]
struct Window {
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
        let mut window = self.window();
        let last = window.as_ref().map(|window| (window.begun, window.before));
        let (since, before) = last.unwrap_or((began, QueueCounts::default()));
        let time = now.saturating_duration_since(since);
        if last.is_none() || time >= LEAST {
            let busy = counts.busy.saturating_sub(before.busy);
            let busy = busy.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
            *window = Some(Window {
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

    fn window(&self) -> MutexGuard<'_, Option<Window>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
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
    use super::*;

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
