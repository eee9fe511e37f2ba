//! Turns a configuration into a running router, and a running router into the next one:
//! completely or not at all.

use std::collections::{HashMap, HashSet};
use std::io;

use pathmark_cc::{Instant, LinkController};
use pathmark_link::Link;
use pathmark_link::keys::{LinkContext, build_link, build_schedule, build_wire};
use pathmark_link::queue::BadRed;

use super::clouds;
use crate::config::{Config, Interface, PortSpec};
use crate::forward::{
    Classifier, EcnRule, Frame, PortSettings, Router, RouterConfig, RouterPort, Target, route_table,
};
use crate::ip::{RouteTable, Routes, TokenBucket};
use crate::tun::{Deaf, Device, DeviceError, Driver, Namespaces};

/// A valid configuration that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// An interface cannot be opened.
    #[error("port {port}: {source}")]
    Device {
        /// The port.
        port: String,
        /// The cause.
        source: DeviceError,
    },
    /// The system has no random numbers.
    #[error("cannot draw random numbers: {0}")]
    Random(io::Error),
    /// Impossible RED parameters.
    #[error("port {port}: queue: {source}")]
    Queue {
        /// The port.
        port: String,
        /// The cause.
        source: BadRed,
    },
}

/// Creates a router. Its hashes get their seed from the first plan that is applied.
pub(super) fn router(config: &Config) -> Router {
    Router::new(RouterConfig {
        id: config.identity(),
        memory: usize::try_from(config.memory.0).unwrap_or(usize::MAX),
        classifier: classifier(config, 0),
        icmp: TokenBucket::new(config.icmp.rate, config.icmp.burst),
    })
}

/// `seed` should be random, because other users can read the seeds in the configuration.
fn classifier(config: &Config, seed: u64) -> Classifier {
    let rule = |spec: &crate::config::EcnSpec| EcnRule {
        dscp: spec.dscp,
        port: spec.port,
        prefix: spec.prefix,
    };
    Classifier {
        shims: config.shims,
        ecn: config.ecn.iter().map(rule).collect(),
        seed,
    }
}

/// Creates a router for a program that passes it packets itself. The interfaces of its ports are
/// not opened.
///
/// # Errors
/// [`AssembleError::Queue`], [`AssembleError::Random`].
pub fn without_interfaces(config: &Config, now: Instant) -> Result<Router, AssembleError> {
    let seeds = clouds::Seeds::draw().map_err(AssembleError::Random)?;
    let ports = config.ports.iter().map(|port| {
        let link = link(port, config, now, &seeds)?;
        Ok(RouterPort::new(settings(port, config), link))
    });
    let ports = ports.collect::<Result<_, AssembleError>>()?;
    let (table, entries) = tables(config);
    let mut router = router(config);
    router.set_cloud_meter(clouds::meter(config, now, &seeds));
    configure(&mut router, true, config, &seeds);
    router.install(ports, table);
    router.set_entries(entries);
    Ok(router)
}

/// Applies the settings that do not belong to a port. A running router keeps its hash seed, so
/// that its ports still recognize their flows.
fn configure(router: &mut Router, starts: bool, new: &Config, seeds: &clouds::Seeds) {
    let seed = if starts {
        seeds.hashes
    } else {
        router.hash_seed()
    };
    router.configure(
        new.identity(),
        classifier(new, seed),
        TokenBucket::new(new.icmp.rate, new.icmp.burst),
    );
}

/// A configuration that is ready to be applied. Every step that can fail or take long is done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    /// By port; `None` if the port keeps its interface.
    opened: Vec<Option<Device>>,
    /// By port; `None` if the port keeps its queue.
    built: Vec<Option<Link<Frame>>>,
    table: RouteTable<Target>,
    /// By input port.
    entries: Vec<Option<RouteTable<Target>>>,
    /// Random numbers for this plan.
    seeds: clouds::Seeds,
}

