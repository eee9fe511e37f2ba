//! The kernel's present interfaces, rules and routes, as iproute2 prints them in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::SetupError;
use super::step::{Step, ip, nft};
use super::sysctl::{RP_FILTER, has_ipv6, sysctl, sysctls};

/// Protocol number of our rules and routes, unassigned in iproute2 6.1
/// (`/etc/iproute2/rt_protos`).
pub(super) const PROTOCOL: u8 = 118;

/// Prefix of the names of our nftables tables.
const CLOSED: &str = "vcp_router_closed_";

/// The main table's number (`RT_TABLE_MAIN`).
pub(super) const MAIN: u32 = 254;

/// The relevant part of the kernel's state.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) links: Vec<Link>,
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

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) alias: String,
    pub(super) up: bool,
    /// True if it has a carrier: for a TUN interface, a program has it open.
    pub(super) held: bool,
    pub(super) mtu: u32,
    pub(super) txqueuelen: u32,
    pub(super) addresses: Vec<IpNet>,
    pub(super) kind: Kind,
}

/// The kind of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Tun {
        persistent: bool,
        owner: String,
    },
    #[default]
    Other,
}

/// A policy rule that leads to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) v6: bool,
    pub(super) priority: u32,
    pub(super) from: Option<String>,
    pub(super) mark: Option<u32>,
    pub(super) to: Option<IpNet>,
    pub(super) table: u32,
    pub(super) ours: bool,
}

/// One of our routes. Without a `device`, it rejects packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) v6: bool,
    pub(super) table: u32,
    pub(super) to: Option<IpNet>,
    pub(super) device: Option<String>,
    pub(super) metric: u32,
}

