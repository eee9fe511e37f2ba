//! Tracks UDP flows by the time of their last datagram, and the sides that flows wait for.
//!
//! Since UDP doesn't signal the end of a flow, most flows in a list are already over. If there are
//! too many, the flow that has been idle longest is ended in favor of a new flow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock;

/// Idle timeout of a flow with one query and one answer, the same as in Linux's connection
/// tracking (`nf_conntrack_udp_timeout`).
const QUERY: Duration = Duration::from_secs(30);

/// The UDP flows of one user or one tunnel.
#[derive(Debug)]
pub(crate) struct UdpFlows {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    flows: BTreeMap<u64, Arc<Usage>>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Milliseconds between the creation of the list and the last datagram.
    last: AtomicU64,
    sent: AtomicU64,
    answered: AtomicU64,
    evicted: Notify,
}

/// A flow's entry in the list, which is removed by dropping this value.
pub(crate) struct UdpFlow {
    list: Arc<UdpFlows>,
    number: u64,
    usage: Arc<Usage>,
}

impl UdpFlows {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// Returns the number of flows that weren't evicted.
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).flows.len()
    }

    pub(crate) fn add(self: &Arc<Self>) -> UdpFlow {
        let usage = Arc::new(Usage::default());
        usage.last.store(self.now(), Ordering::Relaxed);
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.flows.insert(number, Arc::clone(&usage));
        drop(state);
        UdpFlow {
            list: Arc::clone(self),
            number,
            usage,
        }
    }

    /// Evicts the flow that has been idle longest. Returns false if there are no flows.
    pub(crate) fn evict(&self) -> bool {
        let mut state = lock(&self.state);
        let idle = |(_, usage): &(&u64, &Arc<Usage>)| usage.last.load(Ordering::Relaxed);
        let longest = state.flows.iter().min_by_key(idle);
        let longest = longest.map(|(number, _)| *number);
        let usage = longest.and_then(|number| state.flows.remove(&number));
        if let Some(usage) = &usage {
            usage.evicted.notify_one();
        }
        usage.is_some()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl UdpFlow {
    /// Records a datagram to the target.
    pub(crate) fn sent(&self) {
        self.used(&self.usage.sent);
    }

    /// Records a datagram from the target.
    pub(crate) fn answered(&self) {
        self.used(&self.usage.answered);
    }

    fn used(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
        self.usage.last.store(self.list.now(), Ordering::Relaxed);
    }

    /// Waits until the flow must end in favor of another flow.
    pub(crate) async fn evicted(&self) {
        self.usage.evicted.notified().await;
    }

    /// Waits until no datagram has passed for the time `limit`, which can change meanwhile.
    pub(crate) async fn idle(&self, limit: impl Fn() -> Duration) {
        loop {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let is_query = count(&self.usage.sent) == 1 && count(&self.usage.answered) == 1;
            let limit = if is_query {
                limit().min(QUERY)
            } else {
                limit()
            };
            let last = Duration::from_millis(count(&self.usage.last));
            let left = (self.list.began + last + limit).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // The next datagram might shorten the timeout.
            tokio::time::sleep(left.min(QUERY)).await;
        }
    }
}

impl Drop for UdpFlow {
    fn drop(&mut self) {
        lock(&self.list.state).flows.remove(&self.number);
    }
}

/// Limits a message to once per minute.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute(Mutex<Option<Instant>>);

impl OnceAMinute {
    pub(crate) fn is_due(&self) -> bool {
        let mut last = lock(&self.0);
        let now = Instant::now();
        let is_due = last.is_none_or(|last| now - last >= Duration::from_secs(60));
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

/// The position of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Between applications and the path.
    Tunnel,
    /// Between the path and targets.
    Proxy,
}

impl Side {
    /// Returns the shares of time in which the directions up and down were held back, if `busy` is
    /// the share of the direction into the path.
    pub(super) const fn into_path(self, busy: f64) -> (f64, f64) {
        match self {
            Self::Tunnel => (busy, 0.0),
            Self::Proxy => (0.0, busy),
        }
    }

    /// Returns the sides that a direction waited for, if its receiver accepted no bytes for the
    /// share `blocked` of the time. `stalled` is true if the flow's far end currently accepts
    /// none.
    fn waits(self, is_up: bool, blocked: f64, stalled: bool) -> Waits {
        let blocked = blocked.min(1.0);
        let idle = 1.0 - blocked;
        let (window, far) = if stalled {
            (0.0, blocked)
        } else {
            (blocked, 0.0)
        };
        let (application, path, target) = match (self, is_up) {
            (Self::Tunnel, true) => (idle, window, far),
            (Self::Tunnel, false) => (blocked, idle, 0.0),
            (Self::Proxy, true) => (0.0, idle, blocked),
            (Self::Proxy, false) => (far, window, idle),
        };
        Waits {
            application,
            path,
            target,
        }
    }
}

/// Shares of the time since the last look at the list in which a flow's direction waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// For the application to send or to accept bytes.
    pub application: f64,
    /// For the path between tunnel and proxy, or for anything behind it.
    pub path: f64,
    /// For the target to send or to accept bytes.
    pub target: f64,
}

impl Waits {
    /// Returns the side with the longest wait.
    fn longest(&self) -> &'static str {
        let Self {
            application,
            path,
            target,
        } = *self;
        match () {
            () if path >= application && path >= target => "path",
            () if application >= target => "application",
            () => "target",
        }
    }
}

