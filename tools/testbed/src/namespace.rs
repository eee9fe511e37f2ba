//! The test bed's user namespace and its nodes, and tests that need their own process.

use std::ffi::CString;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use ipnet::IpNet;
use rustix::net::netdevice::name_to_index;
use rustix::process::{getegid, geteuid};

use crate::Error;
use crate::netlink::Netlink;
use crate::sys::{self, Enter, Operation};

/// A user namespace in which this user is root, and which contains the nodes.
#[derive(Clone)]
pub struct Testbed {
    user: Arc<OwnedFd>,
}

/// A host or a link: a network namespace with its loopback interface up.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    user: Arc<OwnedFd>,
    net: OwnedFd,
    netlink: Mutex<Netlink>,
}

/// A TUN interface of a node, seen from the router's side. Packets that the node sends through the
/// interface can be read from the descriptor, and packets written to the descriptor arrive at the
/// node.
///
/// Packets have a virtio-net header (`IFF_NO_PI | IFF_VNET_HDR`). The descriptor is non-blocking.
/// It is closed when a program is executed, unless you pass it on with [`Node::spawn`].
#[derive(Debug)]
pub struct Tun {
    /// Interface name.
    pub name: String,
    /// The router's end.
    pub fd: OwnedFd,
}

impl Testbed {
    /// Creates the user namespace.
    ///
    /// # Errors
    /// [`Error::UserNamespace`] if the machine forbids them.
    pub fn new() -> Result<Self, Error> {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let (uid_map, gid_map) = (format!("0 {uid} 1\n"), format!("0 {gid} 1\n"));
        let operation = Operation::NewUserNamespace {
            uid_map: uid_map.as_bytes(),
            gid_map: gid_map.as_bytes(),
        };
        let user = sys::run(None, &operation)
            .and_then(expect_fd)
            .map_err(Error::UserNamespace)?;
        Ok(Self {
            user: Arc::new(user),
        })
    }

