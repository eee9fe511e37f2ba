//! XCP-i at a host (feature `xcp-i`), for hops without XCP between the host and the nearest XCP-i
//! router.
//!
//! If such hops precede a sender's first XCP-i router, the sender acts as the router before them,
//! and [answers](HostEdge::answering) the router that measures these hops. If such hops follow a
//! receiver's last XCP-i router, the receiver acts as the router behind them: it
//! [measures](HostEdge::measuring) these hops and has virtual routers for them ([`HostClouds`]),
//! which you put into an endpoint's configuration by calling [`count_hops`]. You must request both
//! explicitly, and both need the secret that the routers share. `docs/wire.md` defines the messages
//! in section 9.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use pathmark_cc::{Instant, Upstream};
use pathmark_driver::now;
use pathmark_protocols::signals;
use pathmark_transport::TransportConfig;
use xcp_edge::{Edge, Estimator, Key, Limits, Measurer, Prober, Requester};

pub use pathmark_protocols::signals::HostClouds;
pub use xcp_edge::ShortSecret;

/// UDP port for messages, the default of the routers.
const PORT: u16 = 6653;
/// Largest UDP payload of a packet in a train. It fits into 1500 bytes with either version of IP.
const PACKET: u16 = 1452;
/// How far trains can run ahead of their rate, in seconds.
const AHEAD: u64 = 10;
/// Interval between estimates.
const EVERY: Duration = Duration::from_millis(50);
/// How many messages are read before sending others, so that flooding the port can't keep this host
/// from sending.
const AT_ONCE: usize = 64;
/// Longest time to wait for a message.
const LONG: Duration = Duration::from_millis(500);
/// Largest number of routers whose clouds are measured.
const MOST_NAMED: usize = 32;

/// Puts a receiver's virtual routers into the configuration of an endpoint, so that packets
/// arriving by XCP from behind hops without XCP go through these routers. You should pass the same
/// `clouds` to [`HostEdge::measuring`].
pub fn count_hops(config: &mut TransportConfig, clouds: &HostClouds) {
    signals::count_clouds(config, clouds);
}

/// A host's part in XCP-i: the measurements that it makes, and those that it lets routers make.
/// After configuring this, call [`start`](Self::start).
#[derive(Debug)]
pub struct HostEdge {
    own: IpAddr,
    key: Key,
    /// Bytes per second for trains, on average.
    rate: u64,
    clouds: Option<HostClouds>,
}

/// A thread that handles messages while you keep this value. Dropping it waits for the thread,
/// which takes half a second at most.
#[derive(Debug)]
pub struct RunningEdge {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningEdge {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl HostEdge {
    /// Creates the part of a host with the address `own`, which no NAT on the path may translate,
    /// and the `secret` that it shares with routers.
    ///
    /// # Errors
    /// [`ShortSecret`] if `secret` has fewer than 16 bytes.
    pub fn new(own: IpAddr, secret: &[u8]) -> Result<Self, ShortSecret> {
        Ok(Self {
            own,
            key: Key::new(secret)?,
            rate: 0,
            clouds: None,
        })
    }

    /// Sends the trains of packets that routers request, using up to `rate` bytes per second over
    /// time, and up to ten seconds of this rate at once.
    #[must_use]
    pub const fn answering(mut self, rate: u64) -> Self {
        self.rate = rate;
        self
    }

    /// Requests trains of packets from the routers that headers name, and puts the estimates into
    /// `clouds`. Trains take 1 % of the capacity of those hops over time, and up to 5 % in the
    /// first two seconds.
    #[must_use]
    pub fn measuring(mut self, clouds: HostClouds) -> Self {
        self.clouds = Some(clouds);
        self
    }

