//! Checks that the types of single keys cannot express, such as whether `memory` suffices for the
//! packet buffers that the limits of ports require.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::ops::Range;

use pathmark_link::WireConfig;
use pathmark_link::keys::{ByteCount, Fault, LinkCheck, LinkSpec, Pace, Reader, Source, WithLink};
use pathmark_link::queue::Limit;
use toml::{Spanned, Value};

use super::schema::{
    Config, File, FilePort, HostSpec, Interface, LEAST_TRAINS, MeasureSpec, OwnKeys, PortSpec,
    RouteSpec, XcpISpec,
};
use super::steer;
use crate::encapsulation::Encapsulation;
use crate::forward::{Trust, WORKING, cost};

const DEFAULT_MTU: u32 = 1500;
/// RFC 791, and the range of IP's length fields.
const MTU: std::ops::RangeInclusive<u32> = 68..=65_535;
const DEFAULT_MEMORY: ByteCount = ByteCount(1 << 30);
const LEAST_MEMORY: ByteCount = ByteCount(1 << 20);
/// In packets. Already a second of small packets at 1 Gbit/s is too long to wait for a router.
const TXQUEUELEN: std::ops::RangeInclusive<u32> = 1..=1_000_000;
/// Trains get a hundredth of the rate of the fastest port that runs XCP.
const PART: u64 = 100;

/// The forms of `shims`: `true`, `false`, or prefixes and names of ports.
const SHIMS: &str = "write true, false, or { from = [\"10.1.0.0/16\", \"PORT\"] }";
const TUNNELS: [Encapsulation; 2] = [Encapsulation::IpInIp, Encapsulation::Vxlan];
/// Tunnels that encrypt their packets.
const OPAQUE: [&str; 3] = ["esp", "ipsec", "wireguard"];

pub(super) fn config(source: &Source<'_>, file: File) -> Result<Config, Fault> {
    let fail = |span, message: &str| Err(source.locate(Some(span), message));
    if let Some(id) = &file.id
        && *id.get_ref() == 0
    {
        return fail(id.span(), "0 means \"no router\": choose 1 to 65535");
    }
    if let Some(path) = &file.control
        && let Some(message) = steer::bad_socket(path.get_ref())
    {
        return fail(path.span(), &message);
    }
    if let (Some(group), None) = (&file.group, &file.user) {
        return fail(
            group.span(),
            "without `user` the router stays who it is, and so does the status socket: add `user`",
        );
    }
    if let Some(icmp) = &file.icmp
        && icmp.get_ref().rate > 0
        && icmp.get_ref().burst == 0
    {
        return fail(
            icmp.span(),
            "burst = 0 lets no message through: choose 1 or more, or rate = 0 for none",
        );
    }
    let memory = file
        .memory
        .as_ref()
        .map_or(DEFAULT_MEMORY, |m| *m.get_ref());
    if memory < LEAST_MEMORY {
        let span = file.memory.map(|m| m.span());
        return Err(source.locate(span, "packet buffers need at least 1MiB"));
    }
    for rule in &file.ecn {
        let known = rule.get_ref();
        if known.dscp.is_none() && known.port.is_none() && known.prefix.is_none() {
            return fail(
                rule.span(),
                "an [[ecn]] rule without dscp, port or prefix would rewrite everyone's ECN field: \
                 add one",
            );
        }
        if known.dscp.is_some_and(|dscp| dscp > 63) {
            return fail(rule.span(), "dscp is a number from 0 to 63");
        }
    }
    if file.port.is_empty() {
        return Err(source.locate(None, "a router needs at least one [[port]]"));
    }
    let mut ports = Vec::new();
    let mut names = BTreeMap::new();
    let mut interfaces = HashSet::new();
    let mut buffers = Vec::new();
    let mut trusts = Vec::new();
    let mut measuring = None;
    for port in file.port {
        let name = port.own.name.clone();
        if !steer::is_port_name(name.get_ref()) {
            return fail(name.span(), steer::PORT_NAME);
        }
        if names.insert(name.get_ref().clone(), ports.len()).is_some() {
            let message = format!("two ports are called `{}`", name.get_ref());
            return fail(name.span(), &message);
        }
        let place = port.own.tun.as_ref().map(Spanned::span);
        let place = place.or(port.own.fd.as_ref().map(Spanned::span));
        let queue = port.link.queue.as_ref().map(Spanned::span);
        let asks = port.own.reserve.as_ref().map(Spanned::span).or(queue);
        buffers.push(asks.unwrap_or_else(|| port.own.name.span()));
        trusts.push(port.own.shims.clone());
        // Steering leads packets from this machine's network cards into interfaces, and the
        // kernel forwards the packets from these interfaces to the cards.
        let steered = port.own.tun.is_some() && !file.steer.is_empty();
        let kernel_forwards = port.own.kernel_forwards.unwrap_or(steered);
        let source_check = port.own.source_check.unwrap_or(file.source_check);
        let law = port.link.controller.as_ref().map(Spanned::span);
        let later = port.link.at.iter().find(|at| {
            let law = at.get_ref().controller.as_ref();
            law.is_some_and(pathmark_cc::LinkAlgorithm::measured_estimate)
        });
        let law = later.map(Spanned::span).or(law);
        let mut checked = self::port(source, port)?;
        if checked.link.measures_clouds() {
            measuring = measuring.or(law);
        }
        checked.source_check = source_check;
        checked.kernel_forwards = kernel_forwards;
        if !interfaces.insert(format!("{:?}", checked.interface)) {
            return Err(source.locate(place, "two ports share this interface"));
        }
        ports.push(checked);
    }
    for (port, trust) in ports.iter_mut().zip(trusts) {
        if let Some(trust) = trust {
            port.shims = self::trust(trust.get_ref(), &names)
                .map_err(|message| source.locate(Some(trust.span()), message))?;
        }
    }
    let mut routes = Vec::new();
    let mut seen = HashSet::new();
    for route in file.route {
        let prefix = *route.prefix.get_ref();
        let named = |name: &Spanned<String>| {
            let (span, name) = (name.span(), name.get_ref().as_str());
            let unknown = || source.locate(Some(span), steer::no_port(name, &names));
            names.get(name).copied().ok_or_else(unknown)
        };
        let port = named(&route.port)?;
        let from = route.from.as_ref().map(named).transpose()?;
        if !seen.insert((prefix, from)) {
            let message = format!("two routes lead to {prefix}");
            return fail(route.prefix.span(), &message);
        }
        routes.push(RouteSpec { prefix, port, from });
    }
    check_clouds(source, file.xcp_i.as_ref(), measuring, &ports)?;
    let steers = steer::steers(source, file.steer, &ports, &names)?;
    let table = steer::first_table(source, file.table.as_ref())?;
    let config = Config {
        steers,
        table,
        unnamed: file.id.is_none(),
        id: file.id.map_or(1, Spanned::into_inner),
        seed: file.seed,
        control: file.control.map(Spanned::into_inner),
        metrics: file.metrics,
        user: file.user,
        group: file.group.map(Spanned::into_inner),
        memory,
        shims: file.shims.unwrap_or(true),
        ecn: file.ecn.into_iter().map(Spanned::into_inner).collect(),
        icmp: file.icmp.map(Spanned::into_inner).unwrap_or_default(),
        xcp_i: file.xcp_i.map(Spanned::into_inner),
        ports,
        routes,
    };
    match config.short_of_memory() {
        Some((port, message)) => Err(source.locate(buffers.get(port).cloned(), message)),
        None => Ok(config),
    }
}

