//! The router's name in shims.

use std::net::IpAddr;

use pathmark_protocols::shim::Identity;

use crate::config::Config;

/// Returns the router's identity in shims: its id, and for each IP version the first address of
/// a port that others can reach.
pub(super) fn identity(config: &Config) -> Identity {
    let mut identity = Identity::new(config.id);
    let addresses = config.ports.iter().flat_map(|port| &port.addresses);
    // In reverse order, so that the first one remains.
    for address in addresses.rev() {
        match address {
            IpAddr::V4(v4) if !v4.is_link_local() => identity.v4 = *v4,
            IpAddr::V6(v6) if !v6.is_unicast_link_local() => identity.v6 = *v6,
            _ => {}
        }
    }
    identity
}
