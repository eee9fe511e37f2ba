//! The file's tables and keys, among them `[xcp_i]`: settings of routers that measure the clouds
//! between them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use pathmark_link::keys::{ByteCount, LinkSpec, RateValue, WithLink};
#[cfg(feature = "daemon")]
use pathmark_protocols::shim::Identity;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;
use xcp_edge::Key;

use crate::encapsulation::Encapsulation;
use crate::forward::Trust;
use crate::ip::Prefix;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The router's identity in shims, 1…65535.
    pub id: u16,
    /// True if the file has no `id`.
    pub unnamed: bool,
    /// Seed of the emulated paths.
    pub seed: u64,
    /// Status socket.
    pub control: Option<PathBuf>,
    /// TCP address for Prometheus text.
    pub metrics: Option<SocketAddr>,
    /// User to become once the interfaces are open.
    pub user: Option<String>,
    /// Group to become; absent: the user's.
    pub group: Option<String>,
    /// Maximum bytes of all packet buffers together.
    pub memory: ByteCount,
    /// Whether to look for shims in every UDP datagram.
    pub shims: bool,
    /// Packets that carry VCP in the ECN field.
    pub ecn: Vec<EcnSpec>,
    /// Limits of ICMP messages.
    pub icmp: IcmpSpec,
    /// Messages between XCP-i routers; absent: none are sent or answered.
    pub xcp_i: Option<XcpISpec>,
    /// Ports.
    pub ports: Vec<PortSpec>,
    /// Routes; ports by index.
    pub routes: Vec<RouteSpec>,
    /// Packets that the kernel steers into ports.
    pub steers: Vec<SteerSpec>,
    /// The first of the routing tables, one per port, and of the rules' priorities that `setup`
    /// uses.
    pub table: u32,
}

/// `[[ecn]]`: packets that carry VCP in the ECN field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcnSpec {
    /// DSCP, 0…63.
    pub dscp: Option<u8>,
    /// UDP source or destination port.
    pub port: Option<u16>,
    /// Prefix of source or destination.
    #[serde(default, deserialize_with = "optional_prefix")]
    pub prefix: Option<Prefix>,
}

/// `[icmp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IcmpSpec {
    /// Messages per second; 0 disables them.
    pub rate: u32,
    /// Messages in one burst.
    pub burst: u32,
}

impl Default for IcmpSpec {
    fn default() -> Self {
        Self {
            rate: 1000,
            burst: 50,
        }
    }
}

/// The interface of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// A TUN interface of this name, which is created if necessary.
    Tun(String),
    /// A TUN descriptor that was passed to the process.
    Fd(i32),
}

/// The measurement of the link behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureSpec {
    /// A host behind that link, which answers ICMP echo requests.
    pub probe: IpAddr,
    /// The least rate, if the port follows the measured rate.
    pub floor: Option<RateValue>,
}

/// `[[port]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: Interface,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The router's own addresses on this port.
    pub addresses: Vec<IpAddr>,
    /// Bytes of packet buffers reserved for the port; absent: its share of half of `memory`.
    pub reserve: Option<ByteCount>,
    /// Sources whose shims it trusts.
    pub shims: Trust,
    /// Whether the source of each arriving packet must route back to this port.
    pub source_check: bool,
    /// Whether the host's kernel forwards between this port's interface and network cards.
    pub kernel_forwards: bool,
    /// The tunnel in front of which the port is, if any.
    pub tunnel: Option<Encapsulation>,
    /// Its link.
    pub link: LinkSpec,
    /// The measurement of a slower link behind it, if any.
    pub measure: Option<MeasureSpec>,
    /// The kernel's settings of its interface.
    pub host: HostSpec,
}

impl PortSpec {
    /// The name of its TUN interface; `None` if it has a descriptor.
    pub fn tun(&self) -> Option<&str> {
        match &self.interface {
            Interface::Tun(name) => Some(name),
            Interface::Fd(_) => None,
        }
    }
}

/// `[[route]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Destinations.
    pub prefix: Prefix,
    /// Index of the port.
    pub port: usize,
    /// The index of the input port, if the route is only for its packets.
    pub from: Option<usize>,
}

/// The treatment of steered packets while no router runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStop {
    /// The kernel rejects them (ICMP unreachable), so that none bypasses the port.
    #[default]
    Closed,
    /// They follow the main table, bypassing the port.
    Open,
}

/// The kernel's settings of a port's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSpec {
    /// The treatment of packets steered into the port while no router runs.
    pub on_stop: OnStop,
    /// Maximum number of packets that wait in the interface until the router reads them; `None`:
    /// 500, the kernel's default.
    pub txqueuelen: Option<u32>,
    /// The kernel's addresses on the interface, with prefix lengths.
    pub addresses: Vec<IpNet>,
}

/// `[[steer]]`: packets that the kernel passes to a port instead of forwarding them itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerSpec {
    /// Their input interface. A `*` at its end matches all interfaces whose names start like
    /// this.
    pub from: Option<String>,
    /// Their firewall mark.
    pub mark: Option<u32>,
    /// Their destinations; empty: all of both IP versions.
    pub to: Vec<Prefix>,
    /// Index of the port.
    pub port: usize,
}