/// Measuring requires a secret, and an address that other routers can reach.
fn check_clouds(
    source: &Source<'_>,
    xcp_i: Option<&Spanned<XcpISpec>>,
    measuring: Option<Range<usize>>,
    ports: &[PortSpec],
) -> Result<(), Fault> {
    let Some(xcp_i) = xcp_i else {
        return match measuring {
            None => Ok(()),
            place => Err(source.locate(
                place,
                "`estimate=real` measures with the help of other routers: add [xcp_i] with the \
                 secret that they share",
            )),
        };
    };
    match unfit(xcp_i.get_ref(), ports) {
        Some(message) => Err(source.locate(Some(xcp_i.span()), message)),
        None => Ok(()),
    }
}

/// Returns why `[xcp_i]` does not fit these ports.
fn unfit(xcp_i: &XcpISpec, ports: &[PortSpec]) -> Option<&'static str> {
    let reachable = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    if !ports.iter().flat_map(|port| &port.addresses).any(reachable) {
        return Some(
            "messages go to and from an address of the router's own that others reach: add \
             `addresses` to a port",
        );
    }
    if xcp_i.port == 0 {
        return Some("a UDP port is from 1 to 65535");
    }
    // A port without a rate counts as fast.
    let named = ports.iter().filter(|port| port.link.names_router());
    let rates = named.map(|port| port.link.rate.map_or(u64::MAX, |rate| rate.bytes()));
    let fastest = rates.max().unwrap_or(0);
    (xcp_i.trains.is_none() && fastest / PART < LEAST_TRAINS).then_some(
        "no request could be answered. Trains take a hundredth of the rate of the fastest port \
         that runs `xcp` or `xcp-i`, and at least 4800bit: set their rate, trains = \"100kbit\", \
         or leave [xcp_i] out",
    )
}

