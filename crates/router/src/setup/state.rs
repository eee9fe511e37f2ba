//! The kernel's present interfaces, rules, routes, sysctls and tables of nftables.
//!
//! Interfaces, addresses, rules and routes are read without any privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::{fs, io};

use ipnet::IpNet;
use libc::{
    IFA_ADDRESS, IFA_LOCAL, RTA_DST, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTM_GETADDR, RTM_GETROUTE,
    RTM_GETRULE, RTN_UNICAST, RTN_UNREACHABLE,
};
use serde::Deserialize;

use super::SetupError;
use super::step::{PROTOCOL, RP_FILTER, Route, Rule, has_ipv6, nft, sysctl, sysctls};
use crate::tun::links::{Socket, attributes, printable, push_attribute, u32_at};
use crate::tun::{LinkState, links};

/// Prefix of the names of our nftables tables.
const CLOSED: &str = "vcp_router_closed_";
/// The family of IPv6 in rtnetlink.
const INET6: u8 = libc::AF_INET6 as u8;

/// The relevant part of the kernel's state.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) links: Vec<LinkState>,
    pub(super) rules: Vec<Rule>,
    pub(super) routes: Vec<Route>,
    /// Routes of other programs in the places of ours: see [`foreign`].
    pub(super) foreign: Vec<Route>,
    /// Values of existing sysctls, for the configured interfaces and the whole machine.
    pub(super) sysctls: BTreeMap<PathBuf, String>,
    /// True if new interfaces have IPv6.
    pub(super) ipv6: bool,
    /// Comments of the rules in our nftables tables, by `table`.
    pub(super) closed: BTreeMap<u32, Vec<String>>,
    /// Why nftables cannot be queried.
    pub(super) no_nft: Option<String>,
}

impl State {
    /// Queries the kernel and nftables, and reads the sysctls of the machine and of the `named`
    /// interfaces.
    pub(super) fn read(named: &BTreeSet<&str>) -> Result<Self, SetupError> {
        let mut state = Self {
            ipv6: has_ipv6(),
            ..Self::default()
        };
        state.ask_kernel().map_err(SetupError::Kernel)?;
        match tables() {
            Ok(closed) => state.closed = closed,
            Err(error) => state.no_nft = Some(error.to_string()),
        }
        let mut files = vec![
            sysctl("ipv4/ip_forward"),
            sysctl("ipv6/conf/all/forwarding"),
            sysctl(RP_FILTER),
        ];
        for name in named {
            files.extend(sysctls(name, true).map(|(path, _)| path));
        }
        for file in files {
            if let Ok(value) = fs::read_to_string(&file) {
                state.sysctls.insert(file, value.trim().to_owned());
            }
        }
        Ok(state)
    }

    /// Reads interfaces with their addresses, rules, and the routes of all tables.
    fn ask_kernel(&mut self) -> io::Result<()> {
        let mut socket = Socket::open(None)?;
        let Sight {
            cards,
            rules,
            routes,
            ..
        } = Sight::read(&mut socket, self.ipv6, &[None])?;
        (self.links, self.routes) = (cards, routes);
        for (index, address) in addresses(&mut socket)? {
            let link = self.links.iter_mut().find(|link| link.index == index);
            if let Some(link) = link {
                link.addresses.push(address);
            }
        }
        let rules = rules.into_iter().map(|found| found.rule);
        self.rules.extend(rules.filter(|rule| rule.table != 0));
        Ok(())
    }

    pub(super) fn link(&self, name: &str) -> Option<&LinkState> {
        self.links.iter().find(|link| link.name == name)
    }
}

/// Returns other programs' routes with the destinations of `wanted` in the same tables.
pub(super) fn foreign(wanted: &[Route]) -> io::Result<Vec<Route>> {
    let mut socket = Socket::open(None)?;
    let mut found = Vec::new();
    let tables = wanted.iter().map(|route| (route.v6, route.table));
    for (v6, table) in tables.collect::<BTreeSet<_>>() {
        let is_taken = |route: &Route| {
            let mut wanted = wanted.iter();
            wanted.any(|own| (own.v6, own.table, own.to) == (v6, table, route.to))
        };
        found.extend(foreign_routes(&mut socket, v6, table, is_taken)?);
    }
    Ok(found)
}

