//! Forwards a packet from its arrival to the link by which it leaves.

use std::net::IpAddr;

use pathmark_cc::{Answer, Arrival, Ecn, Instant};
use pathmark_link::{DropCause, Owner};
use pathmark_protocols::packet::Row;
use pathmark_protocols::shim::{Carrier, Identity};
use pathmark_shim::ip::Layout;

use super::classify::{Classifier, tell_alike, write_answer};
use super::cloud_meter::CloudMeter;
use super::deadlines::Deadlines;
use super::pool::{Account, Frame, LARGE, Pool};
use super::port::{Counters, Refused, RouterPort, Trust};
use crate::ip::{Reassembly, RouteTable, Routes, TokenBucket};
use crate::offload::{Offload, Super};

/// The target of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Out of the port with this index.
    Port(usize),
    /// The router itself.
    Local,
}

/// Settings of a [`Router`].
#[derive(Debug)]
pub struct RouterConfig {
    /// The router's identity in shims.
    pub id: Identity,
    /// Maximum bytes of all packet buffers together.
    pub memory: usize,
    /// Selects the packets that carry feedback.
    pub classifier: Classifier,
    /// Rate limit of ICMP messages.
    pub icmp: TokenBucket,
}

/// A router: ports, and routes between them.
#[derive(Debug)]
pub struct Router {
    pub(super) ports: Vec<RouterPort>,
    pub(super) routes: RouteTable<Target>,
    /// Routing tables for packets by their input port, if it has a separate one.
    entries: Vec<Option<RouteTable<Target>>>,
    pub(super) classifier: Classifier,
    pub(super) icmp: TokenBucket,
    pub(super) counters: Counters,
    pub(super) store: PacketStore,
    pub(super) deadlines: Deadlines,
    /// The port that was last polled until it was empty, and when. Its next deadline is not
    /// known yet.
    pub(super) resting: Option<(usize, Instant)>,
    /// The router's own addresses, sorted.
    pub(super) own: Vec<IpAddr>,
    pub(super) reassembly: Reassembly,
    /// Identification of the next packet that the router fragments on its own behalf.
    pub(super) next_id: u16,
    /// Buffer for assembling replies and segments.
    pub(super) scratch: Box<[u8]>,
    /// The cloud meter, and its next deadline.
    pub(super) meter: Option<Box<CloudMeter>>,
    pub(super) meter_due: Instant,
}

/// Packet buffers, and the fields that the router writes into its marks.
#[derive(Debug)]
pub(super) struct PacketStore {
    pub(super) pool: Pool,
    id: Identity,
    row: Row,
}

impl PacketStore {
    fn write(&mut self, packet: &mut Frame, index: u32, answer: &Answer) {
        let router = Identity {
            hops: packet.hops,
            ..self.id
        };
        write_answer(packet, index, answer, &router, &mut self.row);
    }
}

impl Owner<Frame> for PacketStore {
    fn packets(&self, packet: &Frame) -> u32 {
        packet.packets()
    }

    fn mark(&mut self, packet: &mut Frame, answer: &Answer) {
        self.write(packet, 0, answer);
    }

    fn mark_one(&mut self, run: &mut Frame, index: u32, answer: &Answer) {
        self.write(run, index, answer);
    }

    /// An IP header's, unless it carries VCP's code.
    fn ecn(&self, packet: &Frame) -> Ecn {
        let layout = Layout::walk(packet.bytes()).ok();
        let layout = layout.filter(|_| !matches!(packet.carrier, Carrier::Ecn));
        let bits = layout.and_then(|layout| layout.ecn(packet.bytes()));
        Ecn::from_bits(bits.unwrap_or(0))
    }

    fn mark_ce(&mut self, packet: &mut Frame) {
        if let Ok(layout) = Layout::walk(packet.bytes()) {
            layout.set_ecn(packet.bytes_mut(), Ecn::Ce as u8);
        }
    }

    fn dropped(&mut self, packet: Frame, _cause: DropCause) {
        self.pool.give(packet);
    }
}

impl Router {
    /// Creates a router without ports and routes.
    pub fn new(config: RouterConfig) -> Self {
        Self {
            ports: Vec::new(),
            routes: RouteTable::default(),
            entries: Vec::new(),
            classifier: config.classifier,
            icmp: config.icmp,
            counters: Counters::default(),
            store: PacketStore {
                pool: Pool::new(config.memory),
                id: config.id,
                row: Row::default(),
            },
            deadlines: Deadlines::default(),
            resting: None,
            own: Vec::new(),
            reassembly: Reassembly::default(),
            next_id: 0,
            scratch: vec![0; LARGE].into_boxed_slice(),
            meter: None,
            meter_due: Instant::FAR_FUTURE,
        }
    }

