//! The flows under way, with what each has carried.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use crate::target::Target;

/// The flows of a proxy or of its client. Clones are one list.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    flows: Mutex<BTreeMap<u64, Arc<Flow>>>,
    begun: AtomicU64,
}

/// The kind of traffic of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bytes.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A flow: who began it, where it goes, and what it has carried.
#[derive(Debug)]
pub(crate) struct Flow {
    kind: Kind,
    /// The ingress, or the user.
    by: String,
    client: Option<SocketAddr>,
    target: Target,
    since: Instant,
    carried: Carried,
}

/// Bytes of payload that were carried.
#[derive(Debug, Default)]
pub struct Carried {
    up: AtomicU64,
    down: AtomicU64,
}

impl Carried {
    /// Counts bytes toward the target.
    pub(crate) fn up(&self, bytes: usize) {
        self.up.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes from the target.
    pub(crate) fn down(&self, bytes: usize) {
        self.down.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A flow at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowView {
    /// Increases from flow to flow.
    pub id: u64,
    /// TCP or UDP.
    pub kind: Kind,
    /// The ingress of a tunnel, or the user of a proxy.
    pub by: String,
    /// The application's address; of a proxy's flow, the address of the tunnel.
    pub client: Option<SocketAddr>,
    /// Where it goes.
    pub target: String,
    /// Seconds since it was begun.
    pub seconds: f64,
    /// Bytes of payload toward the target.
    pub bytes_up: u64,
    /// Bytes of payload from the target.
    pub bytes_down: u64,
}

/// A flow's place in the list, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listed {
    flows: Flows,
    id: u64,
    flow: Arc<Flow>,
}

impl Flows {
    /// Adds a flow.
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
            carried: Carried::default(),
        });
        let id = self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Arc::clone(&flow));
        Listed {
            flows: self.clone(),
            id,
            flow,
        }
    }

    /// The flows of this time, in the order of their beginnings.
    #[must_use]
    pub fn view(&self) -> Vec<FlowView> {
        let now = Instant::now();
        let view = |(id, flow): (&u64, &Arc<Flow>)| FlowView {
            id: *id,
            kind: flow.kind,
            by: flow.by.clone(),
            client: flow.client,
            target: flow.target.to_string(),
            seconds: (now - flow.since).as_secs_f64(),
            bytes_up: flow.carried.up.load(Ordering::Relaxed),
            bytes_down: flow.carried.down.load(Ordering::Relaxed),
        };
        self.lock().iter().map(view).collect()
    }

    /// The numbers of TCP and UDP flows.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let flows = self.lock();
        let tcp = flows.values().filter(|flow| flow.kind == Kind::Tcp).count();
        (tcp, flows.len() - tcp)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Flow>>> {
        self.0.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Listed {
    type Target = Carried;

    fn deref(&self) -> &Carried {
        &self.flow.carried
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.flows.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_listed_while_it_exists() {
        let flows = Flows::default();
        let target: Target = "a.test:53".parse().unwrap();
        let client = "192.0.2.1:5".parse().ok();
        let first = flows.add(Kind::Udp, "socks", client, &target);
        let second = flows.add(Kind::Tcp, "http", None, &target);
        first.up(3);
        first.down(4);
        assert_eq!(flows.count(), (1, 1));
        drop(second);
        let view = flows.view();
        let [only] = view.as_slice() else {
            panic!("{view:?}");
        };
        assert_eq!((only.id, only.kind, only.client), (0, Kind::Udp, client));
        assert_eq!(
            (only.by.as_str(), only.target.as_str()),
            ("socks", "a.test:53")
        );
        assert_eq!((only.bytes_up, only.bytes_down), (3, 4));
        drop(first);
        assert_eq!(flows.view(), []);
    }
}
