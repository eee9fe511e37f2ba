//! The nftables rules, mark and route with which the kernel redirects packets to a transparent
//! listener.
//!
//! ```text
//!   forwarded ──► prerouting: tproxy, mark ─┐
//!   own ─► output: mark ─► route: lo ─► prerouting ─┴─► rule: fwmark ─► table: local ─► listener
//! ```
//!
//! If the ingress isn't running, its packets are dropped.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// The mark of packets for the listener.
pub const MARK: u32 = 0x7076;
/// The mark of the tunnel's own packets.
pub const OWN: u32 = 0x7077;
/// The number of the routing table, and the priority of the rule that selects it.
const TABLE: u32 = 11_700;
/// The name of the nftables table.
const NAME: &str = "pathmark_tunnel";

/// Networks that are never reached through a tunnel: this network, private, shared and
/// link-local addresses, loopback, multicast, and reserved addresses (RFC 6890).
const PRIVATE: [&str; 13] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
    "::/127",
    "::ffff:0:0/96",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

/// Selects the packets that are redirected to a transparent listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The listener's port.
    pub port: u16,
    /// Addresses of the tunnel's server.
    pub servers: Vec<IpAddr>,
    /// Additional networks to reach directly.
    pub bypass: Vec<IpNet>,
    /// Networks whose packets are redirected on a gateway, or empty for all.
    pub from: Vec<IpNet>,
}

/// A step to take. It is displayed as a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `nft` with these commands.
    Nft(String),
    /// `ip` with these arguments.
    Ip(String),
    /// `ip` with these arguments, which may fail if there is nothing to do.
    TryIp(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nft(commands) => write!(f, "nft -f - <<'end'\n{commands}end"),
            Self::Ip(words) => write!(f, "ip {words}"),
            Self::TryIp(words) => write!(f, "ip {words} 2>/dev/null || true"),
        }
    }
}

/// Returns the machine's IP versions as options of `ip`.
const fn versions(ipv6: bool) -> &'static [&'static str] {
    if ipv6 { &["-4", "-6"] } else { &["-4"] }
}

impl Rules {
    /// Returns the steps that install the rules. Repeating them is harmless.
    pub fn apply(&self, ipv6: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for version in versions(ipv6) {
            steps.push(no_rule(version));
            steps.push(Step::Ip(format!(
                "{version} rule add priority {TABLE} fwmark {MARK:#x} lookup {TABLE}"
            )));
            steps.push(Step::Ip(format!(
                "{version} route replace local default dev lo table {TABLE}"
            )));
        }
        steps.push(Step::Nft(self.table()));
        steps
    }

    /// Returns the steps that remove everything that [`apply`](Self::apply) installed.
    pub fn undo(ipv6: bool) -> Vec<Step> {
        let mut steps = vec![Step::Nft(format!(
            "table inet {NAME}\ndelete table inet {NAME}\n"
        ))];
        for version in versions(ipv6) {
            steps.push(no_rule(version));
            steps.push(Step::TryIp(format!("{version} route flush table {TABLE}")));
        }
        steps
    }

    /// Returns the nftables commands, which replace the table in one transaction.
    fn table(&self) -> String {
        let servers = self.servers.iter().map(|server| IpNet::from(*server));
        let private = PRIVATE.iter().filter_map(|network| network.parse().ok());
        let bypass: Vec<IpNet> = private
            .chain(servers)
            .chain(self.bypass.iter().copied())
            .collect();
        let mut text =
            format!("table inet {NAME}\ndelete table inet {NAME}\ntable inet {NAME} {{\n");
        text += &sets("bypass", &bypass);
        text += &sets("from", &self.from);
        let not_ours = "\
            \x20   meta l4proto != { tcp, udp } accept\n\
            \x20   ct direction reply accept\n\
            \x20   fib daddr type { local, broadcast, anycast, multicast } accept\n\
            \x20   ip daddr @bypass4 accept\n\
            \x20   ip6 daddr @bypass6 accept\n";
        text += "  chain prerouting {\n    type filter hook prerouting priority mangle\n";
        text += not_ours;
        if !self.from.is_empty() {
            text += "    iif != lo ip saddr != @from4 accept\n";
            text += "    iif != lo ip6 saddr != @from6 accept\n";
        }
        for (family, version, to) in [("ipv4", "ip", "127.0.0.1"), ("ipv6", "ip6", "[::1]")] {
            for protocol in ["tcp", "udp"] {
                text += &format!(
                    "    meta nfproto {family} meta l4proto {protocol} tproxy {version} \
                     to {to}:{} meta mark set {MARK:#x} accept\n",
                    self.port
                );
            }
        }
        text += "    counter drop\n  }\n";
        text += "  chain output {\n    type route hook output priority mangle\n";
        text += &format!("    meta mark {OWN:#x} accept\n");
        text += not_ours;
        text += &format!("    meta mark set {MARK:#x}\n  }}\n");
        // A socket that is bound to an interface doesn't follow the route to the listener.
        text += "  chain postrouting {\n    type filter hook postrouting priority mangle\n";
        text += &format!(
            "    meta mark {MARK:#x} ct direction original oif != lo counter drop\n  }}\n}}\n"
        );
        text
    }
}

/// Removes the rule for an IP version, if it exists.
fn no_rule(version: &str) -> Step {
    Step::TryIp(format!("{version} rule delete priority {TABLE}"))
}

/// Formats a set for each IP version.
fn sets(name: &str, networks: &[IpNet]) -> String {
    let mut text = String::new();
    for (version, kind) in [(4, "ipv4_addr"), (6, "ipv6_addr")] {
        let elements: Vec<_> = networks
            .iter()
            .filter(|network| network.addr().is_ipv4() == (version == 4))
            .map(ToString::to_string)
            .collect();
        text += &format!("  set {name}{version} {{\n    type {kind}\n    flags interval\n");
        text += "    auto-merge\n";
        if !elements.is_empty() {
            text += &format!("    elements = {{ {} }}\n", elements.join(", "));
        }
        text += "  }\n";
    }
    text
}