/// Checks `probe` and `floor`.
fn measure(
    source: &Source<'_>,
    own: &OwnKeys,
    link: &LinkSpec,
) -> Result<Option<MeasureSpec>, Fault> {
    let fail = |span, message| Err(source.locate(Some(span), message));
    let Some(probe) = &own.probe else {
        return match &own.floor {
            None => Ok(None),
            Some(floor) => fail(
                floor.span(),
                "a rate is measured by probes: add probe = \"ADDRESS\", a host behind the link \
                 that answers ICMP echo requests",
            ),
        };
    };
    if !steer::is_hosts(*probe.get_ref()) {
        return fail(probe.span(), steer::NO_HOST);
    }
    if let Some(floor) = &own.floor {
        let rate = link.rate.filter(|_| link.trace.is_none());
        if rate.is_none_or(|rate| rate < *floor.get_ref()) || floor.get_ref().bytes() == 0 {
            return fail(
                floor.span(),
                "the port follows the measured rate between `floor` and `rate`: choose a `floor` \
                 of at least 8bit, and a `rate` that is not lower",
            );
        }
    }
    Ok(Some(MeasureSpec {
        probe: *probe.get_ref(),
        floor: own.floor.as_ref().map(|floor| *floor.get_ref()),
    }))
}

fn port(source: &Source<'_>, port: FilePort) -> Result<PortSpec, Fault> {
    let fail = |span, message: &str| Err(source.locate(Some(span), message));
    let WithLink { own, link: keys } = port;
    let interface = match (&own.tun, &own.fd) {
        (Some(tun), None) => {
            let name = tun.get_ref();
            if !steer::is_interface_name(name) {
                return fail(
                    tun.span(),
                    "an interface name has 1 to 15 letters, digits, '-', '_' or '.'",
                );
            }
            Interface::Tun(name.clone())
        }
        (None, Some(fd)) if *fd.get_ref() > 2 => Interface::Fd(*fd.get_ref()),
        (None, Some(fd)) => return fail(fd.span(), "a passed descriptor has a number above 2"),
        (Some(_), Some(fd)) => return fail(fd.span(), "give either `tun` or `fd`, not both"),
        (None, None) => {
            return fail(
                own.name.span(),
                "the port needs an interface: add tun = \"NAME\"",
            );
        }
    };
    let mtu = own.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| *mtu.get_ref());
    if let Some(given) = &own.mtu
        && !MTU.contains(given.get_ref())
    {
        return fail(given.span(), "an MTU is from 68 to 65535 bytes");
    }
    let check = LinkCheck {
        reader: Reader::Router,
        source,
        keys: &keys,
        place: own.name.span(),
    };
    let link = check.link(Pace {
        rate: keys.rate.as_ref().map(|rate| *rate.get_ref()),
        capacity: keys.capacity.as_ref().map(|rate| *rate.get_ref()),
        ..Pace::default()
    })?;
    check.queue(&link, mtu.into(), None)?;
    if let Some(address) = own
        .addresses
        .iter()
        .find(|a| !steer::is_hosts(*a.get_ref()))
    {
        return fail(address.span(), steer::NO_HOST);
    }
    if let Some(length) = &own.txqueuelen
        && !TXQUEUELEN.contains(length.get_ref())
    {
        return fail(
            length.span(),
            "an interface's queue has 1 to 1000000 packets",
        );
    }
    let tunnel = own.tunnel.as_ref().map(|tunnel| {
        self::tunnel(tunnel.get_ref())
            .map_err(|message| source.locate(Some(tunnel.span()), message))
    });
    let measure = self::measure(source, &own, &link)?;
    Ok(PortSpec {
        measure,
        name: own.name.into_inner(),
        interface,
        mtu,
        addresses: own.addresses.into_iter().map(Spanned::into_inner).collect(),
        reserve: own.reserve.map(Spanned::into_inner),
        shims: Trust::default(),
        source_check: false,
        kernel_forwards: false,
        tunnel: tunnel.transpose()?,
        link,
        host: HostSpec {
            on_stop: own.on_stop,
            txqueuelen: own.txqueuelen.map(Spanned::into_inner),
            addresses: steer::host_addresses(source, &own.host_addresses)?,
        },
    })
}

