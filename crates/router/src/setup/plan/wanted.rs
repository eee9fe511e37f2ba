//! The rules and routes that a configuration requires in the kernel.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::super::closed::Closed;
use super::super::entries::{MAIN, Route, Rule};
use super::LEAST_IPV6_MTU;
use crate::config::{Config, OnStop};

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
