//! UDP flows, and forwarding datagrams to one target.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use pathmark_transport::Ecn;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Ingress;
use crate::flows::idle::UdpFlow;
use crate::flows::{Kind, Listed};
use crate::outbound::{self, Datagrams, Outbound};
use crate::payload::leaving;
use crate::target::Target;
use crate::{count, lock};

/// Maximum payload of UDP over IPv6 in bytes (RFC 768: 65,535 bytes minus the header).
pub(super) const LONGEST: usize = 65_527;

/// Maximum number of datagrams that wait for a flow.
const QUEUE: usize = 256;
/// Maximum number of bytes that wait for a flow.
const QUEUE_BYTES: usize = 512 * 1024;

/// Time for which a refused flow stays refused. Its datagrams are dropped meanwhile.
const REFUSED: Duration = Duration::from_secs(1);

/// Pause after a socket error.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Delivers datagrams from a target to the application.
pub(super) trait Back: Send + Sync + 'static {
    fn deliver(&self, payload: &[u8], ecn: Ecn) -> impl Future<Output = io::Result<()>> + Send;
}

/// The flows of a socket, which end when this is dropped.
pub(super) struct Flows<K>(Arc<Mutex<Map<K>>>);

type Map<K> = HashMap<K, Queue>;

/// Datagrams waiting for a flow.
struct Queue {
    payloads: mpsc::Sender<(Bytes, Ecn)>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// Returns false if there is no room.
    fn push(&self, payload: &[u8], ecn: Ecn) -> bool {
        let before = self.bytes.fetch_add(payload.len(), Ordering::Relaxed);
        let pushed = before + payload.len() <= QUEUE_BYTES
            && (self
                .payloads
                .try_send((Bytes::copy_from_slice(payload), ecn)))
            .is_ok();
        if !pushed {
            self.bytes.fetch_sub(payload.len(), Ordering::Relaxed);
        }
        pushed
    }
}

/// Where a datagram comes from, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<'a> {
    /// The kind of the listener.
    pub(super) by: &'a str,
    pub(super) client: SocketAddr,
    pub(super) target: &'a Target,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Flows<K> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Passes a datagram to the flow with this key, which is created if necessary. If `back`
    /// fails, the datagram is dropped.
    pub(super) fn offer<O: Outbound, B: Back>(
        &self,
        ingress: &Ingress<O>,
        key: K,
        Ends { by, client, target }: Ends<'_>,
        payload: &[u8],
        ecn: Ecn,
        back: impl FnOnce() -> io::Result<B>,
    ) {
        let mut map = lock(&self.0);
        let queue = match map.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let Some(place) = ingress.udp_place() else {
                    return count(&ingress.counters.dropped);
                };
                let back = match back() {
                    Ok(back) => back,
                    Err(error) => {
                        ingress.counters.accept_failed(&error);
                        return count(&ingress.counters.dropped);
                    }
                };
                let (payloads, queue) = mpsc::channel(QUEUE);
                let bytes = Arc::new(AtomicUsize::new(0));
                let flow = Flow {
                    ingress: ingress.clone(),
                    key: entry.key().clone(),
                    target: target.clone(),
                    back,
                    bytes: Arc::clone(&bytes),
                    listed: ingress.flows.add(Kind::Udp, by, Some(client), target),
                    flows: Arc::downgrade(&self.0),
                    place,
                };
                count(&ingress.counters.udp_flows);
                tokio::spawn(flow.run(queue));
                entry.insert(Queue { payloads, bytes })
            }
        };
        if !queue.push(payload, ecn) {
            count(&ingress.counters.dropped);
        }
    }
}

/// A flow in progress.
struct Flow<K, O, B> {
    ingress: Ingress<O>,
    key: K,
    target: Target,
    back: B,
    /// Bytes in its queue.
    bytes: Arc<AtomicUsize>,
    listed: Listed,
    flows: Weak<Mutex<Map<K>>>,
    place: UdpFlow,
}

/// The reason why a flow ends.
enum End {
    Idle,
    /// The tunnel ended it, the application's socket has gone, or it was evicted.
    Gone,
}

