//! Two hosts with a row of routers between them.
//!
//! ```text
//!   sender ──tun── router 0 ──tun── wire 0 ──tun── router 1 ── … ──tun── receiver
//! ```
//!
//! Each router is a separate process. Between two routers, a node forwards between their
//! interfaces, as a kernel between two daemons would. Interfaces outlive their router, so that you
//! can kill a router and start it again.
//!
//! A [`Subnet`] is behind a gateway, with both IP versions.
//!
//! ```text
//!   inside ──a b── gateway ──c d── outside
//! ```
//!
//! The subnet has private addresses, and the nodes outside have addresses for documentation (RFC
//! 5737, RFC 3849).

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tempfile::TempDir;

use crate::{ChildGuard, Error, Node, Testbed, Tun};

/// The sender's address.
pub const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
/// The receiver's address.
pub const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1));

/// Addresses of a chain's hosts and routers, using one IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Only IPv4.
    #[default]
    V4,
    /// Only IPv6.
    V6,
}

impl Addresses {
    /// Returns the sender's address.
    pub const fn sender(self) -> IpAddr {
        match self {
            Self::V4 => SENDER,
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 1, 0, 0, 0, 1)),
        }
    }

    /// Returns the receiver's address.
    pub const fn receiver(self) -> IpAddr {
        match self {
            Self::V4 => RECEIVER,
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 2, 0, 0, 0, 1)),
        }
    }

    /// Returns the address that a router of a chain can use as its own (`addresses` of a port).
    /// The wires have a route to it.
    pub const fn router(self, index: u8) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, 3, index)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 3, 0, 0, 0, index as u16)),
        }
    }

    /// Returns the prefix of all addresses.
    fn everywhere(self) -> IpNet {
        match self {
            Self::V4 => Ipv4Net::default().into(),
            Self::V6 => Ipv6Net::default().into(),
        }
    }
}

/// The program to run as a router, with the arguments of `vcp-router`.
#[derive(Clone, Debug)]
pub struct RouterProgram {
    /// The executable.
    pub program: PathBuf,
    /// Arguments before those of `vcp-router`.
    pub prefix: Vec<String>,
}

/// The two ports of a router, as keys of its configuration (TOML lines, without `name`, `fd` and
/// `mtu`).
#[derive(Clone, Debug, Default)]
pub struct Hop {
    /// The port towards the receiver, called `forward`.
    pub forward: String,
    /// The port towards the sender, called `reverse`.
    pub reverse: String,
}

/// Why a chain could not be created or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// The test bed failed.
    #[error(transparent)]
    Testbed(#[from] Error),
    /// A file or a process failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A router ended before it was ready.
    #[error("the router does not start: {0}")]
    Router(String),
}

/// Two hosts and the routers between them. Dropping this removes everything.
#[derive(Debug)]
pub struct Chain {
    /// The sending host at [`SENDER`], unless the chain uses other [`Addresses`].
    pub sender: Node,
    /// The receiving host at [`RECEIVER`], likewise.
    pub receiver: Node,
    routers: Vec<Router>,
    program: RouterProgram,
    files: TempDir,
    /// Nodes between routers.
    wires: Vec<Node>,
    addresses: Addresses,
}

#[derive(Debug)]
struct Router {
    node: Node,
    tuns: [Tun; 2],
    process: Option<ChildGuard>,
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> ChainError {
    move |source| ChainError::Io { what, source }
}

/// Runs a program on a wire to its end, which is an error unless it succeeds.
fn run(wire: &Node, command: Command, refused: &str) -> io::Result<()> {
    let status = wire.spawn(command, &[])?.wait()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| io::Error::other(refused))
}