/// The name of the nftables table of the configuration with this `table`.
pub(super) fn closed_name(table: u32) -> String {
    format!("{CLOSED}{table}")
}

/// The `table` in such a name; `None` for another program's table.
fn table_of_closed(name: &str) -> Option<u32> {
    name.strip_prefix(CLOSED)?.parse().ok()
}

/// The comments of the rules in our nftables tables.
fn tables() -> Result<BTreeMap<u32, Vec<String>>, SetupError> {
    let list = |words: &[&str]| {
        let output = nft(words)?;
        let read: Ruleset =
            serde_json::from_slice(&output).map_err(|error| SetupError::Output {
                command: format!("nft {}", words.join(" ")),
                message: error.to_string(),
            })?;
        Ok::<_, SetupError>(read.nftables)
    };
    let mut found = BTreeMap::new();
    for entry in list(&["-j", "list", "tables", "inet"])? {
        let name = entry.table.unwrap_or_default().name;
        if let Some(table) = table_of_closed(&name) {
            let rules = list(&["-j", "list", "table", "inet", &name])?;
            let comments = rules.into_iter().filter_map(|entry| entry.rule?.comment);
            found.insert(table, comments.collect());
        }
    }
    Ok(found)
}

/// The relevant part of the output of `nft -j`.
#[derive(Debug, Deserialize)]
struct Ruleset {
    nftables: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    table: Option<NftTable>,
    rule: Option<NftRule>,
}

#[derive(Debug, Default, Deserialize)]
struct NftTable {
    name: String,
}

#[derive(Debug, Deserialize)]
struct NftRule {
    comment: Option<String>,
}

/// Links, rules, and the routes of some tables at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(super) cards: Vec<LinkState>,
    pub(super) rules: Vec<FoundRule>,
    pub(super) routes: Vec<Route>,
    pub(super) ipv6: bool,
    /// True if the table for closed ports is missing.
    pub(super) open: bool,
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
        let tables: Vec<_> = tables.iter().copied().map(Some).collect();
        Self::read(&mut Socket::open(None)?, has_ipv6(), &tables)
    }

    /// `None` is all tables.
    fn read(socket: &mut Socket, ipv6: bool, tables: &[Option<u32>]) -> io::Result<Self> {
        let mut sight = Self {
            cards: links::all(socket)?,
            ipv6,
            ..Self::default()
        };
        for v6 in [false, true].into_iter().take(1 + usize::from(ipv6)) {
            sight.rules.extend(rules(socket, v6)?);
            for table in tables {
                let found = own_routes(socket, v6, *table, &sight.cards)?;
                sight.routes.extend(found);
            }
        }
        Ok(sight)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.cards.iter().map(|card| card.name.as_str())
    }
}

/// The addresses of all interfaces, with the interfaces' names.
///
/// # Errors
/// As for [`Sight::take`].
pub(crate) fn named_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut socket = Socket::open(None)?;
    let cards = links::all(&mut socket)?;
    let found = addresses(&mut socket)?.into_iter();
    let named = found.filter_map(|(index, address)| {
        let card = cards.iter().find(|card| card.index == index)?;
        Some((card.name.clone(), address.addr()))
    });
    Ok(named.collect())
}

/// The addresses of all interfaces, with the interfaces' numbers.
pub(super) fn addresses(socket: &mut Socket) -> io::Result<Vec<(u32, IpNet)>> {
    socket.list(RTM_GETADDR, &[0; 8], |body| {
        // IFA_LOCAL, if present, because on a point-to-point link IFA_ADDRESS is the peer's.
        let of = |kind| attributes(body.get(8..)?).find(|(found, _)| *found == kind);
        let (_, value) = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
        let address = IpNet::new(address(value)?, *body.get(1)?).ok()?;
        Some((u32_at(body, 4)?, address))
    })
}

/// The policy rules of all programs.
pub(super) fn rules(socket: &mut Socket, v6: bool) -> io::Result<Vec<FoundRule>> {
    socket.list(RTM_GETRULE, &header(v6, 0), rule)
}