    /// Starts a thread for messages, which runs until you drop the returned value.
    ///
    /// # Errors
    /// If UDP port 6653 of the host's address can't be bound, if the system provides no random
    /// numbers, or if the thread can't be started.
    pub fn start(self) -> io::Result<RunningEdge> {
        let socket = UdpSocket::bind(SocketAddr::new(self.own, PORT))?;
        socket.set_nonblocking(true)?;
        let (mut start, mut run) = ([0; 32], [0; 8]);
        let mut random = File::open("/dev/urandom")?;
        random.read_exact(&mut start)?;
        random.read_exact(&mut run)?;
        let limits = Limits {
            rate: self.rate,
            burst: self.rate.saturating_mul(AHEAD),
            packet: PACKET,
        };
        let start = Key::new(&start).map_err(io::Error::other)?;
        let (begin, key) = (now(), self.key);
        let prober = Prober::new(begin, self.own, key.clone(), start, limits);
        let first = Estimator::first_train(PACKET);
        let run = u64::from_ne_bytes(run);
        let requester = Requester::new(begin, self.own, key.clone(), run, first);
        let over = Arc::new(AtomicBool::new(false));
        let work = Work {
            socket,
            measurer: Measurer::new(Edge::new(self.own, key, prober, requester), PACKET),
            own: self.own,
            clouds: self.clouds,
            named: Vec::with_capacity(MOST_NAMED),
            next: begin,
            over: Arc::clone(&over),
        };
        let thread = std::thread::Builder::new()
            .name("xcp-i".to_owned())
            .spawn(move || work.run())?;
        Ok(RunningEdge {
            over,
            thread: Some(thread),
        })
    }
}

/// The state that the thread owns.
struct Work {
    socket: UdpSocket,
    measurer: Measurer,
    own: IpAddr,
    clouds: Option<HostClouds>,
    /// Scratch space for collecting the routers to measure.
    named: Vec<(Upstream, IpAddr, u64)>,
    /// When the next estimates are due.
    next: Instant,
    over: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self) {
        let (mut coming, mut going) = ([0; 2048], [0; 2048]);
        while !self.over.load(Ordering::Relaxed) {
            self.tell();
            while let Some(transmit) = self.measurer.poll_transmit(now(), &mut going) {
                // A packet of a train that is lost here counts as lost on the path.
                let _ = self
                    .socket
                    .send_to(going.get(..transmit.len).unwrap_or(&[]), transmit.to);
            }
            self.wait();
            for _ in 0..AT_ONCE {
                // The socket also reports ICMP messages about earlier packets as errors.
                let Ok((len, from)) = self.socket.recv_from(&mut coming) else {
                    break;
                };
                let bytes = coming.get(..len).unwrap_or(&[]);
                let clouds = self.clouds.as_ref();
                let own = || clouds.map_or(0, |clouds| came_from(clouds, from.ip()));
                self.measurer.on_datagram(now(), from, bytes, own);
            }
        }
    }

    /// Waits until a message arrives or something is due.
    fn wait(&self) {
        let estimates = self.clouds.is_some().then_some(self.next);
        let due = [self.measurer.deadline(), estimates];
        let wait = due.into_iter().flatten().min();
        let wait = wait.map_or(LONG, |at| at.saturating_since(now()).min(LONG));
        let mut sockets = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        // A signal can end this wait early, which is harmless.
        let _ = ppoll(&mut sockets, Some(TimeSpec::from(wait)), None);
    }

    /// Passes due estimates of the hops' spare capacity to the virtual routers.
    fn tell(&mut self) {
        let now = now();
        let Some(clouds) = self.clouds.as_ref().filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + EVERY;
        self.named.clear();
        let (own, named) = (self.own, &mut self.named);
        clouds.visit(&mut |upstream, bytes| {
            let address = upstream.address();
            if address != own && named.len() < MOST_NAMED {
                named.push((upstream, address, bytes));
            }
        });
        for (upstream, address, bytes) in &self.named {
            let from = SocketAddr::new(*address, PORT);
            if let Some(estimate) = self.measurer.estimate(now, from, *bytes) {
                clouds.tell(now, *upstream, &estimate);
            }
        }
    }
}

/// Returns the number of bytes that have arrived from behind the router at `address`.
fn came_from(clouds: &HostClouds, address: IpAddr) -> u64 {
    let mut came = 0;
    clouds.visit(&mut |upstream, bytes| {
        if Some(upstream) == Upstream::of(address) {
            came = bytes;
        }
    });
    came
}
