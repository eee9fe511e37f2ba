//! Tracks UDP flows by the time of their last datagram. Since UDP doesn't signal the end of a
//! flow, most flows in a list are already over. If there are too many, the flow that has been
//! idle longest is ended in favor of a new flow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

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
#[derive(Debug)]
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of flows that weren't evicted.
    pub(crate) fn count(&self) -> usize {
        self.state().flows.len()
    }

    pub(crate) fn add(self: &Arc<Self>) -> UdpFlow {
        let usage = Arc::new(Usage::default());
        usage.last.store(self.now(), Ordering::Relaxed);
        let mut state = self.state();
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
        let mut state = self.state();
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
            let limit = match is_query {
                true => limit().min(QUERY),
                false => limit(),
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
        self.list.state().flows.remove(&self.number);
    }
}

/// Limits a message to once per minute.
#[derive(Debug, Default)]
pub(crate) struct OnceAMinute(Mutex<Option<Instant>>);

impl OnceAMinute {
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = last.is_none_or(|last| now - last >= Duration::from_secs(60));
        if is_due {
            *last = Some(now);
        }
        is_due
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
            assert!(
                (seconds..seconds + 31).contains(&took),
                "{sent} {answered}: {took} s"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_a_minute() {
        let once = OnceAMinute::default();
        assert!(once.is_due() && !once.is_due());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(once.is_due());
    }
}
