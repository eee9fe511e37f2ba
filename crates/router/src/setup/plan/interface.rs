//! Steps to one interface.

use ipnet::IpNet;

use super::{LEAST_IPV6_MTU, delete};
use crate::config::{Config, PortSpec};
use crate::setup::SetupError;
use crate::setup::marks::{alias, former, named, table_of};
use crate::setup::state::State;
use crate::setup::step::{Step, sysctls};
use crate::tun::{LinkKind, LinkState};

/// The kernel's default queue length of a TUN interface.
const TXQUEUELEN: u32 = 500;

/// The owner of the interfaces.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Owner<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) uid: u32,
    /// The configuration, as written in aliases.
    pub(in super::super) file: &'a str,
    /// Whether to take over interfaces of other configurations, or held by a program.
    pub(in super::super) force: bool,
}

/// Returns the steps for one interface, and whether its routes disappear.
pub(super) fn interface(
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
        Some(LinkKind::Tun {
            persistent: true,
            owner: whose,
        }) => found.filter(|_| *whose == Some(owner.uid)),
        Some(LinkKind::Tun { .. }) => {
            return Err(SetupError::Transient(name.to_owned()));
        }
        Some(LinkKind::MultiQueue | LinkKind::Tap | LinkKind::Other) => {
            return Err(SetupError::NotTun(name.to_owned()));
        }
    };
    if let Some(shown) = found.and_then(|link| table_of(&link.alias))
        && shown != config.table
        && !former(state, config.table, &named(config)).contains(&shown)
    {
        return Err(SetupError::Taken(format!(
            "{name} belongs to a configuration with `table = {shown}`, which has more: choose \
             another name, or take those away first (vcp-router teardown --table {shown})"
        )));
    }
    if let (Some(found), None) = (found, keeps) {
        // Set-up must only replace interfaces that it has created.
        if table_of(&found.alias).is_none() {
            return Err(SetupError::Foreign(name.to_owned()));
        }
        if found.held && !owner.force {
            return Err(SetupError::Held(name.to_owned()));
        }
        steps.push(delete(found));
    }
    let alias = alias(config.table, owner.file);
    let marked = |words: &str| {
        let words = words.split_whitespace().map(str::to_owned);
        words
            .chain(["alias".to_owned(), alias.clone()])
            .collect::<Vec<_>>()
    };
    if keeps.is_none() {
        let words = format!("tuntap add dev {name} mode tun user");
        let words = words.split_whitespace().map(str::to_owned);
        let words = words.chain([owner.name.to_owned(), "vnet_hdr".to_owned()]);
        steps.push(Step::Ip(words.collect()));
        // Marked immediately, so that tear-down can still identify it if a later step fails.
        steps.push(Step::Ip(marked(&format!("link set dev {name}"))));
    }
    let ipv6 = state.ipv6 && port.mtu >= LEAST_IPV6_MTU;
    // With a smaller MTU, the kernel had removed IPv6, including its sysctls. IPv6 must come
    // back while the interface is down, so that the sysctls can be set before the kernel
    // generates a link-local address. Going down removes the routes.
    let grows = ipv6 && keeps.is_some_and(|link| link.mtu < LEAST_IPV6_MTU);
    if grows {
        let mtu = port.mtu;
        steps.push(Step::ip(format!("link set dev {name} down mtu {mtu}")));
    }
    for (path, value) in sysctls(name, ipv6) {
        let has = state.sysctls.get(&path).filter(|_| keeps.is_some());
        if has.is_none_or(|has| has != value) {
            steps.push(Step::Sysctl(path, value.to_owned()));
        }
    }
    let length = port.host.txqueuelen.unwrap_or(TXQUEUELEN);
    let same = |link: &LinkState| {
        (link.mtu, link.txqueuelen, link.up, &link.alias) == (port.mtu, length, true, &alias)
    };
    if !keeps.is_some_and(same) {
        let words = format!(
            "link set dev {name} mtu {} txqueuelen {length} up",
            port.mtu
        );
        steps.push(match keeps {
            Some(_) => Step::Ip(marked(&words)),
            None => Step::ip(words),
        });
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
        // Below the minimum MTU, the kernel has already removed all IPv6 addresses.
        let ends = matches!(address, IpNet::V6(_)) && port.mtu < LEAST_IPV6_MTU;
        if !automatic && !ends && !port.host.addresses.contains(address) {
            steps.push(Step::ip(format!("address del {address} dev {name}")));
        }
    }
    Ok(keeps.is_none() || grows)
}
