//! Rules and routes in the syntax of ip(8).

use std::fmt;

use super::super::state::{PROTOCOL, Route, Rule};
use super::super::step::Step;

fn family(v6: bool) -> &'static str {
    if v6 { "-6" } else { "-4" }
}

impl Rule {
    pub(in super::super) fn add(&self) -> Step {
        Step::ip(format!("{} rule add {self}", family(self.v6)))
    }

    pub(in super::super) fn delete(&self) -> Step {
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
    pub(in super::super) fn replaces(&self, other: &Self) -> bool {
        (self.v6, self.table, self.to, self.metric)
            == (other.v6, other.table, other.to, other.metric)
    }

    pub(in super::super) fn add(&self) -> Step {
        Step::ip(format!("{} route replace {self}", family(self.v6)))
    }

    pub(in super::super) fn delete(&self) -> Step {
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