/// A flow's waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// Toward the target.
    pub up: Waits,
    /// From the target.
    pub down: Waits,
}

impl FlowReport {
    /// Creates the report from the shares of time in which the receivers accepted no bytes.
    pub(super) fn new(side: Side, up: f64, down: f64, stalled: bool) -> Self {
        Self {
            up: side.waits(true, up, stalled),
            down: side.waits(false, down, stalled),
        }
    }
}

/// The sides that a flow waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BoundedBy {
    /// The side with the longest wait toward the target: `application`, `path` or `target`.
    #[serde(rename = "bounded_by_up")]
    pub up: Option<&'static str>,
    /// The same in the direction from the target.
    #[serde(rename = "bounded_by_down")]
    pub down: Option<&'static str>,
    /// All waits in each direction, or `None` for a UDP flow without a queue in front of the path.
    pub path_report: Option<FlowReport>,
}

impl From<Option<FlowReport>> for BoundedBy {
    fn from(path_report: Option<FlowReport>) -> Self {
        Self {
            up: path_report.map(|report| report.up.longest()),
            down: path_report.map(|report| report.down.longest()),
            path_report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_evicted(flow: &UdpFlow) -> bool {
        tokio::time::timeout(Duration::ZERO, flow.evicted())
            .await
            .is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_flow_that_is_idle_longest_ends() {
        let list = UdpFlows::new();
        let mut flows = Vec::new();
        for _ in 0..3 {
            flows.push(list.add());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        flows[0].sent();
        assert!(list.evict());
        assert!(is_evicted(&flows[1]).await);
        assert!(!is_evicted(&flows[0]).await && !is_evicted(&flows[2]).await);
        flows.clear();
        assert!(!list.evict() && list.count() == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_with_one_answer_ends_early() {
        let list = UdpFlows::new();
        for (sent, answered, seconds) in [(1, 1, 30), (1, 0, 300), (2, 1, 300), (1, 2, 300)] {
            let (flow, began) = (list.add(), Instant::now());
            let datagrams = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                (0..sent).for_each(|_| flow.sent());
                (0..answered).for_each(|_| flow.answered());
            };
            tokio::join!(flow.idle(|| Duration::from_secs(300)), datagrams);
            let took = began.elapsed().as_secs();
            // The timer wakes up once per query timeout.
            let in_time = (seconds..seconds + 31).contains(&took);
            assert!(in_time, "{sent} {answered}: {took} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_a_minute() {
        let once = OnceAMinute::default();
        assert!(once.is_due() && !once.is_due());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(once.is_due());
    }

    #[test]
    fn each_side_waits_for_what_it_has() {
        for (side, is_up, blocked, stalled, longest) in [
            (Side::Tunnel, true, 0.25, false, "application"),
            (Side::Tunnel, true, 0.75, false, "path"),
            (Side::Tunnel, true, 0.75, true, "target"),
            (Side::Tunnel, false, 0.25, false, "path"),
            (Side::Tunnel, false, 0.75, true, "application"),
            (Side::Proxy, true, 0.25, false, "path"),
            (Side::Proxy, true, 0.75, true, "target"),
            (Side::Proxy, false, 0.25, false, "target"),
            (Side::Proxy, false, 0.75, false, "path"),
            (Side::Proxy, false, 0.75, true, "application"),
        ] {
            let waits = side.waits(is_up, blocked, stalled);
            assert_eq!(waits.longest(), longest, "{side:?} {is_up} {waits:?}");
            assert_eq!(waits.application + waits.path + waits.target, 1.0);
        }
    }

    #[test]
    fn the_direction_into_the_path_has_the_queue() {
        for side in [Side::Tunnel, Side::Proxy] {
            let (up, down) = side.into_path(0.75);
            let report = FlowReport::new(side, up, down, false);
            let longest = (report.up.longest(), report.down.longest());
            assert_eq!(longest, ("path", "path"));
        }
        let report = |side: Side| {
            let (up, down) = side.into_path(0.25);
            FlowReport::new(side, up, down, false)
        };
        assert_eq!(report(Side::Tunnel).up.longest(), "application");
        assert_eq!(report(Side::Proxy).down.longest(), "target");
    }
}
