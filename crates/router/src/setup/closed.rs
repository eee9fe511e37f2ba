//! Keeps packets from bypassing a closed port even if rules or routes are missing. A table of
//! nftables drops packets that a `[[steer]]` selects, unless they leave by the interface of its
//! port.
//!
//! Cards are identified both by name and by number, because a renamed card keeps its number, and
//! a recreated card keeps its name. The comments of the rules have both, so that a later set-up
//! still knows a renamed card.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};

use super::state::{State, closed_name};
use super::step::Step;
use crate::config::{Config, OnStop, PortSpec, SteerSpec};
use crate::tun::LinkState;

/// The complete table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    table: u32,
    /// Each with the card that its comment has, such as ` lan0=2`, or nothing.
    rules: Vec<(String, String)>,
}

/// Deletes the table.
pub(super) fn delete(table: u32) -> Step {
    Step::Nft(format!("delete table inet {}", closed_name(table)))
}

/// A loopback address that the table drops.
fn witness(table: u32) -> Ipv4Addr {
    let [.., high, low] = table.to_be_bytes();
    Ipv4Addr::new(127, 118, high, low)
}

/// Whether the table is missing. Without privileges nobody can list it, but while it exists, a
/// packet to its [`witness`] fails with EPERM.
pub(super) fn is_missing(table: u32) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    socket.is_ok_and(|socket| socket.send_to(&[], (witness(table), 9)).is_ok())
}

/// Cards that a closed `[[steer]]` selected at the last set-up and that have since been renamed,
/// with the priority of its rules. If the table is gone too, its rules name the card.
pub(super) fn renamed<'a>(config: &'a Config, state: &'a State) -> Vec<(u32, &'a LinkState)> {
    let names: Vec<&str> = state.links.iter().map(|link| link.name.as_str()).collect();
    let named = config.steers.iter().flat_map(|steer| &steer.from);
    let cards: Vec<_> = named.flat_map(|from| config.cards(from, &names)).collect();
    let mut renamed = Vec::new();
    for (priority, steer) in (config.table..).zip(&config.steers) {
        let Some(from) = steer.from.as_deref() else {
            continue;
        };
        let is_known = |link: &&LinkState| match state.closed.get(&config.table) {
            Some(comments) => {
                let card = format!(" {from}={}", link.index);
                comments.iter().any(|comment| comment.ends_with(&card))
            }
            None => {
                let is = |name: &Option<String>| name.as_ref() == Some(&link.name);
                let mut rules = state.rules.iter().filter(|rule| rule.ours);
                let of_steer = config.cards(from, &names);
                !of_steer.iter().any(|card| names.contains(card))
                    && rules.any(|rule| rule.priority == priority && is(&rule.from))
            }
        };
        let links = state.links.iter().filter(is_known);
        let links = links.filter(|link| !cards.contains(&link.name.as_str()));
        renamed.extend(links.map(|link| (priority, link)));
    }
    renamed
}

/// The table for a configuration; `None` if no port that is steered into is closed.
pub(super) fn closed(config: &Config, state: &State) -> Option<Closed> {
    let is_closed = |steer: &SteerSpec| {
        let port = config.ports.get(steer.port);
        port.is_some_and(|port| port.host.on_stop == OnStop::Closed)
    };
    // Later ones need no rules, because their packets may take any way.
    let last = config.steers.iter().rposition(is_closed)?;
    let renamed = renamed(config, state);
    let mut rules = Vec::new();
    for (priority, steer) in (config.table..).zip(config.steers.iter().take(last + 1)) {
        let Some(tun) = config.ports.get(steer.port).and_then(PortSpec::tun) else {
            continue;
        };
        let verdict = if is_closed(steer) { "drop" } else { "accept" };
        let renamed = renamed.iter().filter(|(of, _)| *of == priority);
        for (from, card) in sources(config, steer, &state.links, renamed.map(|(_, link)| *link)) {
            let mark = steer.mark;
            let mark = mark.map_or_else(String::new, |mark| format!("meta mark {mark} "));
            let mut to: Vec<String> = steer.to.iter().map(|to| destination(to.net())).collect();
            if to.is_empty() {
                to.push(String::new());
            }
            for to in to {
                let what = format!("{from}{mark}{to}");
                rules.push((format!("{what}oifname \"{tun}\" accept"), card.clone()));
                rules.push((format!("{what}{verdict}"), card.clone()));
            }
        }
    }
    Some(Closed {
        table: config.table,
        rules,
    })
}

