//! Keeps packets from bypassing a closed port even if rules or routes are missing. A table of
//! nftables drops packets that a `[[steer]]` selects, unless they leave by the interface of its
//! port.
//!
//! Cards are identified both by name and by number, because a renamed card keeps its number, and
//! a recreated card keeps its name.

use std::fmt::Write as _;

use super::interfaces::tun;
use super::state::{Link, closed_name};
use super::step::Step;
use crate::config::{Config, OnStop, SteerSpec};

/// The complete table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    table: u32,
    rules: Vec<String>,
}

/// Deletes the table.
pub(super) fn delete(table: u32) -> Step {
    Step::Nft(format!("delete table inet {}", closed_name(table)))
}

/// The table for a configuration; `None` if no port that is steered into is closed.
pub(super) fn closed(config: &Config, links: &[Link]) -> Option<Closed> {
    let is_closed = |steer: &SteerSpec| {
        let port = config.ports.get(steer.port);
        port.is_some_and(|port| port.host.on_stop == OnStop::Closed)
    };
    // Later ones need no rules, because their packets may take any way.
    let last = config.steers.iter().rposition(is_closed)?;
    let mut rules = Vec::new();
    for steer in config.steers.iter().take(last + 1) {
        let Some(tun) = config.ports.get(steer.port).and_then(tun) else {
            continue;
        };
        let verdict = if is_closed(steer) { "drop" } else { "accept" };
        for from in sources(config, steer, links) {
            let mark = steer.mark;
            let mark = mark.map_or_else(String::new, |mark| format!("meta mark {mark} "));
            let mut to: Vec<String> = steer.to.iter().map(|to| destination(to.net())).collect();
            if to.is_empty() {
                to.push(String::new());
            }
            for to in to {
                let what = format!("{from}{mark}{to}");
                rules.push(format!("{what}oifname \"{tun}\" accept"));
                rules.push(format!("{what}{verdict}"));
            }
        }
    }
    Some(Closed {
        table: config.table,
        rules,
    })
}

/// Returns matches for the cards of a `[[steer]]`.
fn sources(config: &Config, steer: &SteerSpec, links: &[Link]) -> Vec<String> {
    let Some(from) = steer.from.as_deref() else {
        return vec![String::new()];
    };
    let mut sources = Vec::new();
    match from.contains('*') {
        // The router's own interfaces never count as cards, whatever their names.
        true => {
            let own = config.ports.iter().filter_map(tun).chain(["lo"]);
            let own: Vec<_> = own.map(|name| format!("\"{name}\"")).collect();
            let own = own.join(", ");
            sources.push(format!("iifname \"{from}\" iifname != {{ {own} }} "));
        }
        false => sources.push(format!("iifname \"{from}\" ")),
    }
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let cards = config.cards(from, &names);
    let there = links
        .iter()
        .filter(|link| cards.contains(&link.name.as_str()));
    sources.extend(there.map(|link| format!("iif {} ", link.index)));
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

    /// The comments of such a table's rules. All have the same text, which identifies the table.
    pub(super) fn comments(&self) -> Vec<String> {
        vec![self.digest(); self.rules.len()]
    }

    /// FNV-1a over all rules.
    fn digest(&self) -> String {
        let bytes = self.rules.iter().flat_map(|rule| rule.bytes().chain([0]));
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
        for rule in &self.rules {
            // Writing to a string cannot fail.
            let _ = write!(text, "{rule} comment \"{digest}\"; ");
        }
        text.push_str("}; }");
        Step::Nft(text)
    }
}
