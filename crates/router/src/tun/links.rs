//! Queries the kernel about an interface (rtnetlink): its existence, state, MTU and drops.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use super::sys;

const RTM_GETLINK: u16 = 18;
const RTM_NEWLINK: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_TYPE: u16 = 3;
const IFLA_TUN_MULTI_QUEUE: u16 = 7;
const IFF_UP: u32 = 0x1;
const IFF_LOWER_UP: u32 = 0x1_0000;
/// Bytes of a message's header, and of the `ifinfomsg` behind it.
const HEADER: usize = 16;
const INFO: usize = 16;
/// Index of `tx_dropped` in `rtnl_link_stats64`.
const TX_DROPPED: usize = 7;

/// An interface's state at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its number.
    pub index: u32,
    /// Its name, which can change while it is open.
    pub name: String,
    /// True if it is up, and a program has it open.
    pub up: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its kind.
    pub kind: LinkKind,
    /// Packets towards the router that the interface dropped, because its queue was full.
    pub dropped: u64,
}

/// The kinds of interfaces that a router distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A TUN interface with one queue: IP packets.
    Tun,
    /// A TUN interface with several queues, which the router does not open.
    MultiQueue,
    /// A TAP interface: Ethernet frames.
    Tap,
    /// Any other, such as a network card or a bridge.
    Other,
}