/// Returns matches for the cards of a `[[steer]]`, and the cards for their comments.
fn sources<'a>(
    config: &Config,
    steer: &SteerSpec,
    links: &'a [LinkState],
    renamed: impl Iterator<Item = &'a LinkState>,
) -> Vec<(String, String)> {
    let Some(from) = steer.from.as_deref() else {
        return vec![<_>::default()];
    };
    let mut sources = Vec::new();
    if from.contains('*') {
        // The router's own interfaces never count as cards, whatever their names.
        let own = config.ports.iter().filter_map(PortSpec::tun).chain(["lo"]);
        let own: Vec<_> = own.map(|name| format!("\"{name}\"")).collect();
        let own = own.join(", ");
        let matches = format!("iifname \"{from}\" iifname != {{ {own} }} ");
        sources.push((matches, String::new()));
    } else {
        sources.push((format!("iifname \"{from}\" "), String::new()));
    }
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let cards = config.cards(from, &names);
    let there = links
        .iter()
        .filter(|link| cards.contains(&link.name.as_str()));
    let number = |link: &LinkState| {
        (
            format!("iif {} ", link.index),
            format!(" {from}={}", link.index),
        )
    };
    sources.extend(there.chain(renamed).map(number));
    sources
}

fn destination(net: ipnet::IpNet) -> String {
    let (v6, all) = (net.addr().is_ipv6(), net.prefix_len() == 0);
    match (v6, all) {
        (false, true) => "meta nfproto ipv4 ".to_owned(),
        (true, true) => "meta nfproto ipv6 ".to_owned(),
        (false, false) => format!("ip daddr {net} "),
        (true, false) => format!("ip6 daddr {net} "),
    }
}

impl Closed {
    pub(super) fn is_of(&self, table: u32) -> bool {
        self.table == table
    }

    /// The comments of such a table's rules. All begin with a text that identifies the table.
    pub(super) fn comments(&self) -> Vec<String> {
        let digest = self.digest();
        let cards = self.rules.iter().map(|(_, card)| card.as_str());
        let cards = cards.chain([""]);
        cards.map(|card| format!("{digest}{card}")).collect()
    }

    /// FNV-1a over all rules.
    fn digest(&self) -> String {
        let bytes = self
            .rules
            .iter()
            .flat_map(|(rule, _)| rule.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("vcp-router {hash:016x}")
    }

    /// Atomically replaces any existing table by this one.
    pub(super) fn replace(&self) -> Step {
        let (name, digest) = (closed_name(self.table), self.digest());
        let mut text = format!(
            "table inet {name}; delete table inet {name}; table inet {name} {{ chain closed {{ \
             type filter hook forward priority -300; policy accept; "
        );
        // If br_netfilter is loaded, bridged packets arrive here too. They include neighbour
        // discovery, with a hop limit of 255 that no routed packet still has, and link-local
        // addresses, which no router forwards.
        text.push_str("meta pkttype != unicast accept; ip6 hoplimit 255 accept; ");
        text.push_str("ip6 saddr fe80::/10 accept; ip6 daddr fe80::/10 accept; ");
        for (rule, card) in &self.rules {
            // Writing to a string cannot fail.
            let _ = write!(text, "{rule} comment \"{digest}{card}\"; ");
        }
        let _ = write!(
            text,
            "}}; chain witness {{ type filter hook output priority -300; policy accept; \
             ip daddr {} drop comment \"{digest}\"; }}; }}",
            witness(self.table)
        );
        Step::Nft(text)
    }
}
