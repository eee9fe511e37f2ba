//! Queries to the kernel about interfaces (their existence, state, MTU and drops), rules and routes
//! (rtnetlink), which require no privileges.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use libc::RTM_GETLINK;

use super::sys;

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_STATS64: u16 = 23;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_OWNER: u16 = 1;
const IFLA_TUN_TYPE: u16 = 3;
const IFLA_TUN_PERSIST: u16 = 6;
const IFLA_TUN_MULTI_QUEUE: u16 = 7;
const IFF_UP: u32 = 0x1;
const IFF_LOWER_UP: u32 = 0x1_0000;
/// Bytes of the `ifinfomsg` in front of the attributes.
const INFO: usize = 16;
/// Index of `tx_dropped` in `rtnl_link_stats64`.
const TX_DROPPED: usize = 7;

/// An interface's state at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Its number.
    pub index: u32,
    /// Its name, which can change while it is open.
    pub name: String,
    /// Its alias, which marks the interfaces that set-up has created.
    pub alias: String,
    /// True if it is up.
    pub up: bool,
    /// True if it has a carrier: for a TUN interface, a program has it open.
    pub held: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Maximum number of packets in its queue.
    pub txqueuelen: u32,
    /// Its addresses, only if these were queried too.
    pub addresses: Vec<IpNet>,
    /// Its kind.
    pub kind: LinkKind,
    /// Packets towards the router that the interface dropped, because its queue was full.
    pub dropped: u64,
}

/// The kinds of interfaces that a router distinguishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// A TUN interface with one queue: IP packets.
    Tun {
        /// True if it outlives the program that has it open.
        persistent: bool,
        /// The number of the user that may open it.
        owner: Option<u32>,
    },
    /// A TUN interface with several queues, which the router does not open.
    MultiQueue,
    /// A TAP interface: Ethernet frames.
    Tap,
    /// Any other, such as a network card or a bridge.
    #[default]
    Other,
}

/// Finds an interface in this process's own network namespace; `None` if none has this name.
///
/// # Errors
/// Errors of querying the kernel.
pub fn find(name: &str) -> io::Result<Option<LinkState>> {
    existing(ask(&mut Socket::open(None)?, 0, name))
}