/// Parses `shims` of a port; `ports` maps the names of the router's ports to their indices.
///
/// # Errors
/// The reason why the value is invalid.
fn trust(value: &Value, ports: &BTreeMap<String, usize>) -> Result<Trust, String> {
    let table = match value {
        Value::Boolean(true) => return Ok(Trust::All),
        Value::Boolean(false) => return Ok(Trust::None),
        Value::Table(table) => table,
        _ => return Err(SHIMS.to_owned()),
    };
    if let Some(other) = table.keys().find(|key| *key != "from") {
        return Err(format!("unknown name `{other}`: {SHIMS}"));
    }
    let Some(Value::Array(places)) = table.get("from") else {
        return Err(SHIMS.to_owned());
    };
    let (mut prefixes, mut known) = (Vec::new(), Vec::new());
    for place in places {
        let Value::String(place) = place else {
            return Err(SHIMS.to_owned());
        };
        if let Some(port) = ports.get(place) {
            known.push(*port);
        } else if place.contains(['/', ':']) || place.parse::<IpAddr>().is_ok() {
            let prefix = place.parse().map_err(|error| format!("{error}"))?;
            prefixes.push(prefix);
        } else {
            let meant = steer::meant(place, ports.keys().map(String::as_str));
            return Err(format!("`{place}` is neither a prefix nor a port{meant}"));
        }
    }
    Ok(Trust::From {
        prefixes,
        ports: known,
    })
}

/// Parses `tunnel` of a port.
///
/// # Errors
/// The reason why the value is invalid.
fn tunnel(value: &str) -> Result<Encapsulation, String> {
    if let Some(known) = TUNNELS.into_iter().find(|known| known.name() == value) {
        return Ok(known);
    }
    if OPAQUE.contains(&value) {
        return Err(format!(
            "`{value}` encrypts the packets inside: no router can copy their shims, or merge \
             answers into them"
        ));
    }
    let meant = steer::meant(value, TUNNELS.map(Encapsulation::name));
    Err(format!(
        "no tunnel is called `{value}`, only `ipip` and `vxlan`{meant}"
    ))
}

impl Config {
    /// Bytes of packet buffers reserved for a port.
    pub fn reserve(&self, port: &PortSpec) -> u64 {
        port.reserve.map_or_else(|| self.share(), |given| given.0)
    }

    /// The default reserve: half of `memory`, divided by the number of ports.
    fn share(&self) -> u64 {
        let ports = u64::try_from(self.ports.len()).unwrap_or(u64::MAX);
        self.free() / 2 / ports.max(1)
    }

    /// The part of `memory` for waiting packets, in bytes.
    fn free(&self) -> u64 {
        self.memory.0.saturating_sub(WORKING as u64)
    }

    /// The most that a port can hold: everything that is not reserved for others.
    fn room(&self, port: &PortSpec) -> u64 {
        let others = self.reserved().saturating_sub(self.reserve(port));
        self.free().saturating_sub(others)
    }

    fn reserved(&self) -> u64 {
        let reserves = self.ports.iter().map(|port| self.reserve(port));
        reserves.fold(0, u64::saturating_add)
    }

    /// Returns the first port that requires more than `memory` allows, and a remedy.
    fn short_of_memory(&self) -> Option<(usize, String)> {
        if self.reserved() > self.free() {
            let last = self.ports.iter().rposition(|port| port.reserve.is_some());
            let message = format!(
                "the ports' reserves are {} together, but `memory` has {} for them: raise it, or \
                 lower `reserve`",
                ByteCount(self.reserved()),
                ByteCount(self.free())
            );
            return Some((last.unwrap_or(0), message));
        }
        self.ports.iter().enumerate().find_map(|(index, port)| {
            let (need, room) = (need(&port.link, port.mtu), self.room(port));
            let message = format!(
                "full, the port's queue and delay take {} of packet buffers, but of `memory` it \
                 may use {}: lower `limit`, or raise `memory`",
                ByteCount(need),
                ByteCount(room)
            );
            (need > room).then_some((index, message))
        })
    }
}

/// Bytes of packet buffers for a port whose queue and wire are full of packets of its MTU.
fn need(link: &LinkSpec, mtu: u32) -> u64 {
    let mtu = u64::from(mtu);
    let buffer = usize::try_from(mtu).ok().and_then(cost).unwrap_or(0) as u64;
    let packets = |bytes: u128| {
        let packets = bytes.div_ceil(u128::from(mtu.max(1)));
        u64::try_from(packets).unwrap_or(u64::MAX)
    };
    let queue = match link.limit(None) {
        Limit::Packets(packets) => packets,
        Limit::Bytes(bytes) => packets(bytes.into()),
    };
    // With the worst values of all changes.
    let rates = link.at.iter().filter_map(|change| change.rate);
    let rate = rates.chain(link.rate).map(|rate| rate.bytes()).max();
    let delays = link.at.iter().filter_map(|change| change.delay);
    let delay = delays.map(|delay| delay.0).max().unwrap_or_default();
    let jitter = link
        .jitter
        .map_or_else(Default::default, |jitter| jitter.max.0);
    let delay = link.delay.0.max(delay).saturating_add(jitter);
    let under_way = u128::from(rate.unwrap_or(0)).saturating_mul(delay.as_nanos());
    let most = WireConfig::default().capacity as u64;
    let wire = packets(under_way / 1_000_000_000).min(most);
    queue.saturating_add(wire).saturating_mul(buffer)
}
