//! The kernel's present interfaces, rules, routes, sysctls and tables of nftables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{fs, io};

use serde::Deserialize;

use super::SetupError;
use super::sight::{addresses, foreign_routes, own_routes, rules, versions};
use super::step::{RP_FILTER, Route, Rule, has_ipv6, nft, sysctl, sysctls};
use crate::tun::netlink::Socket;
use crate::tun::{LinkState, links};

/// Prefix of the names of our nftables tables.
const CLOSED: &str = "vcp_router_closed_";

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

    /// Reads interfaces, rules, and the routes of all tables.
    fn ask_kernel(&mut self) -> io::Result<()> {
        let mut socket = Socket::open(None)?;
        self.links = links::all(&mut socket)?;
        for (index, address) in addresses(&mut socket)? {
            let link = self.links.iter_mut().find(|link| link.index == index);
            if let Some(link) = link {
                link.addresses.push(address);
            }
        }
        for v6 in versions(self.ipv6) {
            let found = rules(&mut socket, v6)?.into_iter().map(|found| found.rule);
            self.rules.extend(found.filter(|rule| rule.table != 0));
            let found = own_routes(&mut socket, v6, None, &self.links)?;
            self.routes.extend(found);
        }
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
