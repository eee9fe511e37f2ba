//! The file's tables and keys.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use pathmark_link::keys::{ByteCount, LinkSpec, WithLink};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::clouds::XcpISpec;
use crate::encapsulation::Encapsulation;
use crate::forward::Trust;
use crate::ip::Prefix;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The router's identity in shims, 1…65535.
    pub id: u16,
    /// The file says nothing of `id`.
    pub unnamed: bool,
    /// Seed of what emulates a path.
    pub seed: u64,
    /// Status socket.
    pub control: Option<PathBuf>,
    /// TCP address that answers with Prometheus text.
    pub metrics: Option<SocketAddr>,
    /// User to become once the interfaces are open.
    pub user: Option<String>,
    /// Group to become; absent: the user's own.
    pub group: Option<String>,
    /// Bytes that packet buffers may take in all.
    pub memory: ByteCount,
    /// Looks for shims in every UDP datagram.
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
    /// What the kernel steers into ports.
    pub steers: Vec<SteerSpec>,
    /// First of the routing tables, one per port, and of the priorities of rules that `setup`
    /// makes.
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
    /// Messages per second; 0 sends none.
    pub rate: u32,
    /// Messages at once.
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

/// Where a port's packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// A TUN interface of this name, made if there is none.
    Tun(String),
    /// A TUN descriptor that was passed to the process.
    Fd(i32),
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
    /// The router's own addresses here.
    pub addresses: Vec<IpAddr>,
    /// Bytes of packet buffers that it may always hold; absent: its part of half of `memory`.
    pub reserve: Option<ByteCount>,
    /// Whose shims it believes.
    pub shims: Trust,
    /// Packets that come in here must have a source that routes back here.
    pub source_check: bool,
    /// The kernel of the box forwards between its interface and network cards.
    pub kernel_forwards: bool,
    /// The tunnel that it is in front of.
    pub tunnel: Option<Encapsulation>,
    /// Its link.
    pub link: LinkSpec,
    /// Its interface as the kernel sees it.
    pub host: HostSpec,
}

/// `[[route]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Destinations.
    pub prefix: Prefix,
    /// Index of the port.
    pub port: usize,
    /// Of packets that came in on the port with this index only.
    pub from: Option<usize>,
}

/// What happens to steered packets while no router runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnStop {
    /// They are refused (ICMP unreachable): nothing passes by the port.
    #[default]
    Closed,
    /// They take the main table, past the port.
    Open,
}

/// A port's interface as the kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSpec {
    /// What happens to packets steered into the port while no router runs.
    pub on_stop: OnStop,
    /// Packets that wait in the interface for the router to read them; `None`: 500, the kernel's
    /// own value.
    pub txqueuelen: Option<u32>,
    /// Addresses that the kernel has on the interface, with their prefix length.
    pub addresses: Vec<IpNet>,
}

/// `[[steer]]`: packets that the kernel hands to a port instead of forwarding them itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerSpec {
    /// Interface that they come in on; with `*` at its end: all whose names begin so.
    pub from: Option<String>,
    /// Firewall mark that they bear.
    pub mark: Option<u32>,
    /// Their destinations; empty: all, of both IP versions.
    pub to: Vec<Prefix>,
    /// Index of the port.
    pub port: usize,
}

impl Config {
    /// What may be meant, and is likely not.
    #[must_use]
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

/// What of a port's keys is not its link's.
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

/// `[[steer]]` as it is written.
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
