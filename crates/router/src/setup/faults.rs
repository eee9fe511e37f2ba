//! Finds differences between the actual and the configured steering, port by port.

use std::collections::BTreeSet;
use std::io;

use pathmark_link::keys::nearest;

use super::plan::Wanted;
use super::state::{FoundRule, Sight, closed_name};
use super::step::Rule;
use super::{closed, plan};
use crate::config::{Config, OnStop};

/// The kernel's own table, whose rule comes first and is only about this machine's addresses.
const LOCAL: u32 = 255;

/// A fault that leads packets past a port, or keeps them from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Index of the port.
    pub(crate) port: usize,
    pub(crate) kind: FaultKind,
    /// The fault and its remedy.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No interface matches `from`.
    Card,
    /// A rule of another program precedes all packets of a `[[steer]]`.
    Shadow,
    /// A rule of another program precedes some packets of a `[[steer]]`.
    Exception,
    /// An interface, rule or route that set-up should have created is missing.
    Missing,
    /// The table that keeps packets from bypassing closed ports is missing.
    Open,
}

impl FaultKind {
    /// Whether set-up repairs it.
    pub(crate) fn is_mended_by_setup(self) -> bool {
        matches!(self, Self::Missing | Self::Open)
    }
}

impl Fault {
    /// Formats the fault with its port's name in front.
    pub(crate) fn message(&self, config: &Config) -> String {
        let port = config.ports.get(self.port).map_or("?", |port| &port.name);
        format!("port {port}: steering: {}", self.text)
    }
}

/// The routing tables that packets are steered into.
fn tables(wanted: &Wanted) -> BTreeSet<u32> {
    wanted.rules.iter().map(|rule| rule.table).collect()
}

/// Queries the kernel and compares. Without steering, there are no faults.
///
/// # Errors
/// The errors of querying the kernel.
pub(crate) fn look(config: &Config) -> io::Result<Vec<Fault>> {
    if config.steers.is_empty() {
        return Ok(Vec::new());
    }
    let tables = config
        .steers
        .iter()
        .map(|steer| config.table_of(steer.port));
    let mut sight = Sight::take(&tables.collect())?;
    sight.open = closed::is_missing(config.table);
    Ok(faults(config, &sight))
}

/// All faults, in the order of ports.
pub(super) fn faults(config: &Config, sight: &Sight) -> Vec<Fault> {
    let names: Vec<&str> = sight.names().collect();
    let wanted = plan::wanted(config, sight.ipv6, &names);
    let mut found = Vec::new();
    let mut fault = |port, kind, text| found.push(Fault { port, kind, text });
    for steer in &config.steers {
        let Some(from) = steer.from.as_deref() else {
            continue;
        };
        if config
            .cards(from, &names)
            .iter()
            .any(|card| names.contains(card))
        {
            continue;
        }
        let what = if from.contains('*') {
            format!("no interface matches `from = \"{from}\"`")
        } else {
            format!("there is no interface {from}")
        };
        let meant = nearest(from, names.iter().copied());
        let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        let text = format!("{what}: correct `from`, or make the interface{hint}");
        fault(steer.port, FaultKind::Card, text);
    }
    let setup = "run `vcp-router setup`";
    for (port, spec) in config.ports.iter().enumerate() {
        let steered = config.steers.iter().any(|steer| steer.port == port);
        let Some(name) = spec.tun().filter(|_| steered) else {
            continue;
        };
        if sight.open && spec.host.on_stop == OnStop::Closed {
            let name = closed_name(config.table);
            let text = format!("the table {name} of nftables is missing: {setup}");
            fault(port, FaultKind::Open, text);
        }
        match sight.cards.iter().find(|card| card.name == name) {
            None => {
                let text = format!("there is no interface {name}: {setup}");
                fault(port, FaultKind::Missing, text);
            }
            Some(card) if !card.up => {
                let text = format!("interface {name} is down: {setup}");
                fault(port, FaultKind::Missing, text);
            }
            Some(_) => {}
        }
    }
    let port_of = |table: u32| (table - config.table) as usize;
    for rule in &wanted.rules {
        let port = port_of(rule.table);
        let is = |found: &&FoundRule| found.rule == *rule && found.is_plain();
        if !sight.rules.iter().any(|found| is(&found)) {
            let text = format!("missing: {}: {setup}", rule.add());
            fault(port, FaultKind::Missing, text);
        }
        let before = sight.rules.iter().filter(|found| found.precedes(rule));
        for found in before {
            let (kind, whose) = if found.covers(rule) {
                (FaultKind::Shadow, "packets")
            } else {
                (FaultKind::Exception, "some packets")
            };
            let text = format!(
                "rule {} ({}) takes {whose} before rule {} (ip {} rule add {rule}): give it a \
                 priority above {}, or choose a `table` below {}",
                found.rule.priority,
                found.action(),
                rule.priority,
                if rule.v6 { "-6" } else { "-4" },
                config.table + 255,
                found.rule.priority,
            );
            fault(port, kind, text);
        }
    }
    let tables = tables(&wanted);
    for route in wanted
        .routes
        .iter()
        .filter(|route| tables.contains(&route.table))
    {
        if !sight.routes.contains(route) {
            let text = format!("missing: {}: {setup}", route.add());
            fault(port_of(route.table), FaultKind::Missing, text);
        }
    }
    found.sort_by_key(|fault| fault.port);
    found
}

impl FoundRule {
    /// Whether it has nothing that a rule of set-up lacks.
    fn is_plain(&self) -> bool {
        !(self.inverted || self.narrow || self.idle)
    }

    /// Whether it takes packets that `wanted` is meant for.
    fn precedes(&self, wanted: &Rule) -> bool {
        let rule = &self.rule;
        let earlier = rule.v6 == wanted.v6 && rule.priority < wanted.priority;
        if !earlier || rule.ours || self.idle || rule.table == LOCAL {
            return false;
        }
        let only_from = rule.mark.is_none() && rule.to.is_none() && !self.narrow;
        let same_from = rule.from.is_some() && rule.from == wanted.from;
        if self.inverted {
            return !(only_from && same_from);
        }
        let other = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        let marks = match (rule.mark, wanted.mark) {
            (Some(a), Some(b)) => self.narrow || a == b,
            _ => true,
        };
        let overlaps = match (rule.to, wanted.to) {
            (Some(a), Some(b)) => a.contains(&b) || b.contains(&a),
            _ => true,
        };
        !other(&rule.from, &wanted.from) && marks && overlaps
    }

    /// Whether it takes all of these packets, so that it cannot be an intended exception.
    fn covers(&self, wanted: &Rule) -> bool {
        let rule = &self.rule;
        if self.inverted {
            // "All except those with a mark", which VPNs use.
            return true;
        }
        !self.narrow
            && (rule.from.is_none() || rule.from == wanted.from)
            && (rule.mark.is_none() || rule.mark == wanted.mark)
            && rule
                .to
                .is_none_or(|to| wanted.to.is_some_and(|of| to.contains(&of)))
    }

    fn action(&self) -> String {
        match self.rule.table {
            0 => "which leads to no table".to_owned(),
            254 => "lookup main".to_owned(),
            table => format!("lookup {table}"),
        }
    }
}
