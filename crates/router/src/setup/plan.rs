//! From what is there to what is asked for: the steps between.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use ipnet::IpNet;

use super::SetupError;
use super::marks::{alias, former, table_of};
use super::state::{Kind, Link, MAIN, PROTOCOL, Route, Rule, State, sysctl};
use super::step::Step;
use crate::config::{Config, Interface, OnStop, PortSpec};

/// Tables and priorities that belong to one configuration, from its first on.
pub(super) const SPAN: u32 = 256;
/// Metrics: the interface first, then refusing.
const METRIC: u32 = 100;
const METRIC_REFUSE: u32 = 10_000;
/// The kernel's own length of a TUN interface's queue.
const TXQUEUELEN: u32 = 500;
/// Least MTU of IPv6 (RFC 8200, section 5).
const LEAST_IPV6_MTU: u32 = 1280;

/// Source validation of all interfaces: the larger one of this and their own holds.
pub(super) const RP_FILTER: &str = "ipv4/conf/all/rp_filter";

/// Whom the interfaces belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) uid: u32,
}

impl Owner<'_> {
    fn is(&self, name: &str) -> bool {
        name == self.name || name == self.uid.to_string()
    }
}

/// What a configuration asks for.
struct Wanted {
    rules: Vec<Rule>,
    routes: Vec<Route>,
}

fn tun(port: &PortSpec) -> Option<&str> {
    match &port.interface {
        Interface::Tun(name) => Some(name),
        Interface::Fd(_) => None,
    }
}

/// The interfaces that a configuration names.
pub(super) fn named(config: &Config) -> BTreeSet<&str> {
    config.ports.iter().filter_map(tun).collect()
}

/// The routes that it asks for.
pub(super) fn routes(config: &Config, ipv6: bool) -> Vec<Route> {
    wanted(config, ipv6).routes
}

/// Sysctls of an interface, by file, with the value that is needed.
pub(super) fn sysctls(name: &str, ipv6: bool) -> impl Iterator<Item = (PathBuf, &'static str)> {
    // Packets come back with sources that live behind a card, which has validated them; routes
    // without carrier are ignored, which is how the kernel knows that no router runs; no link-local
    // address, so that the kernel sends nothing of its own.
    let v4 = [("rp_filter", "0"), ("ignore_routes_with_linkdown", "1")];
    let v6 = [("addr_gen_mode", "1"), ("ignore_routes_with_linkdown", "1")];
    let of = |family: &str, key: &str| sysctl(&format!("{family}/conf/{name}/{key}"));
    let v4 = v4.map(|(key, value)| (of("ipv4", key), value));
    let v6 = v6.map(|(key, value)| (of("ipv6", key), value));
    v4.into_iter().chain(v6.into_iter().filter(move |_| ipv6))
}

fn wanted(config: &Config, ipv6: bool) -> Wanted {
    let mut rules = Vec::new();
    let mut steered = BTreeSet::new();
    for (index, steer) in (0u32..).zip(&config.steers) {
        steered.insert(steer.port);
        let table = config.table + u32::try_from(steer.port).unwrap_or(0);
        let rule = |v6, to| Rule {
            v6,
            priority: config.table + index,
            from: steer.from.clone(),
            mark: steer.mark,
            to,
            table,
            ours: true,
        };
        if steer.to.is_empty() {
            rules.extend([rule(false, None), rule(true, None)]);
        }
        for prefix in &steer.to {
            let net = prefix.net();
            let v6 = matches!(net, IpNet::V6(_));
            // A rule for all destinations has none.
            rules.push(rule(v6, Some(net).filter(|net| net.prefix_len() > 0)));
        }
    }
    let mut routes = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        let Some(name) = tun(port) else { continue };
        let v6_here = port.mtu >= LEAST_IPV6_MTU;
        if steered.contains(&index) {
            let table = config.table + u32::try_from(index).unwrap_or(0);
            for v6 in [false, true] {
                let default = |device: Option<&str>, metric| Route {
                    v6,
                    table,
                    to: None,
                    device: device.map(str::to_owned),
                    metric,
                };
                if port.host.on_stop == OnStop::Closed {
                    routes.push(default(None, METRIC_REFUSE));
                }
                if v6_here || !v6 {
                    routes.push(default(Some(name), METRIC));
                }
            }
        }
        for address in &port.addresses {
            let v6 = address.is_ipv6();
            let link_local =
                matches!(address, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local());
            if link_local || v6 && !v6_here {
                continue;
            }
            routes.push(Route {
                v6,
                table: MAIN,
                to: Some(IpNet::from(*address)),
                device: Some(name.to_owned()),
                metric: METRIC,
            });
        }
    }
    rules.retain(|rule| ipv6 || !rule.v6);
    routes.retain(|route| ipv6 || !route.v6);
    Wanted { rules, routes }
}