/// Finds an interface in this process's own network namespace; `None` if none has this name.
///
/// # Errors
/// Errors of querying the kernel.
pub fn find(name: &str) -> io::Result<Option<LinkState>> {
    let namespace = Namespace {
        identity: (0, 0),
        socket: Mutex::new((File::from(sys::route_socket(None)?), 0)),
    };
    match namespace.ask(0, name) {
        Ok(state) => Ok(Some(state)),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A socket for queries about the interfaces of one network namespace.
#[derive(Debug)]
struct Namespace {
    /// Device and inode of the namespace.
    identity: (u64, u64),
    socket: Mutex<(File, u32)>,
}

impl Namespace {
    /// Queries an interface by number, or by name if the number is 0.
    fn ask(&self, index: u32, name: &str) -> io::Result<LinkState> {
        let poisoned = |_| io::Error::other("another thread failed while it asked");
        let mut guard = self.socket.lock().map_err(poisoned)?;
        let (socket, sequence) = &mut *guard;
        *sequence = sequence.wrapping_add(1);
        socket.write_all(&request(*sequence, index, name))?;
        let mut buffer = vec![0; 32 * 1024];
        // Answers to abandoned requests may arrive first.
        for _ in 0..16 {
            let len = socket.read(&mut buffer)?;
            if let Some(answer) = answer(buffer.get(..len).unwrap_or_default(), *sequence) {
                return answer;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
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
        match self.namespace.ask(self.index, "") {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
impl Watch {
    /// Watches the loopback interface in this process's own namespace.
    pub(crate) fn loopback() -> Self {
        let namespace = Namespace {
            identity: identity_of(&own().unwrap()).unwrap(),
            socket: Mutex::new((File::from(sys::route_socket(None).unwrap()), 0)),
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
                let socket = sys::route_socket(inside).ok()?;
                let namespace = Arc::new(Namespace {
                    identity,
                    socket: Mutex::new((File::from(socket), 0)),
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

/// Builds a request in native byte order, as netlink requires.
fn request(sequence: u32, index: u32, name: &str) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(0u32.to_ne_bytes());
    message.extend(RTM_GETLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    // ifinfomsg: family and type, number, flags, and their mask.
    message.extend([0; 4]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    if index == 0 {
        let len = u16::try_from(4 + name.len() + 1).unwrap_or(0);
        message.extend(len.to_ne_bytes());
        message.extend(IFLA_IFNAME.to_ne_bytes());
        message.extend(name.bytes());
        message.push(0);
        message.resize(message.len().next_multiple_of(4), 0);
    }
    let len = u32::try_from(message.len()).unwrap_or(0);
    if let Some(field) = message.first_chunk_mut::<4>() {
        *field = len.to_ne_bytes();
    }
    message
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

/// The answer if `message` belongs to request `sequence`.
fn answer(message: &[u8], sequence: u32) -> Option<io::Result<LinkState>> {
    if u32_at(message, 8)? != sequence {
        return None;
    }
    let len = u32_at(message, 0)? as usize;
    let body = message.get(HEADER..len.min(message.len()))?;
    match u16_at(message, 4)? {
        NLMSG_ERROR => {
            let code = u32_at(body, 0)?.wrapping_neg();
            Some(Err(io::Error::from_raw_os_error(i32::try_from(code).ok()?)))
        }
        RTM_NEWLINK => Some(link(body).ok_or_else(|| io::ErrorKind::InvalidData.into())),
        _ => None,
    }
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

fn kind_of(info: &[u8]) -> LinkKind {
    let part = |of, wanted| attributes(of).find(|(part, _)| *part == wanted);
    let named = part(info, IFLA_INFO_KIND).is_some_and(|(_, name)| name.starts_with(b"tun\0"));
    let data = part(info, IFLA_INFO_DATA).map_or(&[][..], |(_, data)| data);
    let several = part(data, IFLA_TUN_MULTI_QUEUE).is_some_and(|(_, value)| value != [0]);
    match part(data, IFLA_TUN_TYPE).and_then(|(_, value)| value.first()) {
        Some(2) if named => LinkKind::Tap,
        _ if named && several => LinkKind::MultiQueue,
        _ if named => LinkKind::Tun,
        _ => LinkKind::Other,
    }
}

/// Returns a name without its terminating zero. The kernel allows nearly any bytes in it, so
/// control characters become `?`.
pub(crate) fn printable(name: &[u8]) -> String {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(name).chars().map(shown).collect()
}

fn link(body: &[u8]) -> Option<LinkState> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let (mut name, mut mtu, mut dropped, mut kind) = (None, None, None, LinkKind::Other);
    for (attribute, value) in attributes(body.get(INFO..)?) {
        match attribute {
            IFLA_IFNAME => name = Some(printable(value)),
            IFLA_MTU => mtu = u32_at(value, 0),
            IFLA_STATS64 => dropped = u64_at(value, TX_DROPPED * 8),
            IFLA_LINKINFO => kind = kind_of(value),
            _ => {}
        }
    }
    Some(LinkState {
        index,
        name: name?,
        up: flags & (IFF_UP | IFF_LOWER_UP) == IFF_UP | IFF_LOWER_UP,
        mtu: mtu?,
        kind,
        dropped: dropped?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_reported() {
        let own = own().unwrap();
        let namespace = Namespace {
            identity: identity_of(&own).unwrap(),
            socket: Mutex::new((File::from(sys::route_socket(None).unwrap()), 7)),
        };
        let found = namespace.ask(0, "lo").unwrap();
        assert!(found.mtu >= 1500, "{found:?}");
        assert_eq!((found.kind, found.name.as_str()), (LinkKind::Other, "lo"));
        let watch = Watch {
            namespace: Arc::new(namespace),
            index: found.index,
        };
        assert_eq!(
            watch.look().unwrap().map(|state| state.index),
            Some(found.index)
        );
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

    /// A truncated message must neither cause a panic nor produce a state.
    #[test]
    fn a_message_cut_short_is_no_state() {
        let own = sys::route_socket(None).unwrap();
        let mut socket = File::from(own);
        socket.write_all(&request(9, 0, "lo")).unwrap();
        let mut buffer = vec![0; 32 * 1024];
        let len = socket.read(&mut buffer).unwrap();
        let whole = answer(&buffer[..len], 9).unwrap().unwrap();
        assert!(answer(&buffer[..len], 8).is_none());
        for end in 0..len {
            if let Some(Ok(state)) = answer(&buffer[..end], 9) {
                assert_eq!(state, whole, "{end} of {len} bytes");
            }
        }
    }
}
