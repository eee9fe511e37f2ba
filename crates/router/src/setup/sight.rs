//! Reads links, rules, routes and addresses from the kernel without any privileges (rtnetlink).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;

use ipnet::IpNet;

use super::state::{PROTOCOL, Route, Rule};
use super::sysctl::has_ipv6;
use crate::tun::links::{attributes, printable, u16_at, u32_at};
use crate::tun::sys;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// The list changed while it was read.
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
const RTA_TABLE: u16 = 15;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Number of attempts to read a list that keeps changing.
const ATTEMPTS: usize = 8;

/// Links, rules, and the routes of some tables at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(super) cards: Vec<Card>,
    pub(super) rules: Vec<FoundRule>,
    pub(super) routes: Vec<Route>,
    pub(super) ipv6: bool,
    /// True if the table for closed ports is missing.
    pub(super) open: bool,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) up: bool,
}

/// A policy rule of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRule {
    /// The part that rules of set-up also have; `table` is 0 for a rule that leads to none.
    pub(super) rule: Rule,
    /// True if it matches packets that its selectors do not match.
    pub(super) inverted: bool,
    /// True if it has further selectors, such as a source, ports, or a mask.
    pub(super) narrow: bool,
    /// True if no forwarded packet can match, because it requires an output interface or a user,
    /// or does nothing.
    pub(super) idle: bool,
}

impl Sight {
    /// Queries the kernel, including the routes in `tables`.
    ///
    /// # Errors
    /// Errors of the socket, and of the kernel.
    pub(super) fn take(tables: &BTreeSet<u32>) -> io::Result<Self> {
        let mut socket = Asking::new()?;
        let cards = socket.list(RTM_GETLINK, &[0; 16])?;
        let cards: Vec<_> = cards.iter().filter_map(|body| card(body)).collect();
        let ipv6 = has_ipv6();
        let (mut rules, mut routes) = (Vec::new(), Vec::new());
        for family in [AF_INET, AF_INET6].into_iter().take(1 + usize::from(ipv6)) {
            let mut header = [0; 12];
            header[0] = family;
            let found = socket.list(RTM_GETRULE, &header)?;
            rules.extend(found.iter().filter_map(|body| rule(body)));
            for table in tables {
                let mut request = header.to_vec();
                request.extend(8u16.to_ne_bytes());
                request.extend(RTA_TABLE.to_ne_bytes());
                request.extend(table.to_ne_bytes());
                let found = match socket.list(RTM_GETROUTE, &request) {
                    // The kernel reports a table without routes as missing.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                    found => found?,
                };
                let found = found.iter().filter_map(|body| route(body, &cards));
                routes.extend(found.filter(|route| route.table == *table));
            }
        }
        Ok(Self {
            cards,
            rules,
            routes,
            ipv6,
            open: false,
        })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.cards.iter().map(|card| card.name.as_str())
    }
}

/// The addresses of all interfaces, with the interfaces' names.
///
/// # Errors
/// As for [`Sight::take`].
pub(crate) fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut socket = Asking::new()?;
    let cards = socket.list(RTM_GETLINK, &[0; 16])?;
    let cards: Vec<_> = cards.iter().filter_map(|body| card(body)).collect();
    let found = socket.list(RTM_GETADDR, &[0; 8])?;
    let found = found.iter().filter_map(|body| {
        let index = u32_at(body, 4)?;
        let name = &cards.iter().find(|card| card.index == index)?.name;
        // IFA_LOCAL, if present, because on a point-to-point link IFA_ADDRESS is the peer's.
        let of = |kind| attributes(body.get(8..)?).find(|(found, _)| *found == kind);
        let (_, value) = of(2).or_else(|| of(1))?;
        Some((name.clone(), address(value)?))
    });
    Ok(found.collect())
}

struct Asking {
    socket: File,
    sequence: u32,
}

