//! Computes the steps from the kernel's present state to the configured one: to the rules and
//! routes that a configuration requires.

mod interface;

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::SetupError;
use super::closed::{self, Closed, closed};
use super::marks::{SPAN, former, named, other_file, table_of};
use super::state::State;
use super::step::{MAIN, RP_FILTER, Route, Rule, Step, sysctl};
use crate::config::{Config, OnStop, PortSpec, SteerSpec};
use crate::tun::LinkState;
pub(super) use interface::Owner;
use interface::interface;

/// Minimum MTU of IPv6 (RFC 8200 §5).
const LEAST_IPV6_MTU: u32 = 1280;

/// Returns the steps to the state that `config` requires. Refusing routes come first and rules
/// last, and nothing is removed before its replacement exists. Therefore a packet for a closed
/// port never reaches the main table.
pub(super) fn up(
    config: &Config,
    owner: &Owner<'_>,
    state: &State,
) -> Result<Vec<Step>, SetupError> {
    let names: Vec<&str> = state.links.iter().map(|link| link.name.as_str()).collect();
    let mut wanted = wanted(config, state.ipv6, &names);
    wanted.closed = closed(config, state);
    // A renamed card is steered as before, so that it stays closed without the table.
    let closes = wanted.closed.is_some();
    for (priority, card) in closed::renamed(config, state)
        .into_iter()
        .filter(|_| closes)
    {
        let rules = wanted.rules.iter().filter(|rule| rule.priority == priority);
        let from = |rule: &Rule| Rule {
            from: Some(card.name.clone()),
            ..rule.clone()
        };
        let rules: Vec<_> = rules.map(from).collect();
        wanted.rules.extend(rules);
    }
    taken(config, state, &wanted)?;
    if !owner.force {
        others(config, owner, state)?;
    }
    let mut steps = Vec::new();
    if let (Some(closed), None) = (&wanted.closed, &state.no_nft)
        && state.closed.get(&config.table) != Some(&closed.comments())
    {
        steps.push(closed.replace());
    }
    // Routes disappear together with their interface.
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
        if let Some(name) = port.tun()
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
    let mtus = shrinking(config, state);
    let keeps = |link: &LinkState| link.held && !owner.force;
    steps.extend(remove(config.table, &named, state, &wanted, &mtus, &keeps));
    // Entries from before the `table` was changed.
    for table in former(state, config.table, &named) {
        let before = remove(table, &named, state, &wanted, &mtus, &keeps);
        let new: Vec<_> = before.filter(|step| !steps.contains(step)).collect();
        steps.extend(new);
    }
    Ok(steps)
}

/// The steps that remove everything of the configuration with this `table`.
pub(super) fn down(table: u32, state: &State) -> Vec<Step> {
    let nothing = Wanted {
        rules: Vec::new(),
        routes: Vec::new(),
        closed: None,
    };
    let none = BTreeSet::new();
    remove(table, &none, state, &nothing, &none, &|_| false).collect()
}

/// Returns further warnings for the operator.
pub(super) fn warnings(config: &Config, state: &State) -> Vec<String> {
    let mut warnings = Vec::new();
    let forwards = |key: &str| {
        state
            .sysctls
            .get(&sysctl(key))
            .is_none_or(|value| value != "0")
    };
    let versions = [
        (false, "IPv4", "ipv4/ip_forward"),
        (true, "IPv6", "ipv6/conf/all/forwarding"),
    ];
    for (v6, version, key) in versions {
        if !config.steers.iter().any(|steer| steers(steer, v6)) {
            continue;
        }
        if v6 && !state.ipv6 {
            warnings.push("IPv6 is disabled here: none of it is steered".to_owned());
        } else if !forwards(key) {
            let key = key.replace('/', ".");
            warnings.push(format!(
                "net.{key} is 0: the kernel forwards nothing of {version}, to the router or past it"
            ));
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
    if let (Some(why), Some(_)) = (&state.no_nft, closed(config, state)) {
        warnings.push(format!(
            "{why}: closed ports hang on rules and routes alone, which other programs may remove"
        ));
    }
    let named = named(config);
    let stays = |link: &&LinkState| {
        let ours = table_of(&link.alias) == Some(config.table);
        ours && link.held && !named.contains(link.name.as_str())
    };
    for link in state.links.iter().filter(stays) {
        warnings.push(format!(
            "{} stays, for a program has it open: reload the router, then set up again",
            link.name
        ));
    }
    warnings
}

/// Interfaces whose MTU would fall below the minimum of IPv6, so that the kernel removes their
/// IPv6 routes.
fn shrinking<'a>(config: &'a Config, state: &State) -> BTreeSet<&'a str> {
    let shrinks = |port: &&PortSpec| {
        let link = port.tun().and_then(|name| state.link(name));
        link.is_some_and(|link| link.mtu >= LEAST_IPV6_MTU && port.mtu < LEAST_IPV6_MTU)
    };
    let ports = config.ports.iter().filter(shrinks);
    ports.filter_map(PortSpec::tun).collect()
}