impl Config {
    /// Returns the router's identity in shims: its id, and for each IP version the first address
    /// of a port that others can reach.
    #[cfg(feature = "daemon")]
    pub(crate) fn identity(&self) -> Identity {
        let mut identity = Identity::new(self.id);
        let addresses = self.ports.iter().flat_map(|port| &port.addresses);
        // In reverse order, so that the first one remains.
        for address in addresses.rev() {
            match address {
                IpAddr::V4(v4) if !v4.is_link_local() => identity.v4 = *v4,
                IpAddr::V6(v6) if !v6.is_unicast_link_local() => identity.v6 = *v6,
                _ => {}
            }
        }
        identity
    }

    /// Returns warnings about settings that are probably unintended.
    pub fn warnings(&self) -> Vec<String> {
        let mut ports = self.ports.iter();
        let speaks = ports.any(|port| port.link.laws().next().is_some());
        let id = "two routers without `id` on a path have the same identity, 1: \
                  add `id`, another one at each router";
        let id = (self.unnamed && speaks).then(|| id.to_owned());
        id.into_iter().collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) id: Option<Spanned<u16>>,
    #[serde(default)]
    pub(super) seed: u64,
    pub(super) control: Option<Spanned<PathBuf>>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) user: Option<String>,
    pub(super) group: Option<Spanned<String>>,
    pub(super) memory: Option<Spanned<ByteCount>>,
    pub(super) shims: Option<bool>,
    #[serde(default)]
    pub(super) source_check: bool,
    #[serde(default)]
    pub(super) ecn: Vec<Spanned<EcnSpec>>,
    pub(super) icmp: Option<Spanned<IcmpSpec>>,
    pub(super) xcp_i: Option<Spanned<XcpISpec>>,
    #[serde(default)]
    pub(super) port: Vec<FilePort>,
    #[serde(default)]
    pub(super) route: Vec<FileRoute>,
    #[serde(default)]
    pub(super) steer: Vec<FileSteer>,
    pub(super) table: Option<Spanned<u32>>,
}

/// `[[port]]`.
pub(super) type FilePort = WithLink<OwnKeys>;

/// A port's keys, without those of its link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnKeys {
    pub(super) name: Spanned<String>,
    pub(super) tun: Option<Spanned<String>>,
    pub(super) fd: Option<Spanned<i32>>,
    pub(super) mtu: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<IpAddr>>,
    pub(super) reserve: Option<Spanned<ByteCount>>,
    pub(super) shims: Option<Spanned<toml::Value>>,
    pub(super) source_check: Option<bool>,
    pub(super) kernel_forwards: Option<bool>,
    pub(super) tunnel: Option<Spanned<String>>,
    pub(super) probe: Option<Spanned<IpAddr>>,
    pub(super) floor: Option<Spanned<RateValue>>,
    #[serde(default)]
    pub(super) on_stop: OnStop,
    pub(super) txqueuelen: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) host_addresses: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRoute {
    #[serde(deserialize_with = "spanned_prefix")]
    pub(super) prefix: Spanned<Prefix>,
    pub(super) port: Spanned<String>,
    pub(super) from: Option<Spanned<String>>,
}

/// `[[steer]]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSteer {
    pub(super) from: Option<Spanned<String>>,
    pub(super) mark: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) to: Vec<Spanned<String>>,
    pub(super) port: Spanned<String>,
}

fn prefix<E: de::Error>(text: &str) -> Result<Prefix, E> {
    text.parse().map_err(E::custom)
}

fn optional_prefix<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Prefix>, D::Error> {
    prefix(&String::deserialize(d)?).map(Some)
}

fn spanned_prefix<'de, D: Deserializer<'de>>(d: D) -> Result<Spanned<Prefix>, D::Error> {
    struct Text(Prefix);
    impl<'de> Deserialize<'de> for Text {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            prefix(&String::deserialize(d)?).map(Text)
        }
    }
    let spanned = Spanned::<Text>::deserialize(d)?;
    let span = spanned.span();
    Ok(Spanned::new(span, spanned.into_inner().0))
}

/// Default UDP port of messages between routers.
const PORT: u16 = 6653;

/// A secret that routers share. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Derives the key.
    pub fn key(&self) -> Option<Key> {
        Key::new(self.0.as_bytes()).ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The other programs read it from a file that ends with a line break, so whitespace is
        // trimmed.
        let text = String::deserialize(deserializer)?;
        let text = text.trim();
        match Key::new(text.as_bytes()) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(short) => Err(de::Error::custom(short)),
        }
    }
}

/// `[xcp_i]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XcpISpec {
    /// The secret shared by all routers of the network.
    pub secret: Secret,
    /// UDP port of messages, the same on all of these routers.
    #[serde(default = "port")]
    pub port: u16,
    /// The rate of trains for other routers; absent: a hundredth of the rate of the fastest port
    /// that runs `xcp` or `xcp-i`.
    #[serde(default, deserialize_with = "trains")]
    pub trains: Option<RateValue>,
}

/// Minimum rate in bytes per second. A train may take the bytes of 10 s. Below this rate, it
/// would have less than the four packets that a measurement needs.
pub(super) const LEAST_TRAINS: u64 = 600;

fn trains<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateValue>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Number(i64),
    }
    let rate: RateValue = match Form::deserialize(deserializer)? {
        Form::Text(text) => text.parse().map_err(de::Error::custom)?,
        Form::Number(number) => {
            return Err(de::Error::custom(format!(
                "{number} what? a rate has a unit: write \"{number}kbit\", for example"
            )));
        }
    };
    if rate.bytes() >= LEAST_TRAINS {
        Ok(Some(rate))
    } else {
        Err(de::Error::custom(
            "no train has enough packets at such a rate: `trains` is at least \"4800bit\"",
        ))
    }
}

const fn port() -> u16 {
    PORT
}