    /// Creates a node. Its name is only used in messages.
    ///
    /// # Errors
    /// [`Error::NetworkNamespace`] if the machine forbids them or has none left.
    pub fn node(&self, name: &str) -> Result<Node, Error> {
        let enter = Enter {
            user: self.user.as_fd(),
            net: None,
        };
        let net = sys::run(Some(enter), &Operation::NewNetNamespace)
            .and_then(expect_fd)
            .map_err(Error::NetworkNamespace)?;
        let enter = Enter {
            user: self.user.as_fd(),
            net: Some(net.as_fd()),
        };
        let netlink = Netlink::open(enter).map_err(Error::NetworkNamespace)?;
        let node = Node {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                user: Arc::clone(&self.user),
                net,
                netlink: Mutex::new(netlink),
            }),
        };
        node.set_up("lo")?;
        Ok(node)
    }

    /// Joins two nodes by a veth pair (with all its offloads) that is up at both ends. `mtu` is in
    /// bytes of IP packet.
    ///
    /// # Errors
    /// [`Error::Configure`] if the kernel refuses, [`Error::InterfaceName`] if a name is invalid.
    pub fn veth(&self, a: (&Node, &str), b: (&Node, &str), mtu: u32) -> Result<(), Error> {
        let (name_a, name_b) = (interface_name(a.1)?, interface_name(b.1)?);
        a.0.configure("make a veth pair", |netlink| {
            netlink.add_veth(name_a, name_b, b.0.inner.net.as_fd(), mtu)
        })?;
        for (node, name) in [(a.0, name_a), (b.0, name_b)] {
            node.configure("bring a veth end up", |netlink| netlink.set_up(name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Testbed").finish_non_exhaustive()
    }
}

impl Node {
    /// Returns the name for messages.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Creates a TUN interface that is up and has the given MTU (bytes of IP packet).
    ///
    /// # Errors
    /// [`Error::Tun`] if `/dev/net/tun` can't be opened, [`Error::InterfaceName`],
    /// [`Error::Configure`].
    pub fn tun(&self, name: &str, mtu: u32) -> Result<Tun, Error> {
        let raw = interface_name(name)?;
        let fd = sys::run(Some(self.enter()), &Operation::Tun { name: raw })
            .and_then(expect_fd)
            .map_err(Error::Tun)?;
        self.configure("set the MTU of a TUN interface", |netlink| {
            netlink.set_mtu(raw, mtu)
        })?;
        self.set_up(name)?;
        Ok(Tun {
            name: name.to_owned(),
            fd,
        })
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// [`Error::Configure`] if there is no interface with this name, [`Error::InterfaceName`].
    pub fn set_up(&self, interface: &str) -> Result<(), Error> {
        let raw = interface_name(interface)?;
        self.configure(&format!("bring {interface} up"), |netlink| {
            netlink.set_up(raw)
        })
    }

    /// Sets an interface's MTU (bytes of IP packet).
    ///
    /// # Errors
    /// [`Error::Configure`] if there is no interface with this name or it doesn't support this MTU,
    /// [`Error::InterfaceName`].
    pub fn set_mtu(&self, interface: &str, mtu: u32) -> Result<(), Error> {
        let raw = interface_name(interface)?;
        self.configure(&format!("set the MTU of {interface}"), |netlink| {
            netlink.set_mtu(raw, mtu)
        })
    }

    /// Adds an address to an interface. For IPv6, this skips duplicate address detection.
    ///
    /// # Errors
    /// [`Error::Configure`] if the kernel refuses, [`Error::InterfaceName`].
    pub fn add_address(&self, interface: &str, address: IpNet) -> Result<(), Error> {
        let raw = interface_name(interface)?;
        self.configure(&format!("add {address} to {interface}"), |netlink| {
            netlink.add_address(raw, address)
        })
    }

    /// Routes a prefix through an interface, and through `gateway` if this is given.
    ///
    /// # Errors
    /// [`Error::Configure`] if the kernel refuses, [`Error::InterfaceName`].
    pub fn add_route(
        &self,
        destination: IpNet,
        interface: &str,
        gateway: Option<IpAddr>,
    ) -> Result<(), Error> {
        let raw = interface_name(interface)?;
        self.configure(&format!("route {destination} to {interface}"), |netlink| {
            netlink.add_route(destination, raw, gateway)
        })
    }

    /// Sets a sysctl of this namespace, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// [`Error::Configure`] if there is no sysctl with this name or if the value is refused.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), Error> {
        let failed = |source| Error::Configure {
            what: format!("set {key} to {value}"),
            node: self.inner.name.clone(),
            source,
        };
        let path = CString::new(format!("/proc/sys/{}", key.replace('.', "/")))
            .map_err(|error| failed(io::Error::other(error)))?;
        let operation = Operation::Write {
            path: &path,
            value: value.as_bytes(),
        };
        sys::run(Some(self.enter()), &operation)
            .map(drop)
            .map_err(failed)
    }

    /// Makes the node forward packets between its interfaces (IPv4 and IPv6).
    ///
    /// # Errors
    /// As for [`sysctl`](Self::sysctl).
    pub fn forward(&self) -> Result<(), Error> {
        self.sysctl("net.ipv4.ip_forward", "1")?;
        self.sysctl("net.ipv6.conf.all.forwarding", "1")
    }

    /// Opens a socket that sends and receives whole Ethernet frames on one interface (packet(7)).
    ///
    /// # Errors
    /// [`Error::Configure`] if the kernel refuses, [`Error::InterfaceName`].
    pub fn frames(&self, interface: &str) -> Result<OwnedFd, Error> {
        let name = interface_name(interface)?;
        let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
        let socket = self.socket(libc::AF_PACKET, libc::SOCK_RAW, protocol)?;
        name_to_index(&socket, name)
            .map_err(io::Error::from)
            .and_then(|index| sys::bind_frames(socket.as_fd(), index))
            .map_err(|source| Error::Configure {
                what: format!("bind a socket to {interface}"),
                node: self.inner.name.clone(),
                source,
            })?;
        Ok(socket)
    }

    /// Opens a socket that belongs to this node, no matter which thread uses it. The arguments are
    /// constants of `libc`.
    ///
    /// # Errors
    /// [`Error::Configure`] if the kernel refuses.
    pub fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Error> {
        let operation = Operation::Socket {
            domain,
            kind,
            protocol,
        };
        sys::run(Some(self.enter()), &operation)
            .and_then(expect_fd)
            .map_err(|source| Error::Configure {
                what: "open a socket".to_owned(),
                node: self.inner.name.clone(),
                source,
            })
    }

    /// Binds a UDP socket on this node.
    ///
    /// # Errors
    /// [`Error::Configure`] if the address doesn't belong to the node.
    pub fn udp(&self, address: SocketAddr) -> Result<UdpSocket, Error> {
        let fd = self.socket(domain(address), libc::SOCK_DGRAM, 0)?;
        self.bound(rustix::net::bind(&fd, &address), address)?;
        Ok(UdpSocket::from(fd))
    }

    /// Creates a TCP listener on this node.
    ///
    /// # Errors
    /// [`Error::Configure`] if the address doesn't belong to the node.
    pub fn tcp_listener(&self, address: SocketAddr) -> Result<TcpListener, Error> {
        let fd = self.socket(domain(address), libc::SOCK_STREAM, 0)?;
        let bound = rustix::net::bind(&fd, &address);
        self.bound(bound.and_then(|()| rustix::net::listen(&fd, 1024)), address)?;
        Ok(TcpListener::from(fd))
    }

    /// Returns the descriptors of the namespaces: user, network.
    pub fn namespaces(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.inner.user.as_fd(), self.inner.net.as_fd())
    }

    fn bound(&self, result: rustix::io::Result<()>, address: SocketAddr) -> Result<(), Error> {
        result.map_err(|source| Error::Configure {
            what: format!("bind {address}"),
            node: self.inner.name.clone(),
            source: source.into(),
        })
    }

    fn enter(&self) -> Enter<'_> {
        Enter {
            user: self.inner.user.as_fd(),
            net: Some(self.inner.net.as_fd()),
        }
    }

    fn configure<T>(
        &self,
        what: &str,
        f: impl FnOnce(&mut Netlink) -> io::Result<T>,
    ) -> Result<T, Error> {
        let mut netlink = self
            .inner
            .netlink
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        f(&mut netlink).map_err(|source| Error::Configure {
            what: what.to_owned(),
            node: self.inner.name.clone(),
            source,
        })
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.inner.name).finish()
    }
}

