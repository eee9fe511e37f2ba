//! Rules and routes of set-up, in the syntax of ip(8).

use std::fmt;

use ipnet::IpNet;

use super::step::Step;

/// Protocol number of our rules and routes, unassigned in iproute2 6.1
/// (`/etc/iproute2/rt_protos`).
pub(super) const PROTOCOL: u8 = 118;

/// The main table's number (`RT_TABLE_MAIN`).
pub(super) const MAIN: u32 = 254;

/// A policy rule that leads to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) v6: bool,
    pub(super) priority: u32,
    pub(super) from: Option<String>,
    pub(super) mark: Option<u32>,
    pub(super) to: Option<IpNet>,
    pub(super) table: u32,
    pub(super) ours: bool,
}

/// One of our routes. Without a `device`, it rejects packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) v6: bool,
    pub(super) table: u32,
    pub(super) to: Option<IpNet>,
    pub(super) device: Option<String>,
    pub(super) metric: u32,
}

fn family(v6: bool) -> &'static str {
    if v6 { "-6" } else { "-4" }
}

impl Rule {
    pub(super) fn add(&self) -> Step {
        Step::ip(format!("{} rule add {self}", family(self.v6)))
    }

    pub(super) fn delete(&self) -> Step {
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
    /// Whether both have the same table, destination and metric, of which only one route can
    /// exist.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        (self.v6, self.table, self.to, self.metric)
            == (other.v6, other.table, other.to, other.metric)
    }

    pub(super) fn add(&self) -> Step {
        Step::ip(format!("{} route replace {self}", family(self.v6)))
    }

    pub(super) fn delete(&self) -> Step {
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