/// Steps to what `config` asks for. Refusing routes come first and rules last, and nothing is
/// removed before what takes its place is there: at no time does a packet for a closed port find
/// the main table.
pub(super) fn up(
    config: &Config,
    owner: &Owner<'_>,
    state: &State,
) -> Result<Vec<Step>, SetupError> {
    let wanted = wanted(config, state.ipv6);
    taken(config, state, &wanted)?;
    let mut steps = Vec::new();
    // Routes of an interface end with it.
    let mut gone = BTreeSet::new();
    let missing = |route: &Route, gone: &BTreeSet<&str>| {
        let flushed = route
            .device
            .as_deref()
            .is_some_and(|dev| gone.contains(dev));
        flushed || !state.routes.contains(route)
    };
    let refusing = wanted.routes.iter().filter(|route| route.device.is_none());
    steps.extend(
        refusing
            .filter(|route| missing(route, &gone))
            .map(Route::add),
    );
    for port in &config.ports {
        if let Some(name) = tun(port)
            && interface(config, port, name, owner, state, &mut steps)?
        {
            gone.insert(name);
        }
    }
    let leading = wanted.routes.iter().filter(|route| route.device.is_some());
    steps.extend(
        leading
            .filter(|route| missing(route, &gone))
            .map(Route::add),
    );
    let rules = wanted.rules.iter();
    steps.extend(
        rules
            .filter(|rule| !state.rules.contains(rule))
            .map(Rule::add),
    );
    let named = named(config);
    steps.extend(remove(config.table, &named, state, &wanted));
    // What the configuration had made before its `table` was changed.
    for table in former(state, config.table, &named) {
        let before = remove(table, &named, state, &wanted);
        let new: Vec<_> = before.filter(|step| !steps.contains(step)).collect();
        steps.extend(new);
    }
    Ok(steps)
}

/// Steps to nothing of what was made for the configuration with this `table`.
pub(super) fn down(table: u32, state: &State) -> Vec<Step> {
    let nothing = Wanted {
        rules: Vec::new(),
        routes: Vec::new(),
    };
    remove(table, &BTreeSet::new(), state, &nothing).collect()
}

/// What the operator should know besides.
pub(super) fn warnings(config: &Config, state: &State) -> Vec<String> {
    let mut warnings = Vec::new();
    let forwards = |key: &str| {
        state
            .sysctls
            .get(&sysctl(key))
            .is_none_or(|value| value != "0")
    };
    if !config.steers.is_empty() {
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            if !forwards(key) {
                let key = key.replace('/', ".");
                warnings.push(format!(
                    "net.{key} is 0: the kernel forwards nothing, to the router or past it"
                ));
            }
        }
    }
    let all = state.sysctls.get(&sysctl(RP_FILTER));
    if config.steers.iter().any(|steer| steer.mark.is_some())
        && all.is_some_and(|value| value != "0")
    {
        warnings.push(
            "net.ipv4.conf.all.rp_filter is not 0: what was steered by mark is dropped when it \
             comes back; set it to 0, and that of each card to what it shall be"
                .to_owned(),
        );
    }
    let cards: BTreeSet<&str> = config
        .steers
        .iter()
        .filter_map(|steer| steer.from.as_deref())
        .collect();
    for card in cards {
        if state.link(card).is_none() {
            warnings.push(format!(
                "there is no interface {card}: packets are steered once there is"
            ));
        }
    }
    warnings
}