/// Fails if an interface that would be changed or removed belongs to another configuration, or
/// if a program has it open whose configuration no longer exists.
fn others(config: &Config, owner: &Owner<'_>, state: &State) -> Result<(), SetupError> {
    let named = named(config);
    let concerned = |link: &&LinkState| {
        let table = table_of(&link.alias);
        table == Some(config.table) || table.is_some() && named.contains(link.name.as_str())
    };
    for link in state.links.iter().filter(concerned) {
        if let Some(file) = other_file(link, owner.file) {
            return Err(SetupError::OtherFile {
                name: link.name.clone(),
                file: file.to_owned(),
                table: table_of(&link.alias).unwrap_or(config.table),
            });
        }
    }
    Ok(())
}

/// Whether packets of this IP version are steered.
fn steers(steer: &SteerSpec, v6: bool) -> bool {
    steer.to.is_empty() || steer.to.iter().any(|to| to.net().addr().is_ipv6() == v6)
}

fn in_span(table: u32, number: u32) -> bool {
    (table..table.saturating_add(SPAN)).contains(&number)
}

/// Fails if another program's rule has one of our priorities or leads to one of our tables, or
/// if another program's route is in the place of one of ours.
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

/// Returns steps that remove unneeded entries with the marks of the configuration with this
/// `table`. Interfaces that are `named` stay.
fn remove(
    table: u32,
    named: &BTreeSet<&str>,
    state: &State,
    wanted: &Wanted,
    shrinking: &BTreeSet<&str>,
    keeps: &dyn Fn(&LinkState) -> bool,
) -> impl Iterator<Item = Step> + use<> {
    let mut steps = Vec::new();
    let is_ours = |link: &LinkState| table_of(&link.alias) == Some(table);
    let ours: BTreeSet<&str> = state
        .links
        .iter()
        .filter(|link| is_ours(link))
        .map(|link| link.name.as_str())
        .collect();
    let stale_link =
        |link: &&LinkState| is_ours(link) && !named.contains(link.name.as_str()) && !keeps(link);
    let removed: BTreeSet<&str> = state
        .links
        .iter()
        .filter(stale_link)
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
        // Routes of a removed interface disappear with it, and a needed route may have replaced
        // this one.
        let ends = |device: &str| {
            let shrinks = route.v6 && shrinking.contains(device);
            shrinks || removed.contains(device)
        };
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
    steps.extend(state.links.iter().filter(stale_link).map(delete));
    let in_place = wanted
        .closed
        .as_ref()
        .is_some_and(|closed| closed.is_of(table));
    if state.closed.contains_key(&table) && !in_place {
        steps.push(closed::delete(table));
    }
    steps.into_iter()
}

fn delete(link: &LinkState) -> Step {
    Step::ip(format!("link delete dev {}", link.name))
}

/// Metrics: the route to the interface first, then the refusing route.
const METRIC: u32 = 100;
const METRIC_REFUSE: u32 = 10_000;

/// Everything that a configuration requires.
pub(in super::super) struct Wanted {
    pub(in super::super) rules: Vec<Rule>,
    pub(in super::super) routes: Vec<Route>,
    /// The table that drops packets bypassing a closed port.
    pub(in super::super) closed: Option<Closed>,
}

/// The required routes.
pub(in super::super) fn routes(config: &Config, ipv6: bool) -> Vec<Route> {
    wanted(config, ipv6, &[]).routes
}

/// `names`: the existing interfaces, for patterns.
pub(in super::super) fn wanted(config: &Config, ipv6: bool, names: &[&str]) -> Wanted {
    let mut rules = Vec::new();
    let mut steered = BTreeSet::new();
    for (index, steer) in (0u32..).zip(&config.steers) {
        steered.insert(steer.port);
        let table = config.table_of(steer.port);
        let rule = |from: Option<&str>, v6, to| Rule {
            v6,
            priority: config.table + index,
            from: from.map(str::to_owned),
            mark: steer.mark,
            to,
            table,
            ours: true,
        };
        let cards = match steer.from.as_deref() {
            Some(from) => config.cards(from, names).into_iter().map(Some).collect(),
            None => vec![None],
        };
        let all = |v6: bool| {
            let mut nets = steer.to.iter().map(|to| to.net());
            nets.any(|net| net.prefix_len() == 0 && net.addr().is_ipv6() == v6)
        };
        for from in cards {
            if steer.to.is_empty() {
                rules.extend([rule(from, false, None), rule(from, true, None)]);
            }
            for prefix in &steer.to {
                let net = prefix.net();
                let v6 = matches!(net, IpNet::V6(_));
                // The kernel rejects a rule for all destinations next to a rule for some of
                // them.
                if net.prefix_len() > 0 && all(v6) {
                    continue;
                }
                // A rule for all destinations needs no prefix.
                rules.push(rule(from, v6, Some(net).filter(|net| net.prefix_len() > 0)));
            }
        }
    }
    let mut routes = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        let Some(name) = port.tun() else { continue };
        let v6_here = port.mtu >= LEAST_IPV6_MTU;
        if steered.contains(&index) {
            let table = config.table_of(index);
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
            let route = Route {
                v6,
                table: MAIN,
                to: Some(IpNet::from(*address)),
                device: Some(name.to_owned()),
                metric: METRIC,
            };
            // Ports can share an address. It belongs to the router regardless of the port at
            // which packets to it arrive.
            if !routes.iter().any(|other: &Route| other.replaces(&route)) {
                routes.push(route);
            }
        }
    }
    rules.retain(|rule| ipv6 || !rule.v6);
    routes.retain(|route| ipv6 || !route.v6);
    Wanted {
        rules,
        routes,
        closed: None,
    }
}