impl Asking {
    fn new() -> io::Result<Self> {
        let socket = File::from(sys::route_socket(None)?);
        sys::filter_lists(&socket);
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The bodies of all messages of a list.
    fn list(&mut self, kind: u16, header: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        for _ in 0..ATTEMPTS {
            if let Some(whole) = self.list_once(kind, header)? {
                return Ok(whole);
            }
        }
        Err(io::Error::other(
            "the list changed during each attempt to read it",
        ))
    }

    /// Returns `None` if the list changed while it was read.
    fn list_once(&mut self, kind: u16, header: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::new();
        let len = u32::try_from(HEADER + header.len()).unwrap_or(0);
        request.extend(len.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(header);
        self.socket.write_all(&request)?;
        let mut buffer = vec![0; 64 * 1024];
        let (mut found, mut whole) = (Vec::new(), true);
        loop {
            let len = self.socket.read(&mut buffer)?;
            for (head, body) in messages(buffer.get(..len).unwrap_or_default()) {
                if u32_at(head, 8) != Some(self.sequence) {
                    continue;
                }
                whole &= u16_at(head, 6).unwrap_or(0) & NLM_F_DUMP_INTR == 0;
                match u16_at(head, 4) {
                    Some(NLMSG_ERROR | NLMSG_DONE) => {
                        let code = u32_at(body, 0).unwrap_or(0).wrapping_neg();
                        return match i32::try_from(code) {
                            Ok(0) => Ok(whole.then_some(found)),
                            Ok(code) => Err(io::Error::from_raw_os_error(code)),
                            Err(_) => Err(io::ErrorKind::InvalidData.into()),
                        };
                    }
                    _ => found.push(body.to_vec()),
                }
            }
        }
    }
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

/// The table in a route's message.
pub(crate) fn table_of(body: &[u8]) -> Option<u32> {
    let long = attributes(body.get(12..)?).find(|(kind, _)| *kind == RTA_TABLE);
    let long = long.and_then(|(_, value)| u32_at(value, 0));
    long.or_else(|| body.get(4).map(|table| u32::from(*table)))
}

fn card(body: &[u8]) -> Option<Card> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let (_, name) = attributes(body.get(16..)?).find(|(kind, _)| *kind == 3)?;
    Some(Card {
        index,
        name: printable(name),
        up: flags & 1 != 0,
    })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Parses a rule from `fib_rule_hdr` and the attributes of `linux/fib_rules.h`.
fn rule(body: &[u8]) -> Option<FoundRule> {
    let byte = |at: usize| body.get(at).copied();
    let (action, flags) = (byte(7)?, u32_at(body, 8)?);
    let mut found = FoundRule {
        rule: Rule {
            v6: byte(0)? == AF_INET6,
            priority: 0,
            from: None,
            mark: None,
            to: None,
            table: u32::from(byte(4)?),
            ours: false,
        },
        inverted: flags & 2 != 0,
        // A type of service.
        narrow: byte(3)? != 0,
        idle: false,
    };
    let rule = &mut found.rule;
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            1 => rule.to = Some(IpNet::new(address(value)?, byte(1)?).ok()?),
            3 => rule.from = Some(printable(value)),
            6 => rule.priority = u32_at(value, 0)?,
            10 => rule.mark = Some(u32_at(value, 0)?).filter(|mark| *mark != 0),
            15 => rule.table = u32_at(value, 0)?,
            16 => found.narrow |= !matches!(u32_at(value, 0)?, 0 | u32::MAX),
            21 => rule.ours = value == [PROTOCOL],
            // Output interface, VRF, users.
            17 | 20 => found.idle = true,
            19 => found.idle |= value != [0],
            // Source, tunnel, protocol, ports, and attributes of later kernels.
            2 | 12 | 22 | 23 | 24 | 25.. => found.narrow = true,
            _ => {}
        }
    }
    match action {
        1 => {}
        // A rule that does nothing.
        3 => found.idle = true,
        _ => rule.table = 0,
    }
    Some(found)
}

fn route(body: &[u8], cards: &[Card]) -> Option<Route> {
    let byte = |at: usize| body.get(at).copied();
    let (family, length, protocol, kind) = (byte(0)?, byte(1)?, byte(5)?, byte(7)?);
    let mut route = Route {
        v6: family == AF_INET6,
        table: table_of(body)?,
        to: None,
        device: None,
        metric: 0,
    };
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            1 if length > 0 => route.to = Some(IpNet::new(address(value)?, length).ok()?),
            4 => {
                let index = u32_at(value, 0)?;
                let card = cards.iter().find(|card| card.index == index);
                route.device = card.map(|card| card.name.clone());
            }
            6 => route.metric = u32_at(value, 0)?,
            _ => {}
        }
    }
    match kind {
        // RTN_UNREACHABLE; IPv6 puts such routes on `lo`.
        7 => route.device = None,
        // RTN_UNICAST to an interface that has since disappeared.
        1 if route.device.is_some() => {}
        _ => return None,
    }
    (protocol == PROTOCOL).then_some(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_namespace_is_seen() {
        let sight = Sight::take(&BTreeSet::from([254, 31_999])).unwrap();
        assert!(sight.names().any(|name| name == "lo"), "{sight:?}");
        let main = |found: &FoundRule| !found.rule.v6 && found.rule.table == 254;
        assert!(sight.rules.iter().any(main), "{sight:?}");
        let loopback = ("lo".to_owned(), "127.0.0.1".parse().unwrap());
        let found = addresses().unwrap();
        assert!(found.is_empty() || found.contains(&loopback), "{found:?}");
    }

    /// No truncated message may cause a panic.
    #[test]
    fn half_a_message_is_read_or_left() {
        let mut asking = Asking::new().unwrap();
        for (kind, header) in [(RTM_GETLINK, 16), (RTM_GETRULE, 12), (RTM_GETROUTE, 12)] {
            for body in asking.list(kind, &[0; 16][..header]).unwrap() {
                for end in 0..body.len() {
                    let part = &body[..end];
                    let _ = (card(part), rule(part), route(part, &[]), table_of(part));
                    let _ = messages(part).count();
                }
            }
        }
    }
}