    /// Replaces ports and routes, and returns the previous ports, so that a reload can reuse
    /// those that stay. Before dropping a port, [`retire`](Self::retire) it.
    pub fn replace(&mut self, ports: Vec<RouterPort>, routes: Routes<Target>) -> Vec<RouterPort> {
        let own = ports.iter().flat_map(|port| &port.settings.addresses);
        let table = route_table(routes, own);
        self.install(ports, table).0
    }

    /// Replaces ports and routes like [`replace`](Self::replace), but with a table that was
    /// compiled before. The time this takes does not grow with the routes. It returns the
    /// previous table, so that the caller can drop it elsewhere.
    pub fn install(
        &mut self,
        mut ports: Vec<RouterPort>,
        table: RouteTable<Target>,
    ) -> (Vec<RouterPort>, RouteTable<Target>) {
        for port in &mut ports {
            let (pool, reserve) = (&mut self.store.pool, port.settings.reserve);
            match port.account {
                Account::NONE => port.account = pool.open(reserve),
                account => pool.set_reserve(account, reserve),
            }
        }
        let own = ports.iter().flat_map(|port| &port.settings.addresses);
        self.own = own.copied().collect();
        self.own.sort_unstable();
        self.resting = None;
        self.look_for_clouds();
        let deadlines = ports.iter().map(|port| port.link.deadline());
        self.deadlines
            .reset(deadlines.map(|at| at.unwrap_or(Instant::FAR_FUTURE)));
        (
            std::mem::replace(&mut self.ports, ports),
            std::mem::replace(&mut self.routes, table),
        )
    }

    /// Takes out the ports, for a reload that will [`replace`](Self::replace) them.
    pub fn take_ports(&mut self) -> Vec<RouterPort> {
        std::mem::take(&mut self.ports)
    }

    /// Replaces the settings that do not belong to a port.
    pub fn configure(&mut self, id: Identity, classifier: Classifier, icmp: TokenBucket) {
        self.store.id = id;
        self.classifier = classifier;
        self.icmp = icmp;
    }

    /// Returns the seed of flow and source hashes.
    pub fn hash_seed(&self) -> u64 {
        self.classifier.seed
    }

    /// Returns the packets of a removed port to the pool.
    pub fn retire(&mut self, now: Instant, mut port: RouterPort) {
        port.clear(now, &mut self.store);
        self.store.pool.close(port.account);
    }

    /// Drops all packets in a port's queue and on its wire.
    pub fn clear_port(&mut self, now: Instant, index: usize) {
        if let Some(port) = self.ports.get_mut(index) {
            port.clear(now, &mut self.store);
            self.wake(index);
        }
    }

    /// Returns the ports.
    pub fn ports(&self) -> &[RouterPort] {
        &self.ports
    }

    /// Returns a port that can be changed.
    pub fn port_mut(&mut self, index: usize) -> Option<&mut RouterPort> {
        // Whatever the change, the port must be looked at next.
        self.wake(index);
        self.ports.get_mut(index)
    }

    /// Returns the router's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the counters, so that the driver can count its own events.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Bytes of packet buffers that a port holds.
    pub fn held(&self, port: &RouterPort) -> usize {
        self.store.pool.held(port.account)
    }

    /// Returns the buffer pool.
    pub fn pool(&self) -> &Pool {
        &self.store.pool
    }

