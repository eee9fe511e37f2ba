//! Two hosts, and what forwards between them: a router, or a program that only copies.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pathmark_link::keys::{LinkContext, LinkSpec, build_link};
use pathmark_router::config::Interface;
use pathmark_router::forward::{
    Classifier, Identity, PortSettings, Router, RouterConfig, RouterPort, Target,
};
use pathmark_router::ip::{Routes, TokenBucket};
use pathmark_router::tun::{Device, Driver, Pace};
use pathmark_testbed::{Node, Testbed, Tun};
use rustix::event::{PollFd, PollFlags, poll};

pub(crate) const LEFT: &str = "10.0.1.2";

pub(crate) const RIGHT: &str = "10.0.2.2";

pub(crate) struct Hosts {
    pub(crate) left: Node,
    pub(crate) right: Node,
    pub(crate) tuns: [Tun; 2],
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let bed = Testbed::new().expect("this bench needs user namespaces and /dev/net/tun");
        let host = |name: &str, address: &str| {
            let node = bed.node(name).unwrap();
            let tun = node.tun("tun0", 1500).unwrap();
            node.add_address("tun0", format!("{address}/24").parse().unwrap())
                .unwrap();
            node.add_route("0.0.0.0/0".parse().unwrap(), "tun0", None)
                .unwrap();
            (node, tun)
        };
        let (left, a) = host("left", LEFT);
        let (right, b) = host("right", RIGHT);
        Self {
            left,
            right,
            tuns: [a, b],
        }
    }
}

/// Forwards in a thread of its own.
pub(crate) struct Forwarder {
    stop: Arc<AtomicBool>,
    waker: UnixStream,
    /// Gives the CPU time that it took.
    thread: JoinHandle<Duration>,
}

impl Forwarder {
    /// `run` forwards until its flag is set; the socket becomes readable then.
    pub(crate) fn start(run: impl FnOnce(&AtomicBool, &UnixStream) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (waker, wake_fd) = UnixStream::pair().unwrap();
        let flag = stop.clone();
        let thread = thread::spawn(move || {
            run(&flag, &wake_fd);
            // The first number: nanoseconds that this thread has run.
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            let nanos = stat.split(' ').next().unwrap().parse().unwrap();
            Duration::from_nanos(nanos)
        });
        Self {
            stop,
            waker,
            thread,
        }
    }

    pub(crate) fn finish(mut self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.write_all(&[1]).unwrap();
        self.thread.join().unwrap()
    }
}

/// Copies between the interfaces: a read and a write per packet, and nothing else.
pub(crate) fn copy(hosts: &Hosts) -> Forwarder {
    let files = hosts
        .tuns
        .each_ref()
        .map(|tun| File::from(tun.fd.try_clone().unwrap()));
    Forwarder::start(move |stop, wake_fd| {
        let mut buffer = vec![0; 70_000];
        while !stop.load(Ordering::Relaxed) {
            let mut fds = [
                PollFd::new(&files[0], PollFlags::IN),
                PollFd::new(&files[1], PollFlags::IN),
                PollFd::new(wake_fd, PollFlags::IN),
            ];
            poll(&mut fds, None).unwrap();
            let ready = [0, 1].map(|side: usize| !fds[side].revents().is_empty());
            for (side, ready) in ready.into_iter().enumerate() {
                if ready {
                    copy_batch(&files[side], &files[1 - side], &mut buffer);
                }
            }
        }
    })
}

/// Copies what waits, but no more than the router reads before it looks at other interfaces.
/// Packets copied.
pub(crate) fn copy_batch(mut from: &File, mut to: &File, buffer: &mut [u8]) -> u64 {
    for packets in 0..64 {
        match from.read(buffer) {
            Ok(len) => drop(to.write(&buffer[..len])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return packets,
            Err(error) => panic!("{error}"),
        }
    }
    64
}

/// A router between the interfaces, with both its ports like `spec`.
pub(crate) fn driver(hosts: &Hosts, spec: &LinkSpec) -> Driver {
    let router = Router::new(RouterConfig {
        id: Identity::new(1),
        memory: 1 << 28,
        classifier: Classifier {
            shims: true,
            ..Classifier::default()
        },
        icmp: TokenBucket::new(1000, 50),
    });
    let mut driver = Driver::new(router, Pace::default()).unwrap();
    let fds = hosts.tuns.each_ref().map(|tun| tun.fd.as_raw_fd());
    let devices = fds.map(|fd| Device::open(&Interface::Fd(fd), 1500).unwrap());
    let (_, deaf) = driver.set_devices(devices.into());
    assert!(deaf.is_empty(), "{deaf:?}");
    let context = LinkContext {
        now: driver.now(),
        seed: 1,
        name: "bench",
        rtt: None,
    };
    let ports = ["left", "right"].map(|name| {
        let settings = PortSettings {
            name: name.to_owned(),
            mtu: 1500,
            ..PortSettings::default()
        };
        RouterPort::new(settings, build_link(spec, &context).unwrap())
    });
    let mut routes = Routes::new();
    routes.insert("10.0.1.0/24".parse().unwrap(), Target::Port(0));
    routes.insert("10.0.2.0/24".parse().unwrap(), Target::Port(1));
    driver.router_mut().replace(ports.into(), routes);
    driver
}

/// Forwards as `vcp-router` does.
pub(crate) fn route(hosts: &Hosts, spec: &LinkSpec) -> Forwarder {
    let mut driver = driver(hosts, spec);
    Forwarder::start(move |stop, wake_fd| {
        let watched = [wake_fd.as_raw_fd()];
        while !stop.load(Ordering::Relaxed) {
            driver.turn(&watched, None).unwrap();
        }
    })
}

/// Sets the offloads that the router sets, for the next forwarder.
pub(crate) fn set_offloads(hosts: &Hosts) {
    for tun in &hosts.tuns {
        drop(Device::open(&Interface::Fd(tun.fd.as_raw_fd()), 1500).unwrap());
    }
}