/// Queries an interface by number, or by name if the number is 0.
fn ask(socket: &mut Socket, index: u32, name: &str) -> io::Result<LinkState> {
    let mut body = vec![0; INFO];
    if let Some(field) = body.get_mut(4..8) {
        field.copy_from_slice(&index.to_ne_bytes());
    }
    if index == 0 {
        push_attribute(&mut body, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    }
    let answer = socket.get(RTM_GETLINK, &body)?;
    link(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `None` for an interface that does not exist.
fn existing(answer: io::Result<LinkState>) -> io::Result<Option<LinkState>> {
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        answer => answer.map(Some),
    }
}

/// All interfaces, without their addresses.
///
/// # Errors
/// Errors of querying the kernel.
pub(crate) fn all(socket: &mut Socket) -> io::Result<Vec<LinkState>> {
    socket.list(RTM_GETLINK, &[0; INFO], link)
}

/// A socket for queries about the interfaces of one network namespace.
#[derive(Debug)]
struct Namespace {
    /// Device and inode of the namespace.
    identity: (u64, u64),
    socket: Mutex<Socket>,
}

impl Namespace {
    fn ask(&self, index: u32, name: &str) -> io::Result<LinkState> {
        let poisoned = |_| io::Error::other("another thread failed while it asked");
        ask(&mut *self.socket.lock().map_err(poisoned)?, index, name)
    }
}

/// An interface that can be queried as long as it stays in its namespace.
#[derive(Clone, Debug)]
pub struct Watch {
    namespace: Arc<Namespace>,
    index: u32,
}

impl Watch {
    /// Returns the interface's current state; `None` if it no longer exists.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn look(&self) -> io::Result<Option<LinkState>> {
        existing(self.namespace.ask(self.index, ""))
    }

    /// Watches the loopback interface in this process's own namespace.
    #[cfg(test)]
    pub(crate) fn loopback() -> Self {
        let namespace = Namespace {
            identity: identity_of(&own().unwrap()).unwrap(),
            socket: Mutex::new(Socket::open(None).unwrap()),
        };
        let index = namespace.ask(0, "lo").unwrap().index;
        Self {
            namespace: Arc::new(namespace),
            index,
        }
    }
}

/// The network namespaces of a router's interfaces, with one socket each.
#[derive(Debug, Default)]
pub struct Namespaces(Vec<Arc<Namespace>>);

impl Namespaces {
    /// Finds the interface `name` of the TUN descriptor `tun`, in whichever namespace it is.
    /// `None` if it cannot be queried, for example because this process may not enter its
    /// namespace.
    pub(super) fn watch(&mut self, tun: RawFd, name: &str) -> Option<Watch> {
        // The kernel returns a namespace only to a process that may administer it. Without this
        // right, the own namespace is a good guess.
        let space = sys::namespace_of(tun).map(File::from).or_else(|_| own());
        let space = space.ok()?;
        let identity = identity_of(&space).ok()?;
        let known = self.0.iter().find(|known| known.identity == identity);
        let namespace = match known {
            Some(known) => Arc::clone(known),
            None => {
                let own = own().and_then(|own| identity_of(&own)).ok();
                let inside = (own != Some(identity)).then(|| OwnedFd::from(space));
                let socket = Socket::open(inside).ok()?;
                let namespace = Arc::new(Namespace {
                    identity,
                    socket: Mutex::new(socket),
                });
                self.0.push(Arc::clone(&namespace));
                namespace
            }
        };
        let index = namespace.ask(0, name).ok()?.index;
        Some(Watch { namespace, index })
    }
}

/// This thread's network namespace.
fn own() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Device and inode, which distinguish namespaces.
fn identity_of(namespace: &File) -> io::Result<(u64, u64)> {
    let found = namespace.metadata()?;
    Ok((found.dev(), found.ino()))
}

fn kind_of(info: &[u8]) -> LinkKind {
    let part = |of, wanted| attributes(of).find(|(part, _)| *part == wanted);
    let named = part(info, IFLA_INFO_KIND).is_some_and(|(_, name)| name.starts_with(b"tun\0"));
    let data = part(info, IFLA_INFO_DATA).map_or(&[][..], |(_, data)| data);
    let is_set = |wanted| part(data, wanted).is_some_and(|(_, value)| value != [0]);
    match part(data, IFLA_TUN_TYPE).and_then(|(_, value)| value.first()) {
        Some(2) if named => LinkKind::Tap,
        _ if named && is_set(IFLA_TUN_MULTI_QUEUE) => LinkKind::MultiQueue,
        _ if named => LinkKind::Tun {
            persistent: is_set(IFLA_TUN_PERSIST),
            owner: part(data, IFLA_TUN_OWNER).and_then(|(_, value)| u32_at(value, 0)),
        },
        _ => LinkKind::Other,
    }
}

/// Parses an interface from `ifinfomsg` and the attributes of `linux/if_link.h`.
pub(crate) fn link(body: &[u8]) -> Option<LinkState> {
    let flags = u32_at(body, 8)?;
    let mut link = LinkState {
        index: u32_at(body, 4)?,
        up: flags & IFF_UP != 0,
        held: flags & IFF_LOWER_UP != 0,
        ..LinkState::default()
    };
    let (mut name, mut mtu, mut dropped) = (None, None, None);
    for (attribute, value) in attributes(body.get(INFO..)?) {
        match attribute {
            IFLA_IFNAME => name = Some(printable(value)),
            IFLA_MTU => mtu = u32_at(value, 0),
            IFLA_TXQLEN => link.txqueuelen = u32_at(value, 0)?,
            IFLA_IFALIAS => link.alias = printable(value),
            IFLA_STATS64 => dropped = u64_at(value, TX_DROPPED * 8),
            IFLA_LINKINFO => link.kind = kind_of(value),
            _ => {}
        }
    }
    Some(LinkState {
        name: name?,
        mtu: mtu?,
        dropped: dropped?,
        ..link
    })
}

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// The list changed while it was read.
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Number of attempts to read a list that keeps changing.
const ATTEMPTS: usize = 8;
/// Answers to abandoned requests that may arrive before the answer to a query.
const STALE: usize = 16;

/// A socket for queries in one network namespace.
#[derive(Debug)]
pub(crate) struct Socket {
    file: File,
    /// Number of the last request.
    sequence: u32,
}

impl Socket {
    /// Opens a socket in this network namespace, or this thread's own.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub(crate) fn open(namespace: Option<OwnedFd>) -> io::Result<Self> {
        let file = File::from(sys::route_socket(namespace)?);
        sys::filter_lists(&file);
        Ok(Self { file, sequence: 0 })
    }

    /// Queries a single entry. `body` is everything behind the header of the request.
    ///
    /// # Errors
    /// Errors of the socket, and of the kernel.
    pub(crate) fn get(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, NLM_F_REQUEST, body)?;
        let mut buffer = vec![0; 32 * 1024];
        for _ in 0..STALE {
            let len = self.file.read(&mut buffer)?;
            for (head, body) in messages(buffer.get(..len).unwrap_or_default()) {
                if u32_at(head, 8) == Some(self.sequence) {
                    return match u16_at(head, 4) {
                        Some(NLMSG_ERROR) => Err(failure(body)),
                        _ => Ok(body.to_vec()),
                    };
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Queries a list, and returns its entries as far as `read` knows them.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and if the list changes during each attempt.
    pub(crate) fn list<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..ATTEMPTS {
            if let Some(whole) = self.list_once(kind, body, &read)? {
                return Ok(whole);
            }
        }
        Err(io::Error::other(
            "the list changed during each attempt to read it",
        ))
    }

    /// Returns `None` if the list changed while it was read.
    fn list_once<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<Vec<T>>> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        let mut buffer = vec![0; 64 * 1024];
        let (mut found, mut whole) = (Vec::new(), true);
        loop {
            let len = self.file.read(&mut buffer)?;
            for (head, body) in messages(buffer.get(..len).unwrap_or_default()) {
                if u32_at(head, 8) != Some(self.sequence) {
                    continue;
                }
                whole &= u16_at(head, 6).unwrap_or(0) & NLM_F_DUMP_INTR == 0;
                match u16_at(head, 4) {
                    Some(NLMSG_ERROR | NLMSG_DONE) if u32_at(body, 0).unwrap_or(0) == 0 => {
                        return Ok(whole.then_some(found));
                    }
                    Some(NLMSG_ERROR | NLMSG_DONE) => return Err(failure(body)),
                    _ => found.extend(read(body)),
                }
            }
        }
    }

    /// Sends a request in native byte order, as netlink requires.
    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let len = u32::try_from(HEADER + body.len()).unwrap_or(0);
        let mut request = Vec::new();
        request.extend(len.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        self.file.write_all(&request)
    }
}

/// The error in the body of a message.
fn failure(body: &[u8]) -> io::Error {
    let code = u32_at(body, 0).unwrap_or(0).wrapping_neg();
    i32::try_from(code).map_or_else(
        |_| io::ErrorKind::InvalidData.into(),
        io::Error::from_raw_os_error,
    )
}

/// Iterates over headers and bodies of a datagram's messages, up to the first truncated one.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let (head, body) = (rest.get(..HEADER)?, rest.get(HEADER..len)?);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((head, body))
    })
}

