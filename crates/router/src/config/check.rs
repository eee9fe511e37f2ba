//! What the types of single keys cannot say.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use toml::Spanned;

use super::clouds::XcpISpec;
use super::error::{ConfigError, Source};
use super::link::{LimitSpec, LinkSpec};
use super::names;
use super::schema::{Config, File, FilePort, Interface, PortSpec, RouteSpec};
use super::steer;
use super::suggest::nearest;
use super::trust;
use super::units::{ByteCount, RateValue};
use crate::forward::Trust;

const DEFAULT_MTU: u32 = 1500;
/// RFC 791 and what IP's length fields can say.
const MTU: std::ops::RangeInclusive<u32> = 68..=65_535;
const DEFAULT_MEMORY: ByteCount = ByteCount(1 << 30);
const LEAST_MEMORY: ByteCount = ByteCount(1 << 20);
/// Packets: a second of small ones at 1 Gbit/s is more than any router should wait for.
const TXQUEUELEN: std::ops::RangeInclusive<u32> = 1..=1_000_000;

pub(super) fn config(source: &Source<'_>, file: File) -> Result<Config, ConfigError> {
    if let Some(id) = &file.id
        && *id.get_ref() == 0
    {
        return Err(source.fault(Some(id.span()), "0 means \"no router\": choose 1 to 65535"));
    }
    if let Some(path) = &file.control
        && let Some(message) = names::bad_socket(path.get_ref())
    {
        return Err(source.fault(Some(path.span()), message));
    }
    if let (Some(group), None) = (&file.group, &file.user) {
        return Err(source.fault(
            Some(group.span()),
            "without `user` the router stays who it is, and so does the status socket: add `user`",
        ));
    }
    if let Some(icmp) = &file.icmp
        && icmp.get_ref().rate > 0
        && icmp.get_ref().burst == 0
    {
        return Err(source.fault(
            Some(icmp.span()),
            "burst = 0 lets no message through: choose 1 or more, or rate = 0 for none",
        ));
    }
    let memory = file
        .memory
        .as_ref()
        .map_or(DEFAULT_MEMORY, |m| *m.get_ref());
    if memory < LEAST_MEMORY {
        let span = file.memory.map(|m| m.span());
        return Err(source.fault(span, "packet buffers need at least 1MiB"));
    }
    for rule in &file.ecn {
        let known = rule.get_ref();
        if known.dscp.is_none() && known.port.is_none() && known.prefix.is_none() {
            return Err(source.fault(
                Some(rule.span()),
                "an [[ecn]] rule without dscp, port or prefix would rewrite everyone's ECN field: \
                 add one",
            ));
        }
        if known.dscp.is_some_and(|dscp| dscp > 63) {
            return Err(source.fault(Some(rule.span()), "dscp is a number from 0 to 63"));
        }
    }
    if file.port.is_empty() {
        return Err(source.fault(None, "a router needs at least one [[port]]"));
    }
    let mut ports = Vec::new();
    let mut names = BTreeMap::new();
    let mut interfaces = HashSet::new();
    let mut buffers = Vec::new();
    let mut trusts = Vec::new();
    let mut measuring = None;
    for port in file.port {
        let name = port.name.clone();
        if !names::is_port_name(name.get_ref()) {
            return Err(source.fault(Some(name.span()), names::PORT_NAME));
        }
        if names.insert(name.get_ref().clone(), ports.len()).is_some() {
            let message = format!("two ports are called `{}`", name.get_ref());
            return Err(source.fault(Some(name.span()), message));
        }
        let place = port.tun.as_ref().map(Spanned::span);
        let place = place.or(port.fd.as_ref().map(Spanned::span));
        let queue = port.queue.as_ref().map(Spanned::span);
        let asks = port.reserve.as_ref().map(Spanned::span).or(queue);
        buffers.push(asks.unwrap_or_else(|| port.name.span()));
        trusts.push(port.shims.clone());
        let source_check = port.source_check.unwrap_or(file.source_check);
        let law = port.controller.as_ref().map(Spanned::span);
        let later = port.at.iter().find(|at| {
            let law = at.get_ref().controller.as_ref();
            law.is_some_and(pathmark_cc::LinkAlgorithm::measured_estimate)
        });
        let law = later.map(Spanned::span).or(law);
        let mut checked = self::port(source, port)?;
        if checked.link.measures_clouds() {
            measuring = measuring.or(law);
        }
        checked.source_check = source_check;
        if !interfaces.insert(format!("{:?}", checked.interface)) {
            return Err(source.fault(place, "two ports share this interface"));
        }
        ports.push(checked);
    }
    for (port, trust) in ports.iter_mut().zip(trusts) {
        if let Some(trust) = trust {
            port.shims = trust::read(trust.get_ref(), &names)
                .map_err(|message| source.fault(Some(trust.span()), message))?;
        }
    }
    let mut routes = Vec::new();
    let mut seen = HashSet::new();
    for route in file.route {
        let prefix = *route.prefix.get_ref();
        let named = |name: &Spanned<String>| {
            let (span, name) = (name.span(), name.get_ref().as_str());
            names.get(name).copied().ok_or_else(|| {
                let meant = nearest(name, names.keys().map(String::as_str));
                let hint =
                    meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
                source.fault(Some(span), format!("no port is called `{name}`{hint}"))
            })
        };
        let port = named(&route.port)?;
        let from = route.from.as_ref().map(named).transpose()?;
        if !seen.insert((prefix, from)) {
            let message = format!("two routes lead to {prefix}");
            return Err(source.fault(Some(route.prefix.span()), message));
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
        Some((port, message)) => Err(source.fault(buffers.get(port).cloned(), message)),
        None => Ok(config),
    }
}

/// Measuring takes a secret, and an address that others can reach.
fn check_clouds(
    source: &Source<'_>,
    xcp_i: Option<&Spanned<XcpISpec>>,
    measuring: Option<Range<usize>>,
    ports: &[PortSpec],
) -> Result<(), ConfigError> {
    let Some(xcp_i) = xcp_i else {
        return match measuring {
            None => Ok(()),
            place => Err(source.fault(
                place,
                "`estimate=real` measures with the help of other routers: add [xcp_i] with the \
                 secret that they share",
            )),
        };
    };
    match xcp_i.get_ref().unfit(ports) {
        Some(message) => Err(source.fault(Some(xcp_i.span()), message)),
        None => Ok(()),
    }
}

/// What a port's law needs, now and after each scheduled change.
fn check_laws(source: &Source<'_>, port: &FilePort) -> Result<(), ConfigError> {
    let fail = |span, message: &str| Err(source.fault(Some(span), message));
    let own = port.controller.iter();
    let own = own.filter_map(|law| Some((law.get_ref().0.as_ref()?, law.span())));
    let later = port.at.iter();
    let later = later.filter_map(|at| Some((at.get_ref().controller.as_ref()?, at.span())));
    let laws: Vec<_> = own.chain(later).collect();
    for (law, span) in &laws {
        if port.rate.is_none() && port.capacity.is_none() {
            return fail(
                span.clone(),
                "a controller measures load against the port's rate: add `rate`, or `capacity` if \
                 the link behind the port is the slow one",
            );
        }
        if law.exact_estimate().is_some() {
            return fail(
                span.clone(),
                "only the emulator knows what clouds have left: leave `estimate=exact` out",
            );
        }
    }
    match &port.capacity {
        Some(capacity) if laws.is_empty() => fail(
            capacity.span(),
            "only a control law reckons with a capacity: add `controller`",
        ),
        _ => Ok(()),
    }
}

fn port(source: &Source<'_>, port: FilePort) -> Result<PortSpec, ConfigError> {
    let fail = |span, message: &str| Err(source.fault(Some(span), message));
    let interface = match (&port.tun, &port.fd) {
        (Some(tun), None) => {
            let name = tun.get_ref();
            if !names::is_interface_name(name) {
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
                port.name.span(),
                "the port needs an interface: add tun = \"NAME\"",
            );
        }
    };
    let mtu = port.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| *mtu.get_ref());
    if let Some(given) = &port.mtu
        && !MTU.contains(given.get_ref())
    {
        return fail(given.span(), "an MTU is from 68 to 65535 bytes");
    }
    for (rate, span) in rates(&port) {
        if source.is_bare(&span) && rate.bits > 0 {
            let (bits, meant) = (
                rate.bits,
                RateValue {
                    bits: rate.bits.saturating_mul(1_000_000),
                },
            );
            let message = format!(
                "{bits} what? a rate has a unit: write \"{bits}bit\" for {bits} bits per second, \
                 or \"{meant}\""
            );
            return fail(span, &message);
        }
    }
    if let Some(rate) = &port.rate
        && rate.get_ref().bytes() == 0
    {
        return fail(
            rate.span(),
            "the rate must be at least 8bit; leave it out for an unlimited port",
        );
    }
    if let Some(capacity) = &port.capacity
        && capacity.get_ref().bytes() == 0
    {
        return fail(
            capacity.span(),
            "the capacity must be at least 8bit; leave it out where `rate` says all",
        );
    }
    check_laws(source, &port)?;
    if let Some(change) = port.at.iter().find(|at| at.get_ref().restart.is_some()) {
        return fail(
            change.span(),
            "only emulated routers restart at a given time: leave `restart` out",
        );
    }
    if let Some(address) = port
        .addresses
        .iter()
        .find(|a| !names::is_hosts(*a.get_ref()))
    {
        return fail(address.span(), steer::NO_HOST);
    }
    let queue = port
        .queue
        .as_ref()
        .map(|q| *q.get_ref())
        .unwrap_or_default();
    if let Some(spanned) = &port.queue {
        check_queue(source, spanned, &port, mtu)?;
    }
    if let Some(length) = &port.txqueuelen
        && !TXQUEUELEN.contains(length.get_ref())
    {
        return fail(
            length.span(),
            "an interface's queue has 1 to 1000000 packets",
        );
    }
    let corruption = port.corruption.as_ref().map(Spanned::span);
    let grant = port.grant.clone();
    let mut checked = PortSpec {
        name: port.name.into_inner(),
        interface,
        mtu,
        addresses: port
            .addresses
            .into_iter()
            .map(Spanned::into_inner)
            .collect(),
        reserve: port.reserve.map(Spanned::into_inner),
        shims: Trust::default(),
        source_check: false,
        link: LinkSpec {
            rate: port.rate.map(Spanned::into_inner),
            capacity: port.capacity.map(Spanned::into_inner),
            follow: false,
            trace: None,
            delay: port.delay,
            queue,
            controller: port.controller.and_then(|law| law.into_inner().0),
            corruption: port.corruption.map(Spanned::into_inner).unwrap_or_default(),
            frame_overhead: port.frame_overhead,
            loss: port.loss,
            jitter: port.jitter,
            at: port.at.into_iter().map(Spanned::into_inner).collect(),
        },
        host: steer::HostSpec {
            on_stop: port.on_stop,
            txqueuelen: port.txqueuelen.map(Spanned::into_inner),
            addresses: steer::host_addresses(source, &port.host_addresses)?,
        },
    };
    if let Some(grant) = grant
        && let Err(message) = checked.link.set_grants(*grant.get_ref())
    {
        return fail(grant.span(), message);
    }
    match (checked.link.bad_corruption(), corruption) {
        (Some(message), Some(span)) => fail(span, message),
        _ => Ok(checked),
    }
}