/// Our routes in `table`, or in all tables.
fn own_routes(
    socket: &mut Socket,
    v6: bool,
    table: Option<u32>,
    cards: &[LinkState],
) -> io::Result<Vec<Route>> {
    routes(socket, header(v6, PROTOCOL), table, |body| {
        let route = route(body, cards)?;
        let is_sound = match *body.get(7)? {
            RTN_UNREACHABLE => true,
            // Its interface may have disappeared meanwhile.
            RTN_UNICAST => route.device.is_some(),
            _ => false,
        };
        (body.get(5) == Some(&PROTOCOL) && is_sound).then_some(route)
    })
}

/// Other programs' routes in `table`, without their interfaces, as far as `concerns` is true.
fn foreign_routes(
    socket: &mut Socket,
    v6: bool,
    table: u32,
    concerns: impl Fn(&Route) -> bool,
) -> io::Result<Vec<Route>> {
    routes(socket, header(v6, 0), Some(table), |body| {
        let found = route(body, &[]).filter(|_| body.get(5) != Some(&PROTOCOL));
        found.filter(|route| concerns(route))
    })
}

fn routes(
    socket: &mut Socket,
    header: [u8; 12],
    table: Option<u32>,
    read: impl Fn(&[u8]) -> Option<Route>,
) -> io::Result<Vec<Route>> {
    let mut request = header.to_vec();
    if let Some(table) = table {
        push_attribute(&mut request, RTA_TABLE, &table.to_ne_bytes());
    }
    // Not every kernel filters the list.
    let is_listed = |route: &Route| table.is_none_or(|table| route.table == table);
    let found = socket.list(RTM_GETROUTE, &request, |body| read(body).filter(is_listed));
    match found {
        // The kernel reports a table without routes as missing.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
        found => found,
    }
}

/// The header of a request for rules or routes (`fib_rule_hdr`, `rtmsg`).
const fn header(v6: bool, protocol: u8) -> [u8; 12] {
    let family = if v6 { INET6 } else { libc::AF_INET as u8 };
    [family, 0, 0, 0, 0, protocol, 0, 0, 0, 0, 0, 0]
}

/// The table in a route's message.
pub(crate) fn table_of(body: &[u8]) -> Option<u32> {
    let long = attributes(body.get(12..)?).find(|(kind, _)| *kind == RTA_TABLE);
    let long = long.and_then(|(_, value)| u32_at(value, 0));
    long.or_else(|| body.get(4).map(|table| u32::from(*table)))
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
            v6: byte(0)? == INET6,
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

/// Parses a route from `rtmsg` and the attributes of `linux/rtnetlink.h`.
fn route(body: &[u8], cards: &[LinkState]) -> Option<Route> {
    let byte = |at: usize| body.get(at).copied();
    let (family, length, kind) = (byte(0)?, byte(1)?, byte(7)?);
    let mut route = Route {
        v6: family == INET6,
        table: table_of(body)?,
        to: None,
        device: None,
        metric: 0,
    };
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            RTA_DST if length > 0 => route.to = Some(IpNet::new(address(value)?, length).ok()?),
            // IPv6 puts routes that refuse on `lo`.
            RTA_OIF if kind != RTN_UNREACHABLE => {
                let index = u32_at(value, 0)?;
                let card = cards.iter().find(|card| card.index == index);
                route.device = card.map(|card| card.name.clone());
            }
            RTA_PRIORITY => route.metric = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(route)
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
        let found = named_addresses().unwrap();
        assert!(found.is_empty() || found.contains(&loopback), "{found:?}");
    }

    /// No truncated message may cause a panic.
    #[test]
    fn half_a_message_is_read_or_left() {
        use crate::tun::links::link;
        use crate::tun::links::messages;

        let mut socket = Socket::open(None).unwrap();
        for (kind, header) in [
            (libc::RTM_GETLINK, 16),
            (RTM_GETRULE, 12),
            (RTM_GETROUTE, 12),
        ] {
            let bodies = socket.list(kind, &[0; 16][..header], |body| Some(body.to_vec()));
            for body in bodies.unwrap() {
                for end in 0..body.len() {
                    let part = &body[..end];
                    let _ = (link(part), rule(part), route(part, &[]), table_of(part));
                    let _ = messages(part).count();
                }
            }
        }
    }
}
