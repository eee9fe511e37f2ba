//! The active flows, with the traffic that each has carried.

pub(crate) mod idle;
mod meter;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use meter::Queue;
use pathmark_driver::Stall;
use pathmark_transport::{QueueCounters, QueueCounts};
use serde::Serialize;
use tokio::time::Instant;

use crate::lock;
use crate::target::Target;

pub use idle::{BoundedBy, FlowReport, Waits};
pub use meter::QueueView;

pub(crate) use idle::Side;
pub(crate) use meter::Meter;

/// The flows of a proxy or of its client. Clones share the same list.
#[derive(Clone, Debug)]
pub struct Flows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    side: Side,
    flows: Mutex<BTreeMap<u64, Arc<Flow>>>,
    begun: AtomicU64,
    /// Totals for the queues of ended flows.
    ended: Mutex<QueueCounts>,
}

/// The kind of traffic of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A byte stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A flow: its originator, its target, and its traffic.
#[derive(Debug)]
pub(crate) struct Flow {
    kind: Kind,
    /// The ingress or the user.
    by: String,
    client: Option<SocketAddr>,
    target: Target,
    since: Instant,
    carried: Arc<Carried>,
}

/// Payload carried by a flow.
#[derive(Debug)]
pub struct Carried {
    pub(crate) up: Meter,
    pub(crate) down: Meter,
    queue: Queue,
    stall: OnceLock<Stall>,
}

impl Default for Carried {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            up: Meter::new(now),
            down: Meter::new(now),
            queue: Queue::default(),
            stall: OnceLock::new(),
        }
    }
}

impl Carried {
    /// Sets the queue in which datagrams wait for the path.
    pub(crate) fn set_queue(&self, counters: Arc<QueueCounters>) {
        self.queue.set(counters);
    }

    /// Sets the stream that carries bytes into the path.
    pub(crate) fn set_stall(&self, stall: Stall) {
        // A flow has only one stream.
        let _ = self.stall.set(stall);
    }
}

/// A snapshot of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowView {
    /// A number that increases with each flow.
    pub id: u64,
    /// TCP or UDP.
    pub kind: Kind,
    /// The tunnel's ingress or the proxy's user.
    pub by: String,
    /// The application's address, or the tunnel's address for a proxy's flow.
    pub client: Option<SocketAddr>,
    /// The target.
    pub target: String,
    /// The flow's age in seconds.
    pub seconds: f64,
    /// Payload bytes toward the target.
    pub bytes_up: u64,
    /// Payload bytes from the target.
    pub bytes_down: u64,
    /// Bits per second toward the target since the previous look at the list, which was at least
    /// a second ago.
    pub rate_up_bps: f64,
    /// Bits per second from the target.
    pub rate_down_bps: f64,
    /// The sides that the flow mostly waited for in that time.
    #[serde(flatten)]
    pub bounded_by: BoundedBy,
    /// A UDP flow's queue in front of the path: toward the target in a tunnel, from the target
    /// in a proxy.
    pub queue: Option<QueueView>,
}

/// A flow's entry in the list, which is removed by dropping this value.
pub(crate) struct Listed {
    flows: Flows,
    id: u64,
    flow: Arc<Flow>,
}

impl Flows {
    pub(crate) fn new(side: Side) -> Self {
        Self(Arc::new(Inner {
            side,
            flows: Mutex::default(),
            begun: AtomicU64::new(0),
            ended: Mutex::default(),
        }))
    }

    pub(crate) fn add(
        &self,
        kind: Kind,
        by: &str,
        client: Option<SocketAddr>,
        target: &Target,
    ) -> Listed {
        let flow = Arc::new(Flow {
            kind,
            by: by.to_owned(),
            client,
            target: target.clone(),
            since: Instant::now(),
            carried: Arc::default(),
        });
        let id = self.0.begun.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.flows).insert(id, Arc::clone(&flow));
        Listed {
            flows: self.clone(),
            id,
            flow,
        }
    }

    /// Returns the active flows, oldest first.
    pub fn view(&self) -> Vec<FlowView> {
        let now = Instant::now();
        let view = |(id, flow): (&u64, &Arc<Flow>)| {
            let Carried {
                up,
                down,
                queue,
                stall,
            } = &*flow.carried;
            let rates = (up.rate(now), down.rate(now));
            let queue = queue.view(now, flow.since);
            let stalled = stall.get().is_some_and(Stall::is_now);
            let side = self.0.side;
            let report = |(up, down)| FlowReport::new(side, up, down, stalled);
            let path_report = match (flow.kind, &queue) {
                (Kind::Tcp, _) => Some(report((rates.0.blocked, rates.1.blocked))),
                (Kind::Udp, Some((_, busy))) => Some(report(side.into_path(*busy))),
                (Kind::Udp, None) => None,
            };
            FlowView {
                id: *id,
                kind: flow.kind,
                by: flow.by.clone(),
                client: flow.client,
                target: flow.target.to_string(),
                seconds: (now - flow.since).as_secs_f64(),
                bytes_up: up.bytes(),
                bytes_down: down.bytes(),
                rate_up_bps: rates.0.bps,
                rate_down_bps: rates.1.bps,
                bounded_by: path_report.into(),
                queue: queue.map(|(view, _)| view),
            }
        };
        lock(&self.0.flows).iter().map(view).collect()
    }

    /// Returns the numbers of TCP and UDP flows.
    pub fn count(&self) -> (usize, usize) {
        let flows = lock(&self.0.flows);
        let tcp = flows.values().filter(|flow| flow.kind == Kind::Tcp).count();
        (tcp, flows.len() - tcp)
    }

    /// Returns totals for the queues of all flows so far.
    pub fn queues(&self) -> QueueCounts {
        // Hold this lock, so that a flow that ends meanwhile is counted only once.
        let flows = lock(&self.0.flows);
        let mut totals = *lock(&self.0.ended);
        for flow in flows.values() {
            if let Some(counts) = flow.carried.queue.counts() {
                totals += counts;
            }
        }
        totals
    }
}

impl Deref for Listed {
    type Target = Carried;

    fn deref(&self) -> &Carried {
        &self.flow.carried
    }
}

impl Listed {
    /// Returns what the flow carries, also beyond its end.
    pub(crate) fn carried(&self) -> Arc<Carried> {
        Arc::clone(&self.flow.carried)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut flows = lock(&self.flows.0.flows);
        if let Some(counts) = self.flow.carried.queue.counts() {
            *lock(&self.flows.0.ended) += counts;
        }
        flows.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_listed_while_it_exists() {
        let flows = Flows::new(Side::Tunnel);
        let target: Target = "a.test:53".parse().unwrap();
        let client = "192.0.2.1:5".parse().ok();
        let first = flows.add(Kind::Udp, "socks", client, &target);
        let second = flows.add(Kind::Tcp, "http", None, &target);
        first.up.add(3);
        first.down.add(4);
        assert_eq!(flows.count(), (1, 1));
        drop(second);
        let view = flows.view();
        let [only] = view.as_slice() else {
            panic!("{view:?}");
        };
        assert_eq!((only.id, only.kind, only.client), (0, Kind::Udp, client));
        let shown = (only.by.as_str(), only.target.as_str());
        assert_eq!(shown, ("socks", "a.test:53"));
        assert_eq!((only.bytes_up, only.bytes_down), (3, 4));
        drop(first);
        assert_eq!(flows.view(), []);
    }
}