/// Every rate of a port, and where it stands: in `at`, the entry that has it.
fn rates(port: &FilePort) -> Vec<(RateValue, Range<usize>)> {
    let own = [&port.rate, &port.capacity].into_iter().flatten();
    let own = own.map(|rate| (*rate.get_ref(), rate.span()));
    let later = port.at.iter();
    let later = later.filter_map(|change| Some((change.get_ref().rate?, change.span())));
    own.chain(later).collect()
}

fn check_queue(
    source: &Source<'_>,
    spanned: &Spanned<super::QueueSpec>,
    port: &FilePort,
    mtu: u32,
) -> Result<(), ConfigError> {
    let fail = |message: &str| Err(source.fault(Some(spanned.span()), message));
    let queue = spanned.get_ref();
    match queue.limit {
        Some(LimitSpec::MilliBdp(_)) if queue.rtt.is_none() => {
            return fail(
                "`bdp` needs to know the path's round-trip time: add rtt = \"100ms\" beside it",
            );
        }
        Some(LimitSpec::MilliBdp(_)) if port.rate.is_none() => {
            return fail(
                "`bdp` needs the port's rate: add `rate`, or write the limit in packets or bytes",
            );
        }
        Some(LimitSpec::Packets(0) | LimitSpec::MilliBdp(0)) => {
            return fail("a queue needs room for a packet");
        }
        Some(LimitSpec::Bytes(bytes)) if bytes < u64::from(mtu) => {
            return fail("the queue cannot hold one packet of the port's MTU: raise `limit`");
        }
        _ => {}
    }
    match queue.unfit() {
        Some(message) => fail(&message),
        None => Ok(()),
    }
}