impl<K: Eq + Hash, O: Outbound, B: Back> Flow<K, O, B> {
    async fn run(self, mut queue: mpsc::Receiver<(Bytes, Ecn)>) {
        let opened = self.ingress.outbound.udp(&self.target).await;
        let datagrams = match opened {
            Ok(datagrams) => datagrams,
            Err(refusal) => {
                self.ingress.refused(&self.target, &refusal);
                sleep(REFUSED).await;
                self.leave(&mut queue, &End::Gone);
                return;
            }
        };
        let treatment = self.ingress.limits().classes.of(self.target.port);
        datagrams.set_weight(treatment.weight);
        if let Some(queue) = datagrams.queue() {
            self.listed.set_queue(queue);
        }
        loop {
            let end = tokio::select! {
                end = self.up(&mut queue, &datagrams) => end,
                end = self.down(&datagrams) => end,
                () = self.place.idle(|| self.ingress.limits().udp_idle(self.target.port)) => {
                    End::Idle
                }
                () = self.place.evicted() => End::Gone,
            };
            if self.leave(&mut queue, &end) {
                return;
            }
        }
    }

    async fn up(&self, queue: &mut mpsc::Receiver<(Bytes, Ecn)>, datagrams: &O::Datagrams) -> End {
        while let Some((payload, ecn)) = queue.recv().await {
            self.bytes.fetch_sub(payload.len(), Ordering::Relaxed);
            self.place.sent();
            self.listed.up.add(payload.len());
            if datagrams.send_marked(payload, ecn).await.is_err() {
                break;
            }
        }
        End::Gone
    }

    async fn down(&self, datagrams: &O::Datagrams) -> End {
        let counters = &self.ingress.counters;
        while let Ok((payload, marks)) = datagrams.receive_marked().await {
            self.place.answered();
            self.listed.down.add(payload.len());
            let ecn = leaving(marks.inner, marks.outer, &counters.marks_refused);
            if self.back.deliver(&payload, ecn).await.is_err() {
                count(&counters.dropped);
            }
        }
        End::Gone
    }

    /// Leaves the map, unless the flow is idle and a datagram has just arrived.
    fn leave(&self, queue: &mut mpsc::Receiver<(Bytes, Ecn)>, end: &End) -> bool {
        let Some(flows) = self.flows.upgrade() else {
            return true;
        };
        let mut map = lock(&flows);
        if matches!(end, End::Idle) && !queue.is_empty() {
            return false;
        }
        map.remove(&self.key);
        drop(map);
        while queue.try_recv().is_ok() {
            count(&self.ingress.counters.dropped);
        }
        true
    }
}

/// Receives the next datagram. Errors don't end the socket, because they concern an earlier
/// datagram or are temporary.
pub(super) async fn receive<O>(
    ingress: &Ingress<O>,
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> (usize, SocketAddr, Ecn) {
    loop {
        match outbound::receive(socket, buffer).await {
            Ok(received) => {
                if let Some(from) = received.from {
                    return (received.length, from, received.ecn);
                }
            }
            Err(error) => {
                ingress.counters.accept_failed(&error);
                sleep(PAUSE).await;
            }
        }
    }
}

/// A socket owned by its listener. It closes with the listener, even before its flows have ended.
#[derive(Clone, Debug)]
pub(super) struct Shared(Weak<UdpSocket>);

impl Shared {
    pub(super) fn new(socket: &Arc<UdpSocket>) -> Self {
        Self(Arc::downgrade(socket))
    }

    pub(super) async fn send(&self, payload: &[u8], to: SocketAddr, ecn: Ecn) -> io::Result<()> {
        let socket = self.0.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let sent = outbound::send(&socket, payload, Some(to), ecn);
        sent.await.map(drop)
    }
}

/// A client of a forward.
struct Client {
    socket: Shared,
    address: SocketAddr,
}

impl Back for Client {
    async fn deliver(&self, payload: &[u8], ecn: Ecn) -> io::Result<()> {
        self.socket.send(payload, self.address, ecn).await
    }
}

impl<O: Outbound> Ingress<O> {
    /// Forwards datagrams from any number of clients to one target, indefinitely. Each client
    /// has a separate flow.
    pub async fn serve_udp(&self, socket: UdpSocket, target: Target) {
        let socket = Arc::new(socket);
        let flows = Flows::new();
        let mut buffer = vec![0; LONGEST];
        loop {
            let (length, address, ecn) = receive(self, &socket, &mut buffer).await;
            let payload = buffer.get(..length).unwrap_or_default();
            let ends = Ends {
                by: "forward",
                client: address,
                target: &target,
            };
            flows.offer(self, address, ends, payload, ecn, || {
                let socket = Shared::new(&socket);
                Ok(Client { socket, address })
            });
        }
    }
}