fn domain(address: SocketAddr) -> i32 {
    if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    }
}

fn expect_fd(fd: Option<OwnedFd>) -> io::Result<OwnedFd> {
    fd.ok_or_else(|| io::Error::other("the kernel passed no descriptor"))
}

fn interface_name(name: &str) -> Result<&str, Error> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(is_plain) {
        return Err(Error::InterfaceName(name.to_owned()));
    }
    Ok(name)
}

/// Names the test in the environment of the process that runs it.
const OWN: &str = "PATHMARK_TEST_OF_THIS_PROCESS";

/// Runs `test` in its own process, by starting this test program again for the single test `name`,
/// which is its path in the program, for example `memory::connections_at_rest_are_small`.
///
/// The tests of a program share its process. A test that measures the memory of its process, counts
/// its descriptors or lowers one of its limits would disturb other tests, and would be disturbed by
/// them.
///
/// # Panics
///
/// If `test` panics, or if the program has no test with this name.
pub fn own_process(name: &str, test: impl FnOnce()) {
    if std::env::var(OWN).is_ok_and(|own| own == name) {
        test();
        return;
    }
    let program = std::env::current_exe().expect("a test has a program");
    let output = Command::new(program)
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env(OWN, name)
        .output()
        .expect("a test program can be started");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(
        output.status.success() && said.contains("1 passed"),
        "`{name}` failed in its own process"
    );
}