/// Prepares `new` to replace `old` (`None` at the start) by opening interfaces, building links,
/// and packing routes. Because nothing changes yet, any thread may do this. `lost` marks the
/// ports whose interface is gone.
pub(super) fn plan(
    old: Option<&Config>,
    lost: &[bool],
    new: Config,
    now: Instant,
) -> Result<Plan, AssembleError> {
    let before = predecessors(old, &new);
    let mut namespaces = Namespaces::default();
    let (mut opened, mut built) = (Vec::new(), Vec::new());
    let seeds = clouds::Seeds::draw().map_err(AssembleError::Random)?;
    for (port, before) in new.ports.iter().zip(&before) {
        let lost = |index: usize| lost.get(index).copied().unwrap_or(false);
        opened.push(match before {
            Some((index, old)) if old.interface == port.interface && !lost(*index) => None,
            _ => {
                let mut device = open(&port.interface, port)?;
                device.find(&mut namespaces);
                Some(device)
            }
        });
        built.push(match before {
            Some((_, old)) if same_queue(old, port) => None,
            _ => Some(link(port, &new, now, &seeds)?),
        });
    }
    let (table, entries) = tables(&new);
    // This must come last, because it may change an interface; no later step can fail.
    let kept = new.ports.iter().zip(&before).zip(&opened);
    for ((port, before), _) in kept.filter(|(_, opened)| opened.is_none()) {
        if before.is_some_and(|(_, old)| old.mtu != port.mtu) {
            Device::fit(&port.interface, port.mtu).map_err(device_error(port))?;
        }
    }
    Ok(Plan {
        config: new,
        opened,
        built,
        table,
        entries,
        seeds,
    })
}

/// Compiles the common table, and separate tables for ports whose packets have additional
/// routes.
fn tables(config: &Config) -> (RouteTable<Target>, Vec<Option<RouteTable<Target>>>) {
    let table = |entry: Option<usize>| {
        let mut routes = Routes::new();
        // In this order, so that a route of the input port replaces a common one.
        for from in [None, entry] {
            for route in config.routes.iter().filter(|route| route.from == from) {
                routes.insert(route.prefix, Target::Port(route.port));
            }
        }
        let own = config.ports.iter().flat_map(|port| &port.addresses);
        route_table(routes, own)
    };
    let own = |entry| config.routes.iter().any(|route| route.from == Some(entry));
    let entries = (0..config.ports.len()).map(|entry| own(entry).then(|| table(Some(entry))));
    (table(None), entries.collect())
}

/// Finds the predecessor in `old` of each port of `new`, with its index. This is the port with
/// the same interface; otherwise the one with the same name, unless another port of `new` has
/// taken its interface.
fn predecessors<'a>(old: Option<&'a Config>, new: &Config) -> Vec<Option<(usize, &'a PortSpec)>> {
    let ports = old.into_iter().flat_map(|config| &config.ports);
    let (mut by_interface, mut by_name) = (HashMap::new(), HashMap::new());
    for (index, port) in ports.enumerate() {
        by_interface.insert(&port.interface, (index, port));
        by_name.insert(&port.name, (index, port));
    }
    let taken: HashSet<_> = new.ports.iter().map(|port| &port.interface).collect();
    by_name.retain(|_, (_, port)| !taken.contains(&port.interface));
    let before = new.ports.iter().map(|port| {
        let same = by_interface.get(&port.interface);
        same.or_else(|| by_name.get(&port.name)).copied()
    });
    before.collect()
}

/// The parts that a plan has replaced, which should be dropped in another thread.
pub(super) type Replaced = (Vec<Option<RouteTable<Target>>>, Vec<Option<Device>>);