impl Chain {
    /// Creates the hosts, the wires and one router per hop, and starts the routers.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn new(program: RouterProgram, mtu: u32, hops: &[Hop]) -> Result<Self, ChainError> {
        Self::with(program, mtu, hops, Addresses::V4, 1)
    }

    /// Like [`new`](Self::new), with other addresses, and with a seed for the random numbers of the
    /// first router. Each further router gets the next seed.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn with(
        program: RouterProgram,
        mtu: u32,
        hops: &[Hop],
        addresses: Addresses,
        seed: u64,
    ) -> Result<Self, ChainError> {
        let bed = Testbed::new()?;
        let (sender, receiver) = (bed.node("sender")?, bed.node("receiver")?);
        let wires = (1..hops.len())
            .map(|index| bed.node(&format!("wire {index}")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut routers = Vec::new();
        for index in 0..hops.len() {
            let left = match index.checked_sub(1).and_then(|before| wires.get(before)) {
                Some(wire) => wire.tun("right", mtu)?,
                None => sender.tun("tun0", mtu)?,
            };
            let right = match wires.get(index) {
                Some(wire) => wire.tun("left", mtu)?,
                None => receiver.tun("tun0", mtu)?,
            };
            routers.push(Router {
                node: bed.node(&format!("router {index}"))?,
                tuns: [left, right],
                process: None,
            });
        }
        let hosts = [addresses.sender(), addresses.receiver()];
        for (node, address) in [&sender, &receiver].into_iter().zip(hosts) {
            node.add_address("tun0", IpNet::from(address))?;
            node.add_route(addresses.everywhere(), "tun0", None)?;
        }
        for (left, wire) in (0..).zip(&wires) {
            wire.forward()?;
            wire.add_route(IpNet::from(addresses.receiver()), "right", None)?;
            wire.add_route(IpNet::from(addresses.sender()), "left", None)?;
            for router in (0..).take(hops.len()) {
                let side = if router <= left { "left" } else { "right" };
                wire.add_route(IpNet::from(addresses.router(router)), side, None)?;
            }
        }
        let files = TempDir::new().map_err(io_error("cannot make a directory"))?;
        let mut chain = Self {
            sender,
            receiver,
            routers,
            program,
            files,
            wires,
            addresses,
        };
        for (index, hop) in hops.iter().enumerate() {
            let config = chain.config(index, hop, mtu, seed.wrapping_add(index as u64));
            fs::write(chain.file(index, "toml"), config)
                .map_err(io_error("cannot write a configuration"))?;
            chain.start(index)?;
        }
        Ok(chain)
    }

    /// Hides the wires from the TTL of the sender's packets, as if they were switches: from now on,
    /// each wire restores the TTL that the previous router left of 64. This needs the program
    /// `nft`.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn hide_wires(&self) -> Result<(), ChainError> {
        for (index, wire) in self.wires.iter().enumerate() {
            let rules = format!(
                "add table ip wire; \
                 add chain ip wire out {{ type filter hook postrouting priority 0; }}; \
                 add rule ip wire out oifname \"right\" ip ttl set {}",
                63 - index.min(62)
            );
            let mut nft = Command::new("nft");
            nft.arg(rules);
            run(wire, nft, "nft refuses the rules").map_err(io_error("cannot run nft"))?;
        }
        Ok(())
    }

    /// Limits the rate of the wire behind router `index`: from now on, its kernel forwards the
    /// sender's packets at `rate` (in the syntax of the program `tc`), using a queue of
    /// `packets` packets in front of a token bucket with room for two packets.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn shape_wire(&self, index: usize, rate: &str, packets: u32) -> Result<(), ChainError> {
        let Some(wire) = self.wires.get(index) else {
            let none = io::Error::from(io::ErrorKind::NotFound);
            return Err(io_error("there is no such wire")(none));
        };
        let limit = packets.to_string();
        let bucket = format!("root handle 1: tbf rate {rate} burst 3000 latency 1s");
        let queue = format!("parent 1:1 handle 10: pfifo limit {limit}");
        for what in [bucket, queue] {
            let mut tc = Command::new("tc");
            tc.args("qdisc add dev right".split(' '))
                .args(what.split(' '));
            run(wire, tc, "tc refuses the queue").map_err(io_error("cannot run tc"))?;
        }
        Ok(())
    }

    fn file(&self, index: usize, suffix: &str) -> PathBuf {
        self.files.path().join(format!("router{index}.{suffix}"))
    }

    fn config(&self, index: usize, hop: &Hop, mtu: u32, seed: u64) -> String {
        let fds = self.routers.get(index).map_or([-1; 2], |router| {
            router.tuns.each_ref().map(|tun| tun.fd.as_raw_fd())
        });
        let [left, right] = fds;
        format!(
            "id = {id}\ncontrol = \"{control}\"\nseed = {seed}\n\n\
             [[port]]\nname = \"forward\"\nfd = {right}\nmtu = {mtu}\n{forward}\n\n\
             [[port]]\nname = \"reverse\"\nfd = {left}\nmtu = {mtu}\n{reverse}\n\n\
             [[route]]\nprefix = \"{receiver}\"\nport = \"forward\"\n\n\
             [[route]]\nprefix = \"{sender}\"\nport = \"reverse\"\n",
            receiver = IpNet::from(self.addresses.receiver()),
            sender = IpNet::from(self.addresses.sender()),
            id = index + 1,
            control = self.control(index).display(),
            forward = hop.forward,
            reverse = hop.reverse,
        )
    }

    /// Returns the path of a router's status socket.
    pub fn control(&self, index: usize) -> PathBuf {
        self.file(index, "sock")
    }

    /// Returns the path of the time series (CSV) that a router writes. The file is complete after
    /// [`stop`](Self::stop).
    pub fn record(&self, index: usize) -> PathBuf {
        self.file(index, "csv")
    }

    /// Starts a router, for example after killing it, and waits until it forwards packets. This has
    /// no effect for an index beyond the last router.
    ///
    /// # Errors
    /// [`ChainError`].
    pub fn start(&mut self, index: usize) -> Result<(), ChainError> {
        let (config, record) = (self.file(index, "toml"), self.record(index));
        let Some(router) = self.routers.get_mut(index) else {
            return Ok(());
        };
        let mut command = Command::new(&self.program.program);
        command
            .args(&self.program.prefix)
            .args([Path::new("run"), Path::new("--json"), Path::new("--config")])
            .args([&config, Path::new("--record"), &record])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let fds = router.tuns.each_ref().map(|tun| tun.fd.as_fd());
        let mut process = router
            .node
            .spawn(command, &fds)
            .map_err(io_error("cannot start a router"))?;
        let mut line = String::new();
        if let Some(output) = process.child().stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(io_error("cannot read from a router"))?;
        }
        if line.is_empty() {
            let mut reason = String::new();
            if let Some(mut errors) = process.child().stderr.take() {
                // The router has ended, so its output is complete.
                let _ = errors.read_to_string(&mut reason);
            }
            return Err(ChainError::Router(reason.trim().to_owned()));
        }
        router.process = Some(process);
        Ok(())
    }

    /// Returns the process of a running router.
    pub fn router(&self, index: usize) -> Option<&ChildGuard> {
        self.routers.get(index)?.process.as_ref()
    }

    fn take(&mut self, index: usize) -> Option<ChildGuard> {
        self.routers.get_mut(index)?.process.take()
    }

    /// Kills a router, as a crash would.
    ///
    /// # Errors
    /// If it has already ended.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.take(index)
            .map_or(Ok(()), |mut process| process.kill().map(drop))
    }

    /// Asks a router to terminate, and waits until it has ended.
    ///
    /// # Errors
    /// If it has already ended.
    pub fn stop(&mut self, index: usize) -> io::Result<()> {
        let Some(mut process) = self.take(index) else {
            return Ok(());
        };
        process.terminate()?;
        process.wait().map(drop)
    }
}