impl State {
    /// Queries `ip`, and reads the sysctls of the machine and of the `named` interfaces.
    pub(super) fn read(named: &BTreeSet<&str>) -> Result<Self, SetupError> {
        let links: Vec<RawLink> = ask("-json -details address show")?;
        let mut state = Self {
            links: links.into_iter().map(RawLink::link).collect(),
            ..Self::default()
        };
        state.ipv6 = has_ipv6();
        let families: &[(bool, &str)] = if state.ipv6 {
            &[(false, "-4"), (true, "-6")]
        } else {
            &[(false, "-4")]
        };
        for &(v6, family) in families {
            let rules: Vec<RawRule> = ask(&format!("-json -N {family} rule show"))?;
            state
                .rules
                .extend(rules.iter().filter_map(|raw| raw.rule(v6)));
            let command = format!("-json -N {family} route show table all proto {PROTOCOL}");
            let routes: Vec<RawRoute> = ask(&command)?;
            state
                .routes
                .extend(routes.iter().filter_map(|raw| raw.route(v6)));
        }
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

    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}

/// Returns other programs' routes with the destinations of `wanted` in the same tables. Each one
/// is queried separately, because the main table may be long.
pub(super) fn foreign(wanted: &[Route]) -> Result<Vec<Route>, SetupError> {
    let mut found = Vec::new();
    let keys = wanted.iter().map(|route| (route.v6, route.table, route.to));
    for (v6, table, to) in keys.collect::<BTreeSet<_>>() {
        let family = if v6 { "-6" } else { "-4" };
        let to = to.map_or("default".to_owned(), |to| to.to_string());
        let command = format!("-json -N {family} route show table {table} exact {to}");
        let routes: Vec<RawRoute> = match ask(&command) {
            // The kernel reports a table without routes as missing.
            Err(SetupError::Command { message, .. }) if message.contains("does not exist") => {
                continue;
            }
            routes => routes?,
        };
        let others = routes.iter().filter(|raw| !raw.is_ours());
        found.extend(others.filter_map(|raw| {
            let route = raw.route(v6)?;
            Some(Route { table, ..route })
        }));
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

fn ask<T: DeserializeOwned>(arguments: &str) -> Result<Vec<T>, SetupError> {
    let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    let output = ip(&arguments)?;
    parse(&output).map_err(|error| SetupError::Output {
        command: Step::Ip(arguments).to_string(),
        message: error.to_string(),
    })
}

/// Parses a list. Some versions print nothing if it is empty.
pub(super) fn parse<T: DeserializeOwned>(output: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    if output.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(output)
}

#[derive(Debug, Deserialize)]
pub(super) struct RawLink {
    #[serde(default)]
    ifindex: u32,
    ifname: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    txqlen: u32,
    #[serde(default)]
    ifalias: String,
    #[serde(default)]
    linkinfo: RawInfo,
    #[serde(default)]
    addr_info: Vec<RawAddress>,
}

#[derive(Debug, Default, Deserialize)]
struct RawInfo {
    #[serde(default)]
    info_kind: String,
    #[serde(default)]
    info_data: RawData,
}

#[derive(Debug, Default, Deserialize)]
struct RawData {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    persist: bool,
    #[serde(default)]
    multi_queue: bool,
    #[serde(default)]
    user: String,
}

#[derive(Debug, Deserialize)]
struct RawAddress {
    local: Option<IpAddr>,
    prefixlen: Option<u8>,
}

impl RawLink {
    pub(super) fn link(self) -> Link {
        let RawData {
            kind,
            persist,
            multi_queue,
            user,
        } = self.linkinfo.info_data;
        let address = |raw: &RawAddress| IpNet::new(raw.local?, raw.prefixlen?).ok();
        Link {
            name: self.ifname.unwrap_or_default(),
            index: self.ifindex,
            alias: self.ifalias,
            up: self.flags.iter().any(|flag| flag == "UP"),
            held: self.flags.iter().any(|flag| flag == "LOWER_UP"),
            mtu: self.mtu,
            txqueuelen: self.txqlen,
            addresses: self.addr_info.iter().filter_map(address).collect(),
            kind: if self.linkinfo.info_kind == "tun" && kind == "tun" && !multi_queue {
                Kind::Tun {
                    persistent: persist,
                    owner: user,
                }
            } else {
                Kind::Other
            },
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RawRule {
    #[serde(default)]
    priority: u32,
    iif: Option<String>,
    fwmark: Option<String>,
    dst: Option<String>,
    dstlen: Option<u8>,
    table: Option<String>,
    protocol: Option<String>,
}

impl RawRule {
    /// `None` for rules that do not lead to a table by its number.
    pub(super) fn rule(&self, v6: bool) -> Option<Rule> {
        let mark = self.fwmark.as_ref().map(|mark| {
            let digits = mark.strip_prefix("0x");
            digits.map_or_else(|| mark.parse(), |hex| u32::from_str_radix(hex, 16))
        });
        Some(Rule {
            v6,
            priority: self.priority,
            from: self.iif.clone(),
            mark: mark.transpose().ok()?,
            to: destination(self.dst.as_deref(), self.dstlen)?,
            table: self.table.as_ref()?.parse().ok()?,
            ours: self.protocol.as_deref() == Some(PROTOCOL.to_string().as_str()),
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RawRoute {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    dst: Option<String>,
    dev: Option<String>,
    table: Option<String>,
    #[serde(default)]
    metric: u32,
    protocol: Option<String>,
}

impl RawRoute {
    fn is_ours(&self) -> bool {
        self.protocol.as_deref() == Some(PROTOCOL.to_string().as_str())
    }

    pub(super) fn route(&self, v6: bool) -> Option<Route> {
        // RTN_UNREACHABLE as a number or a name; IPv6 has such routes on `lo`.
        let refuses = matches!(self.kind.as_deref(), Some("7" | "unreachable"));
        Some(Route {
            v6,
            table: match self.table.as_deref() {
                None | Some("main") => MAIN,
                Some(number) => number.parse().ok()?,
            },
            to: destination(self.dst.as_deref(), None)?,
            device: self.dev.clone().filter(|_| !refuses),
            metric: self.metric,
        })
    }
}

/// Returns `Some(None)` for all destinations, and `None` if the text is not a destination.
fn destination(text: Option<&str>, length: Option<u8>) -> Option<Option<IpNet>> {
    let text = match text {
        None | Some("default" | "all") => return Some(None),
        Some(text) => text,
    };
    match (text.parse::<IpAddr>(), length) {
        (Ok(address), Some(length)) => IpNet::new(address, length).ok().map(Some),
        (Ok(address), None) => Some(Some(IpNet::from(address))),
        (Err(_), _) => text.parse().ok().map(Some),
    }
}