/// Iterates over attributes and their values, up to the first truncated one.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        // The upper bits are flags about the value's encoding.
        Some((kind & 0x3FFF, value))
    })
}

/// Appends an attribute to the body of a request.
pub(crate) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).unwrap_or(0);
    body.extend(len.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns a text without its terminating zero. The kernel allows nearly any bytes in it, so
/// control characters become `?`.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_reported() {
        let watch = Watch::loopback();
        let found = watch.look().unwrap().unwrap();
        assert!(found.mtu >= 1500, "{found:?}");
        assert_eq!((found.kind, found.name.as_str()), (LinkKind::Other, "lo"));
        let named = find("lo").unwrap().map(|link| link.index);
        assert_eq!(named, Some(found.index));
        assert_eq!(find("none-of-this").unwrap(), None);
        let gone = Watch {
            index: i32::MAX as u32,
            ..watch
        };
        assert_eq!(gone.look().unwrap(), None);
    }

    #[test]
    fn names_are_fit_to_print() {
        assert_eq!(printable(b"wan0\0"), "wan0");
        assert_eq!(printable(b"a\x1b[2J\x7f"), "a?[2J?");
        assert_eq!(printable(b"a\xff\0b"), "a\u{fffd}");
        assert_eq!(printable(b""), "");
    }
}