/// Applies a plan. Ports with the same interface or name keep their interface, and keep their
/// queue and counters if the kind of queue stays the same. The time this takes does not grow
/// with the routes. It cannot fail, but interfaces may turn out to be deaf.
pub(super) fn put_in_force(
    driver: &mut Driver,
    old: Option<&Config>,
    plan: Plan,
) -> (Config, Replaced, Vec<Deaf>) {
    let now = driver.now();
    let (new, seeds) = (plan.config, plan.seeds);
    let before = predecessors(old, &new);
    let ports = driver.router_mut().take_ports();
    let mut ports: Vec<Option<RouterPort>> = ports.into_iter().map(Some).collect();
    let (devices, _) = driver.set_devices(Vec::new());
    let mut devices: Vec<Option<Device>> = devices.into_iter().map(Some).collect();
    let (mut next_ports, mut next_devices) = (Vec::new(), Vec::new());
    let planned = new.ports.iter().zip(plan.opened).zip(plan.built);
    for (((spec, device), link), before) in planned.zip(before) {
        let old_port = before.and_then(|(index, _)| ports.get_mut(index)?.take());
        let old_device = before.and_then(|(index, _)| devices.get_mut(index)?.take());
        let port = match (link, old_port) {
            (None, Some(mut port)) => {
                if let Some((_, old)) = before {
                    adjust(&mut port, old, spec, &new, now, &seeds);
                }
                port.settings = settings(spec, &new);
                Some(port)
            }
            (link, old_port) => {
                if let Some(old) = old_port {
                    driver.router_mut().retire(now, old);
                }
                link.map(|link| RouterPort::new(settings(spec, &new), link))
            }
        };
        next_ports.extend(port);
        match device {
            Some(device) => {
                devices.push(old_device);
                next_devices.push(device);
            }
            None => next_devices.extend(old_device),
        }
    }
    for port in ports.into_iter().flatten() {
        driver.router_mut().retire(now, port);
    }
    let meter = match old {
        Some(old) if clouds::same(old, &new) => None,
        _ => Some(clouds::meter(&new, now, &seeds)),
    };
    let router = driver.router_mut();
    if let Some(meter) = meter {
        router.set_cloud_meter(meter);
    }
    configure(router, old.is_none(), &new, &seeds);
    let (_, table) = router.install(next_ports, plan.table);
    let mut tables = router.set_entries(plan.entries);
    tables.push(Some(table));
    let (_, deaf) = driver.set_devices(next_devices);
    (new, (tables, devices), deaf)
}

fn open(interface: &Interface, port: &PortSpec) -> Result<Device, AssembleError> {
    Device::open(interface, port.mtu).map_err(device_error(port))
}

fn device_error(port: &PortSpec) -> impl FnOnce(DeviceError) -> AssembleError {
    let port = port.name.clone();
    move |source| AssembleError::Device { port, source }
}

/// Whether the queues differ at most in their limit.
fn same_queue(old: &PortSpec, new: &PortSpec) -> bool {
    let (mut a, mut b) = (old.link.queue, new.link.queue);
    (a.limit, a.rtt, a.separate) = (None, None, None);
    (b.limit, b.rtt, b.separate) = (None, None, None);
    a == b && old.link.separate() == new.link.separate()
}

fn context<'a>(port: &'a PortSpec, config: &Config, now: Instant) -> LinkContext<'a> {
    LinkContext {
        now,
        seed: config.seed,
        name: &port.name,
        rtt: None,
    }
}

fn link(
    port: &PortSpec,
    config: &Config,
    now: Instant,
    seeds: &clouds::Seeds,
) -> Result<Link<Frame>, AssembleError> {
    let context = context(port, config, now);
    let mut link = build_link(&port.link, &context).map_err(|source| AssembleError::Queue {
        port: port.name.clone(),
        source,
    })?;
    let law = law(port, &context, seeds);
    if law.is_some() {
        link.port_mut().set_controller(now, law);
    }
    Ok(link)
}

/// Creates the port's law with a random seed that flows cannot predict.
fn law(
    port: &PortSpec,
    context: &LinkContext<'_>,
    seeds: &clouds::Seeds,
) -> Option<Box<dyn LinkController>> {
    let context = LinkContext {
        seed: seeds.laws,
        ..*context
    };
    port.link.controller(&context)
}

fn settings(port: &PortSpec, config: &Config) -> PortSettings {
    PortSettings {
        name: port.name.clone(),
        mtu: port.mtu,
        addresses: port.addresses.clone(),
        per_packet: port.link.is_random(),
        shims: port.shims.clone(),
        source_check: port.source_check,
        kernel_forwards: port.kernel_forwards,
        tunnel: port.tunnel,
        measures: port.link.measures_clouds(),
        reserve: usize::try_from(config.reserve(port)).unwrap_or(usize::MAX),
    }
}

