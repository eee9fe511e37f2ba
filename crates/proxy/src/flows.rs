//! The flows under way, with what each has carried.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use crate::target::Target;
use meter::{Meter, Rate};

mod meter;

/// The flows of a proxy or of its client. Clones are one list.
#[derive(Clone, Debug)]
pub struct Flows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    side: Side,
    flows: Mutex<BTreeMap<u64, Arc<Flow>>>,
    begun: AtomicU64,
}

/// Whose flows they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Between applications and the path.
    Tunnel,
    /// Between the path and targets.
    Proxy,
}

impl Side {
    /// The name of the side that a direction waits for: the one that receives, or the one that
    /// sends.
    const fn awaited(self, is_up: bool, receiver: bool) -> &'static str {
        match (self, is_up == receiver) {
            (Self::Tunnel, true) | (Self::Proxy, false) => "path",
            (Self::Tunnel, false) => "application",
            (Self::Proxy, true) => "target",
        }
    }
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

/// Payload that was carried.
#[derive(Debug)]
pub struct Carried {
    up: Meter,
    down: Meter,
}

impl Default for Carried {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            up: Meter::new(now),
            down: Meter::new(now),
        }
    }
}

impl Carried {
    /// The direction toward the target.
    pub(crate) const fn up(&self) -> &Meter {
        &self.up
    }

    /// The direction from the target.
    pub(crate) const fn down(&self) -> &Meter {
        &self.down
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
    /// Bits per second toward the target since the last look at the list, a second ago at least.
    pub rate_up_bps: f64,
    /// Bits per second from the target.
    pub rate_down_bps: f64,
    /// The side that a TCP flow waited for in most of that time, toward the target: `application`
    /// or `path`, at a proxy `path` or `target`.
    pub bounded_by_up: Option<&'static str>,
    /// The same from the target.
    pub bounded_by_down: Option<&'static str>,
}

/// A flow's place in the list, until it is dropped.
#[derive(Debug)]
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
        }))
    }

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
        let view = |(id, flow): (&u64, &Arc<Flow>)| {
            let Carried { up, down } = &flow.carried;
            let rates = (up.rate(now), down.rate(now));
            let bound = |is_up, rate: Rate| match flow.kind {
                Kind::Tcp => Some(self.0.side.awaited(is_up, rate.blocked > 0.5)),
                Kind::Udp => None,
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
                bounded_by_up: bound(true, rates.0),
                bounded_by_down: bound(false, rates.1),
            }
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
        let flows = Flows::new(Side::Tunnel);
        let target: Target = "a.test:53".parse().unwrap();
        let client = "192.0.2.1:5".parse().ok();
        let first = flows.add(Kind::Udp, "socks", client, &target);
        let second = flows.add(Kind::Tcp, "http", None, &target);
        first.up().add(3);
        first.down().add(4);
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

    #[test]
    fn each_side_waits_for_what_it_has() {
        for (side, is_up, receiver, awaited) in [
            (Side::Tunnel, true, false, "application"),
            (Side::Tunnel, true, true, "path"),
            (Side::Tunnel, false, false, "path"),
            (Side::Tunnel, false, true, "application"),
            (Side::Proxy, true, false, "path"),
            (Side::Proxy, true, true, "target"),
            (Side::Proxy, false, false, "target"),
            (Side::Proxy, false, true, "path"),
        ] {
            assert_eq!(side.awaited(is_up, receiver), awaited, "{side:?} {is_up}");
        }
    }
}