    /// Returns the buffer pool for changes.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.store.pool
    }

    /// Bytes of all packet buffers, used or unused.
    pub fn memory(&self) -> usize {
        self.store.pool.allocated()
    }

    /// Counts packets that were read from port `from` and are not forwarded.
    pub fn discard(&mut self, from: usize, why: Refused, packets: u64) {
        if let Some(port) = self.ports.get_mut(from) {
            port.tally.refuse(why, packets);
        }
    }

    /// Counts packets written to the interface of port `port`, by whether it accepted them.
    pub fn wrote(&mut self, port: usize, packets: u64, taken: bool) {
        if let Some(port) = self.ports.get_mut(port) {
            if taken {
                port.tally.written += packets;
            } else {
                port.tally.write_errors += packets;
            }
        }
    }

    pub(super) fn dispatch(
        &mut self,
        now: Instant,
        from: usize,
        buffer: &mut Box<[u8]>,
        offload: Offload,
        route: &Route,
    ) {
        let len = route.layout.len();
        let Some(bytes) = buffer.get(..len) else {
            return;
        };
        let packet = route.whole.map_or(len, |whole| whole.largest());
        let Some(port) = self.ports.get_mut(route.port) else {
            return;
        };
        let believed = match port.settings.shims {
            Trust::All => true,
            ref shims => route
                .layout
                .source(bytes)
                .is_some_and(|source| shims.covers(from, source)),
        };
        let unread = port.settings.shims == Trust::All && !port.link.port().reads_packets();
        let known = if unread {
            Classifier::unread(&route.layout)
        } else {
            let before = route.kernel.before;
            self.classifier
                .classify_first(bytes, &route.layout, packet, before)
        };
        let shim = !believed && known.1.is_shim();
        let (arrival, carrier) = if shim {
            Classifier::plain(known.0)
        } else {
            known
        };
        let Some(whole) = &route.whole else {
            if route.fits {
                port.not_believed += u64::from(shim);
                let mut frame = self.store.pool.keep(buffer, len, offload);
                route.kernel.note(&mut frame);
                self.enqueue(now, route.port, frame, arrival, carrier, 1);
            } else {
                self.fragment(now, bytes, offload, route.port, route.kernel, believed);
            }
            return;
        };
        let packets = u32::try_from(whole.segments()).unwrap_or(u32::MAX);
        let arrival = Arrival {
            bytes: u32::try_from(whole.total()).unwrap_or(u32::MAX),
            ..arrival
        };
        if route.fits
            && port.passes_whole(whole.total())
            && port.link.port().takes_whole(now, &arrival, packets)
            && (!port.link.port().has_controller() || tell_alike(bytes, whole))
        {
            // A waiting packet should not pin more memory than it needs, whereas a packet that
            // passes directly should not cost a copy.
            let waits = port.link.port().depth().packets > 0;
            port.not_believed += if shim { u64::from(packets) } else { 0 };
            let mut frame = if waits {
                self.store.pool.keep(buffer, len, offload)
            } else {
                self.store.pool.swap(buffer, len, offload)
            };
            route.kernel.note(&mut frame);
            self.enqueue(now, route.port, frame, arrival, carrier, packets);
        } else {
            self.cut(now, bytes, whole, route, believed);
        }
    }

    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        port: usize,
        frame: Option<Frame>,
        arrival: Arrival,
        carrier: Carrier,
        packets: u32,
    ) {
        let known = (arrival, carrier, packets);
        self.wake(port);
        enqueue(
            &mut self.ports,
            &mut self.store,
            &mut self.counters,
            now,
            port,
            frame,
            known,
        );
    }

    /// Replaces the routing tables by input port (`None`: the common table), and returns the
    /// previous ones.
    pub fn set_entries(
        &mut self,
        entries: Vec<Option<RouteTable<Target>>>,
    ) -> Vec<Option<RouteTable<Target>>> {
        std::mem::replace(&mut self.entries, entries)
    }

    /// The routes of packets that arrive on port `from`.
    pub(super) fn routes_of(&self, from: usize) -> &RouteTable<Target> {
        match self.entries.get(from) {
            Some(Some(table)) => table,
            _ => &self.routes,
        }
    }

    /// Returns the target for packets to `destination`.
    pub fn route(&self, destination: IpAddr) -> Option<Target> {
        self.routes.lookup(destination).copied()
    }
}

/// Compiles a routing table that includes the router's own addresses.
pub fn route_table<'a>(
    mut routes: Routes<Target>,
    own: impl IntoIterator<Item = &'a IpAddr>,
) -> RouteTable<Target> {
    for address in own {
        routes.insert((*address).into(), Target::Local);
    }
    routes.compile()
}

/// Hands a packet to a port if there is a buffer and the port may hold it; otherwise counts a
/// drop.
#[inline(always)]
pub(super) fn enqueue(
    ports: &mut [RouterPort],
    store: &mut PacketStore,
    counters: &mut Counters,
    now: Instant,
    port: usize,
    frame: Option<Frame>,
    (arrival, carrier, packets): (Arrival, Carrier, u32),
) {
    let Some(port) = ports.get_mut(port) else {
        if let Some(frame) = frame {
            store.pool.give(frame);
        }
        return;
    };
    let Some(mut frame) = frame else {
        counters.no_buffer += u64::from(packets);
        port.no_buffer(packets);
        return;
    };
    if !store.pool.charge(&mut frame, port.account) {
        counters.no_buffer += u64::from(packets);
        port.no_buffer(packets);
        store.pool.give(frame);
        return;
    }
    counters.forwarded += u64::from(packets);
    port.tally.offered += u64::from(packets);
    frame.carrier = carrier;
    port.link.arrive_run(now, arrival, packets, frame, store);
}

/// A packet that may be forwarded, and its output port.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) port: usize,
    pub(super) layout: Layout,
    pub(super) whole: Option<Super>,
    /// True if its packets fit the next link's MTU.
    pub(super) fits: bool,
    /// Hops that the host's kernel subtracts.
    pub(super) kernel: KernelHops,
}

/// Hops that the host's kernel subtracts from a packet's TTL because it forwards the packet too,
/// between a network card and an interface of the router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelHops {
    /// Before the router reads the packet.
    pub(super) before: u8,
    /// After the router has written the packet.
    pub(super) behind: u8,
}

impl KernelHops {
    /// Records in a packet the hops that this machine subtracts.
    pub(super) fn note(self, frame: &mut Option<Frame>) {
        if let Some(frame) = frame {
            frame.hops = self.hops();
        }
    }

    /// The hops that the whole machine subtracts.
    pub(super) fn hops(self) -> u8 {
        self.before.saturating_add(1).saturating_add(self.behind)
    }
}
