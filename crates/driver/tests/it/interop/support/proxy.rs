//! An unreliable path between one client and one server, controlled by rules and a seed.
//!
//! The fate of the n-th datagram of a direction only depends on the seed, the direction and n, and
//! not on its time of arrival. This works on loopback only; the proxy ends when it is dropped.

use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Largest datagram that passes.
const MAX_DATAGRAM: usize = 65_536;
/// Datagrams that can be in flight at a time. Others are dropped, as by any queue.
const MAX_HELD: usize = 16_384;
/// Datagrams read from one socket before the other's turn.
const BURST: usize = 64;

/// A bijection of 64-bit numbers whose outputs look random (SplitMix64's finalizer).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How a path treats datagrams. Probabilities are in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) drop: u16,
    pub(crate) duplicate: u16,
    /// One to eight bits are flipped.
    pub(crate) corrupt: u16,
    /// Datagrams of a direction that can be dropped or corrupted in a row. The next one passes.
    pub(crate) burst: u32,
    /// The datagram is held back for [`hold`](Self::hold), so that later datagrams overtake it.
    pub(crate) reorder: u16,
    pub(crate) hold: Duration,
    /// One-way delay of every datagram.
    pub(crate) delay: Duration,
    /// Datagrams with more bytes of UDP payload are dropped.
    pub(crate) mtu: usize,
    /// Datagrams are dropped if they begin like a shim (first byte 8 to 15), which no packet of
    /// QUIC version 1 does.
    pub(crate) eats_shims: bool,
}

impl Weather {
    /// A path without faults.
    pub(crate) const FAIR: Self = Self {
        drop: 0,
        duplicate: 0,
        corrupt: 0,
        burst: u32::MAX,
        reorder: 0,
        hold: Duration::from_millis(4),
        delay: Duration::ZERO,
        mtu: MAX_DATAGRAM,
        eats_shims: false,
    };

    /// Returns a fair path with a change.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut weather = Self::FAIR;
        change(&mut weather);
        weather
    }
}

/// How many datagrams suffered each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toll {
    pub(crate) passed: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
    pub(crate) reordered: u64,
    pub(crate) too_large: u64,
    pub(crate) shims_eaten: u64,
}

/// A datagram that passed, as it arrived at the proxy.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    /// Time since the proxy started.
    pub(crate) at: Duration,
    pub(crate) from_client: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The proxy. Clients send to its [`address`](Self::address).
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    weather: Weather,
    server: SocketAddr,
    toll: Toll,
    /// The next datagram to the server will be sent from a new port, as after a restart of a NAT.
    rebind: Option<Ipv4Addr>,
    passed: Option<Vec<Passed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    drop: bool,
    duplicate: bool,
    reorder: bool,
    /// Random number that selects the flipped bits.
    corrupt: Option<u64>,
}

impl Fate {
    fn of(weather: &Weather, seed: u64, from_client: bool, n: u64) -> Self {
        let root = mix(seed ^ mix(2 * n + u64::from(from_client)));
        let draw = |lane: u64, share: u16| mix(root ^ lane) % 1000 < u64::from(share);
        Self {
            drop: draw(1, weather.drop),
            duplicate: draw(2, weather.duplicate),
            reorder: draw(3, weather.reorder),
            corrupt: draw(4, weather.corrupt).then(|| mix(root ^ 5)),
        }
    }

    /// Spares the datagram if `limit` datagrams before it were dropped or corrupted.
    fn limit_burst(&mut self, limit: u32, harmed: &mut u32) {
        if *harmed >= limit {
            self.drop = false;
            self.corrupt = None;
        }
        let is_harmed = self.drop || self.corrupt.is_some();
        *harmed = if is_harmed { *harmed + 1 } else { 0 };
    }
}