/// Applies only the differences, so that queued packets stay in place.
fn adjust(
    port: &mut RouterPort,
    old: &PortSpec,
    new: &PortSpec,
    config: &Config,
    now: Instant,
    seeds: &clouds::Seeds,
) {
    let (a, b) = (&old.link, &new.link);
    let context = context(new, config, now);
    if a.rate != b.rate {
        port.link.set_rate(now, b.rate.map(|rate| rate.bytes()));
    }
    if a.capacity != b.capacity {
        port.link
            .port_mut()
            .set_capacity(now, b.capacity.map(|capacity| capacity.bytes()));
    }
    if a.limit(None) != b.limit(None) {
        port.link.port_mut().set_limit(b.limit(None));
    }
    if a.frame_overhead != b.frame_overhead {
        port.link.port_mut().set_overhead(b.frame_overhead);
    }
    if a.corruption != b.corruption {
        port.link.port_mut().set_corruption(b.corruption.ppm);
    }
    if a.controller != b.controller {
        let law = law(new, &context, seeds);
        port.link.port_mut().set_controller(now, law);
    }
    if (a.delay, a.loss, a.jitter) != (b.delay, b.loss, b.jitter) {
        port.link.set_wire(build_wire(b, &context));
    }
    if a.at != b.at {
        port.link.set_schedule(build_schedule(b, &context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[port]]\nname = \"a\"\ntun = \"a\"\n";

    /// A port's packets may have separate routes; all others follow the common ones.
    #[test]
    fn a_route_of_one_entry_is_for_that_entry_alone() {
        let text = format!(
            "{TEXT}[[port]]\nname = \"b\"\ntun = \"b\"\naddresses = [\"192.0.2.1\"]\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nport = \"a\"\n\
             [[route]]\nprefix = \"10.1.0.0/16\"\nport = \"b\"\n\
             [[route]]\nfrom = \"a\"\nprefix = \"0.0.0.0/0\"\nport = \"b\"\n"
        );
        let parsed = |text: &str| Config::parse(std::path::Path::new("a.toml"), text);
        let config = parsed(&text).unwrap();
        let (common, entries) = tables(&config);
        let lookup =
            |table: &RouteTable<Target>, to: &str| table.lookup(to.parse().unwrap()).copied();
        assert!(entries[1].is_none());
        let entry = entries[0].as_ref().unwrap();
        for (to, all, from_a) in [("198.51.100.1", 0, 1), ("10.1.2.3", 1, 1)] {
            assert_eq!(lookup(&common, to), Some(Target::Port(all)), "{to}");
            assert_eq!(lookup(entry, to), Some(Target::Port(from_a)), "{to}");
        }
        assert_eq!(lookup(entry, "192.0.2.1"), Some(Target::Local));
        let again = "[[route]]\nfrom = \"a\"\nprefix = \"0.0.0.0/0\"\nport = \"a\"\n";
        let error = parsed(&format!("{text}{again}")).unwrap_err();
        assert!(error.to_string().contains("two routes lead to 0.0.0.0/0"));
        let error = parsed(&text.replace("from = \"a\"", "from = \"c\"")).unwrap_err();
        assert!(error.to_string().contains("no port is called `c`"));
    }

    /// Starts a file with the default seed twice.
    #[test]
    fn each_start_has_hashes_of_its_own_and_a_reload_keeps_them() {
        let config = Config::parse(std::path::Path::new("a.toml"), TEXT).unwrap();
        assert_eq!(config.seed, 0);
        let seeds = || clouds::Seeds::draw().unwrap();
        let started = |seeds: &clouds::Seeds| {
            let mut router = router(&config);
            configure(&mut router, true, &config, seeds);
            router
        };
        let (mut one, other) = (started(&seeds()), started(&seeds()));
        let seed = one.hash_seed();
        assert_ne!(seed, other.hash_seed());
        assert!(seed != 0 && seed != config.seed);
        configure(&mut one, false, &config, &seeds());
        assert_eq!(one.hash_seed(), seed);
    }
}