fn in_span(table: u32, number: u32) -> bool {
    (table..table.saturating_add(SPAN)).contains(&number)
}

/// Fails if a rule of somebody else's has one of our priorities or leads to one of our tables, or
/// if a route of somebody else's is where one of ours is to be.
fn taken(config: &Config, state: &State, wanted: &Wanted) -> Result<(), SetupError> {
    let occupied = |route: &&Route| wanted.routes.iter().any(|own| own.replaces(route));
    if let Some(route) = state.foreign.iter().find(occupied) {
        let to = route.to.map_or("default".to_owned(), |to| to.to_string());
        let Route { table, metric, .. } = route;
        return Err(SetupError::Taken(format!(
            "the route to {to} with metric {metric} in table {table} is not this program's: remove \
             it, or choose another `table` or other `addresses`"
        )));
    }
    let ours = |rule: &&Rule| {
        let ours = |number| in_span(config.table, number);
        !rule.ours && (ours(rule.priority) || ours(rule.table))
    };
    if config.steers.is_empty() {
        return Ok(());
    }
    match state.rules.iter().find(ours) {
        Some(rule) => Err(SetupError::Taken(format!(
            "rule {} (table {}) is not this program's: choose another `table`",
            rule.priority, rule.table
        ))),
        None => Ok(()),
    }
}

/// Steps to one interface; true if it is made anew.
fn interface(
    config: &Config,
    port: &PortSpec,
    name: &str,
    owner: &Owner<'_>,
    state: &State,
    steps: &mut Vec<Step>,
) -> Result<bool, SetupError> {
    let found = state.link(name);
    let keeps = match found.map(|link| &link.kind) {
        None => None,
        Some(Kind::Tun {
            persistent: true,
            owner: whose,
        }) => found.filter(|_| owner.is(whose)),
        Some(Kind::Tun { .. }) => {
            return Err(SetupError::Transient {
                name: name.to_owned(),
            });
        }
        Some(Kind::Other) => {
            return Err(SetupError::NotTun {
                name: name.to_owned(),
            });
        }
    };
    if let Some(shown) = found.and_then(|link| table_of(&link.alias))
        && shown != config.table
        && !former(state, config.table, &named(config)).contains(&shown)
    {
        return Err(SetupError::Taken(format!(
            "{name} belongs to a configuration with `table = {shown}`, which has more: choose another \
             name, or take those away first (vcp-router teardown --table {shown})"
        )));
    }
    if let (Some(found), None) = (found, keeps) {
        // Somebody else's: only what set-up has made is made anew.
        if table_of(&found.alias).is_none() {
            return Err(SetupError::Foreign {
                name: name.to_owned(),
            });
        }
        steps.push(delete(found));
    }
    if keeps.is_none() {
        let words = format!("tuntap add dev {name} mode tun user");
        let words = words.split_whitespace().map(str::to_owned);
        let words = words.chain([owner.name.to_owned(), "vnet_hdr".to_owned()]);
        steps.push(Step::Ip(words.collect()));
    }
    let ipv6 = state.ipv6 && port.mtu >= LEAST_IPV6_MTU;
    for (path, value) in sysctls(name, ipv6) {
        let has = state.sysctls.get(&path).filter(|_| keeps.is_some());
        if has.is_none_or(|has| has != value) {
            steps.push(Step::Sysctl(path, value.to_owned()));
        }
    }
    let length = port.host.txqueuelen.unwrap_or(TXQUEUELEN);
    let alias = alias(config.table);
    let same = |link: &Link| {
        (link.mtu, link.txqueuelen, link.up, &link.alias) == (port.mtu, length, true, &alias)
    };
    if !keeps.is_some_and(same) {
        let mtu = port.mtu;
        steps.push(Step::ip(format!(
            "link set dev {name} alias {alias} mtu {mtu} txqueuelen {length} up"
        )));
    }
    let addresses = port.host.addresses.iter();
    for address in addresses.filter(|address| ipv6 || matches!(address, IpNet::V4(_))) {
        if !keeps.is_some_and(|link| link.addresses.contains(address)) {
            let plain = match address {
                IpNet::V4(_) => "",
                IpNet::V6(_) => " nodad",
            };
            steps.push(Step::ip(format!(
                "address replace {address} dev {name}{plain}"
            )));
        }
    }
    for address in keeps.iter().flat_map(|link| &link.addresses) {
        let automatic = matches!(address, IpNet::V6(v6) if v6.addr().is_unicast_link_local());
        if !automatic && !port.host.addresses.contains(address) {
            steps.push(Step::ip(format!("address del {address} dev {name}")));
        }
    }
    Ok(keeps.is_none())
}

