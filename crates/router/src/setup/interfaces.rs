//! The interfaces of a configuration.

use std::collections::BTreeSet;

use crate::config::{Config, Interface, PortSpec};

/// The name of a port's TUN interface; `None` if the port has a descriptor.
pub(super) fn tun(port: &PortSpec) -> Option<&str> {
    match &port.interface {
        Interface::Tun(name) => Some(name),
        Interface::Fd(_) => None,
    }
}

/// The interfaces that a configuration names.
pub(super) fn named(config: &Config) -> BTreeSet<&str> {
    config.ports.iter().filter_map(tun).collect()
}