fn corrupt(bytes: &mut [u8], mut draw: u64) {
    let bits = 8 * bytes.len() as u64;
    if bits == 0 {
        return;
    }
    for _ in 0..=(draw % 8) {
        draw = mix(draw);
        let bit = draw % bits;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

/// A datagram in flight.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    due: Instant,
    /// Order among datagrams due at the same time.
    serial: u64,
    from_client: bool,
    bytes: Vec<u8>,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The heap returns the greatest entry first, which must be the earliest datagram.
        (other.due, other.serial).cmp(&(self.due, self.serial))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr, weather: Weather, seed: u64) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            weather,
            server,
            toll: Toll::default(),
            rebind: None,
            passed: None,
        }));
        let front = bind().await.unwrap();
        let back = bind().await.unwrap();
        let address = front.local_addr().unwrap();
        let path = Path {
            shared: Arc::clone(&shared),
            front,
            back,
            client: None,
            seed,
            counts: [0; 2],
            harmed: [0; 2],
            held: BinaryHeap::new(),
            serial: 0,
            began: Instant::now(),
        };
        let task = tokio::spawn(path.run());
        Self {
            address,
            shared,
            task,
        }
    }

    /// Returns the address to which clients send.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Ends the proxy, waits until its sockets are closed, and returns the counts of faults.
    pub(crate) async fn end(mut self) -> Toll {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.toll()
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// From now on, sends the client's datagrams to another server.
    pub(crate) fn set_server(&self, server: SocketAddr) {
        self.lock().server = server;
    }

    /// From now on, the server sees the client at another port, and its datagrams to the old port
    /// are lost.
    pub(crate) fn rebind(&self) {
        self.rebind_at(Ipv4Addr::LOCALHOST);
    }

    /// The same at another address.
    pub(crate) fn rebind_at(&self, address: Ipv4Addr) {
        self.lock().rebind = Some(address);
    }

    pub(crate) fn toll(&self) -> Toll {
        self.lock().toll
    }

    /// Keeps a copy of each datagram from now on.
    pub(crate) fn record(&self) {
        self.lock().passed = Some(Vec::new());
    }

    /// Returns the copies.
    pub(crate) fn take_record(&self) -> Vec<Passed> {
        self.lock().passed.take().unwrap_or_default()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn bind() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await
}

/// The proxy's task.
struct Path {
    shared: Arc<Mutex<Shared>>,
    /// Socket on the client's side.
    front: UdpSocket,
    /// Socket on the server's side.
    back: UdpSocket,
    client: Option<SocketAddr>,
    seed: u64,
    /// Number of datagrams so far from the server and from the client.
    counts: [u64; 2],
    /// Number of them that were dropped or corrupted in a row until now.
    harmed: [u32; 2],
    held: BinaryHeap<Held>,
    serial: u64,
    began: Instant,
}

impl Path {
    async fn run(mut self) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let due = self.held.peek().map(|held| held.due);
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.front.readable() => self.take(true, &mut buffer).await,
                _ = self.back.readable() => self.take(false, &mut buffer).await,
                () = wait => {}
            }
            self.release().await;
        }
    }

    /// Receives the datagrams that have arrived from one side.
    async fn take(&mut self, from_client: bool, buffer: &mut [u8]) {
        for _ in 0..BURST {
            let socket = if from_client { &self.front } else { &self.back };
            match socket.try_recv_from(buffer) {
                Ok((length, from)) => {
                    if from_client {
                        self.client = Some(from);
                    }
                    self.judge(from_client, &buffer[..length]).await;
                }
                // An ICMP refusal of an earlier datagram is also reported as an error, so only an
                // empty queue ends the turn.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }

    async fn judge(&mut self, from_client: bool, bytes: &[u8]) {
        let direction = usize::from(from_client);
        let n = self.counts[direction];
        self.counts[direction] += 1;
        let mut bytes = bytes.to_vec();
        let (fate, hold, delay, rebind) = {
            let shared = &mut *lock(&self.shared);
            let weather = shared.weather;
            let toll = &mut shared.toll;
            let mut fate = Fate::of(&weather, self.seed, from_client, n);
            fate.limit_burst(weather.burst, &mut self.harmed[direction]);
            if bytes.len() > weather.mtu {
                toll.too_large += 1;
                return;
            }
            if weather.eats_shims && bytes.first().is_some_and(|b| (8..16).contains(b)) {
                toll.shims_eaten += 1;
                return;
            }
            if fate.drop || self.held.len() >= MAX_HELD {
                toll.dropped += 1;
                return;
            }
            toll.passed += 1;
            toll.duplicated += u64::from(fate.duplicate);
            toll.reordered += u64::from(fate.reorder);
            if let Some(draw) = fate.corrupt {
                toll.corrupted += 1;
                corrupt(&mut bytes, draw);
            }
            if let Some(passed) = &mut shared.passed {
                passed.push(Passed {
                    at: self.began.elapsed(),
                    from_client,
                    bytes: bytes.clone(),
                });
            }
            let rebind = shared.rebind.take_if(|_| from_client);
            (fate, weather.hold, weather.delay, rebind)
        };
        if let Some(address) = rebind {
            self.back = UdpSocket::bind((address, 0)).await.unwrap();
        }
        let now = Instant::now();
        let due = now + delay + if fate.reorder { hold } else { Duration::ZERO };
        for copy in 0..=u32::from(fate.duplicate) {
            self.serial += 1;
            self.held.push(Held {
                // The copy arrives a little later, as over another route.
                due: due + Duration::from_millis(1) * copy,
                serial: self.serial,
                from_client,
                bytes: bytes.clone(),
            });
        }
    }

    /// Sends the datagrams that are due.
    async fn release(&mut self) {
        let now = Instant::now();
        while let Some(first) = self.held.peek() {
            if first.due > now {
                return;
            }
            let Some(held) = self.held.pop() else {
                return;
            };
            // A datagram that the kernel refuses counts as lost.
            let _ = if held.from_client {
                let server = lock(&self.shared).server;
                self.back.send_to(&held.bytes, server).await
            } else if let Some(client) = self.client {
                self.front.send_to(&held.bytes, client).await
            } else {
                Ok(0)
            };
        }
    }
}

#[test]
fn fates_follow_from_seed_direction_and_number_and_keep_their_shares() {
    let weather = Weather {
        drop: 20,
        duplicate: 50,
        corrupt: 10,
        reorder: 100,
        ..Weather::FAIR
    };
    let fates = |seed, from_client| {
        (0..100_000)
            .map(|n| Fate::of(&weather, seed, from_client, n))
            .collect::<Vec<_>>()
    };
    let first = fates(1, true);
    assert!(first == fates(1, true));
    assert!(first != fates(1, false));
    assert!(first != fates(2, true));
    let share = |test: fn(&Fate) -> bool| first.iter().filter(|f| test(f)).count();
    assert!((1_850..=2_150).contains(&share(|f| f.drop)));
    assert!((4_700..=5_300).contains(&share(|f| f.duplicate)));
    assert!((9_600..=10_400).contains(&share(|f| f.reorder)));
    assert!((900..=1_100).contains(&share(|f| f.corrupt.is_some())));
}

#[test]
fn no_more_datagrams_in_a_row_are_harmed_than_the_limit_of_a_burst() {
    let weather = Weather {
        drop: 300,
        corrupt: 300,
        ..Weather::FAIR
    };
    let mut harmed = 0;
    let mut longest = 0;
    for n in 0..10_000 {
        Fate::of(&weather, 1, true, n).limit_burst(3, &mut harmed);
        longest = longest.max(harmed);
    }
    assert_eq!(longest, 3);
}