/// Steps that remove what bears the marks of the configuration with this `table` and is not wanted;
/// of its interfaces those that are `named` stay.
fn remove(
    table: u32,
    named: &BTreeSet<&str>,
    state: &State,
    wanted: &Wanted,
) -> impl Iterator<Item = Step> + use<> {
    let mut steps = Vec::new();
    let alias = alias(table);
    let ours: BTreeSet<&str> = state
        .links
        .iter()
        .filter(|link| link.alias == alias)
        .map(|link| link.name.as_str())
        .collect();
    let rules = state.rules.iter();
    let rules = rules.filter(|rule| rule.ours && in_span(table, rule.table));
    steps.extend(
        rules
            .filter(|rule| !wanted.rules.contains(rule))
            .map(Rule::delete),
    );
    let mine = |route: &&Route| {
        let device = route.device.as_deref();
        in_span(table, route.table)
            || route.table == MAIN && device.is_some_and(|device| ours.contains(device))
    };
    let stale = |route: &&Route| {
        // Those of an interface that is removed end with it, and a wanted one may have taken its
        // place.
        let ends = |device: &str| ours.contains(device) && !named.contains(device);
        !wanted.routes.iter().any(|other| other.replaces(route))
            && !route.device.as_deref().is_some_and(ends)
    };
    steps.extend(
        state
            .routes
            .iter()
            .filter(mine)
            .filter(stale)
            .map(Route::delete),
    );
    let stale = |link: &&Link| link.alias == alias && !named.contains(link.name.as_str());
    steps.extend(state.links.iter().filter(stale).map(delete));
    steps.into_iter()
}

fn delete(link: &Link) -> Step {
    Step::ip(format!("link delete dev {}", link.name))
}

fn family(v6: bool) -> &'static str {
    if v6 { "-6" } else { "-4" }
}

impl Rule {
    fn add(&self) -> Step {
        Step::ip(format!("{} rule add {self}", family(self.v6)))
    }

    fn delete(&self) -> Step {
        Step::ip(format!("{} rule delete {self}", family(self.v6)))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}", self.priority)?;
        if let Some(from) = &self.from {
            write!(f, " iif {from}")?;
        }
        if let Some(mark) = self.mark {
            write!(f, " fwmark {mark}")?;
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        write!(f, " lookup {} protocol {PROTOCOL}", self.table)
    }
}

impl Route {
    /// True for the same destination and metric of the same table, of which there is one.
    fn replaces(&self, other: &Self) -> bool {
        (self.v6, self.table, self.to, self.metric)
            == (other.v6, other.table, other.to, other.metric)
    }

    fn add(&self) -> Step {
        Step::ip(format!("{} route replace {self}", family(self.v6)))
    }

    fn delete(&self) -> Step {
        Step::ip(format!("{} route delete {self}", family(self.v6)))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device.is_none() {
            f.write_str("unreachable ")?;
        }
        match self.to {
            Some(to) => write!(f, "{to}")?,
            None => f.write_str("default")?,
        }
        if let Some(device) = &self.device {
            write!(f, " dev {device}")?;
        }
        let Self { table, metric, .. } = self;
        write!(f, " table {table} metric {metric} protocol {PROTOCOL}")
    }
}