/// An IPv4 and an IPv6 address.
pub type Pair = [IpAddr; 2];

const fn pair(v4: [u8; 4], v6: [u16; 8]) -> Pair {
    [
        IpAddr::V4(Ipv4Addr::from_octets(v4)),
        IpAddr::V6(Ipv6Addr::from_segments(v6)),
    ]
}

/// Addresses of the inside host.
pub const INSIDE: Pair = pair([192, 168, 7, 2], [0xfd00, 7, 0, 0, 0, 0, 0, 2]);
/// Addresses of the gateway on the side of the subnet.
pub const GATEWAY_INSIDE: Pair = pair([192, 168, 7, 1], [0xfd00, 7, 0, 0, 0, 0, 0, 1]);
/// Addresses of the gateway on the outside.
pub const GATEWAY: Pair = pair([203, 0, 113, 1], [0x2001, 0xdb8, 2, 0, 0, 0, 0, 1]);
/// Addresses of the outside host.
pub const OUTSIDE: Pair = pair([203, 0, 113, 2], [0x2001, 0xdb8, 2, 0, 0, 0, 0, 2]);
/// Other addresses of the outside host.
pub const OUTSIDE_TOO: Pair = pair([203, 0, 113, 3], [0x2001, 0xdb8, 2, 0, 0, 0, 0, 3]);

/// The nodes. Dropping this removes them.
#[derive(Clone, Debug)]
pub struct Subnet {
    /// A host in the subnet.
    pub inside: Node,
    /// The gateway, which forwards packets.
    pub gateway: Node,
    /// A host outside, which has a route to the subnet.
    pub outside: Node,
}

impl Subnet {
    /// Creates the nodes and joins them by interfaces with an MTU of 1,500 bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new() -> Result<Self, Error> {
        let bed = Testbed::new()?;
        let (inside, gateway) = (bed.node("inside")?, bed.node("gateway")?);
        let outside = bed.node("outside")?;
        bed.veth((&inside, "a"), (&gateway, "b"), 1500)?;
        bed.veth((&gateway, "c"), (&outside, "d"), 1500)?;
        for (node, interface, addresses) in [
            (&inside, "a", INSIDE),
            (&gateway, "b", GATEWAY_INSIDE),
            (&gateway, "c", GATEWAY),
            (&outside, "d", OUTSIDE),
            (&outside, "d", OUTSIDE_TOO),
        ] {
            for address in addresses {
                let length = if address.is_ipv4() { 24 } else { 64 };
                node.add_address(interface, IpNet::new_assert(address, length))?;
            }
        }
        for (node, interface, [v4, v6]) in [
            (&inside, "a", GATEWAY_INSIDE),
            (&gateway, "c", OUTSIDE),
            (&outside, "d", GATEWAY),
        ] {
            node.add_route(Ipv4Net::default().into(), interface, Some(v4))?;
            node.add_route(Ipv6Net::default().into(), interface, Some(v6))?;
        }
        gateway.forward()?;
        Ok(Self {
            inside,
            gateway,
            outside,
        })
    }
}
