//! Settings for `vcp-router setup`: the interfaces, and the packets that the kernel steers into
//! them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use pathmark_link::keys::{Fault, Source};
use toml::Spanned;

use super::names::{is_hosts, is_interface_pattern, no_port};
use super::schema::{Config, FileSteer, PortSpec, SteerSpec};

/// Tables 253 to 255 belong to the kernel; rule 32766 leads to the main table.
const TABLES: std::ops::RangeInclusive<u32> = 256..=32_000;
/// Maximum number of ports and rules between the first table and the main table's rule.
const MOST: usize = 256;
/// The default number of the first table.
pub(crate) const DEFAULT_TABLE: u32 = 11_800;

pub(super) const NO_HOST: &str = "this address names no single host: choose one of a network";

impl Config {
    /// The routing table of a port that packets are steered into.
    #[cfg(feature = "daemon")]
    pub(crate) fn table_of(&self, port: usize) -> u32 {
        self.table + u32::try_from(port).unwrap_or(0)
    }

    /// Returns the interfaces among `names` that `from` matches, or `from` itself if it is not a
    /// pattern. A pattern never matches the loopback interface or the interface of a port.
    #[cfg(feature = "daemon")]
    pub(crate) fn cards<'a>(&self, from: &'a str, names: &[&'a str]) -> Vec<&'a str> {
        let Some(start) = from.strip_suffix('*') else {
            return vec![from];
        };
        let own =
            |name: &str| name == "lo" || self.ports.iter().any(|port| port.tun() == Some(name));
        let names = names.iter().copied();
        names
            .filter(|name| name.starts_with(start) && !own(name))
            .collect()
    }
}

/// Returns the first of the routing tables, one per port, and of the rules' priorities that
/// `setup` uses.
pub(super) fn first_table(source: &Source<'_>, given: Option<&Spanned<u32>>) -> Result<u32, Fault> {
    match given {
        Some(table) if !TABLES.contains(table.get_ref()) => {
            Err(source.locate(Some(table.span()), "a table has a number from 256 to 32000"))
        }
        given => Ok(given.map_or(DEFAULT_TABLE, |table| *table.get_ref())),
    }
}

pub(super) fn steers(
    source: &Source<'_>,
    written: Vec<FileSteer>,
    ports: &[PortSpec],
    names: &BTreeMap<String, usize>,
) -> Result<Vec<SteerSpec>, Fault> {
    let mut steers = Vec::new();
    let last = written.last().map(|steer| steer.port.span());
    for steer in written {
        let place = steer.port.span();
        let fail = |span, message: String| Err(source.locate(Some(span), message));
        let name = steer.port.get_ref().as_str();
        let Some((port, spec)) = names
            .get(name)
            .and_then(|index| Some((*index, ports.get(*index)?)))
        else {
            return fail(place, no_port(name, names));
        };
        if spec.tun().is_none() {
            let message = "packets can be steered into a port with `tun` only, not with `fd`";
            return fail(place, message.to_owned());
        }
        if steer.from.is_none() && steer.mark.is_none() {
            let message = "say which packets: add from = \"INTERFACE\", or mark = NUMBER";
            return fail(place, message.to_owned());
        }
        if let Some(from) = &steer.from {
            let name = from.get_ref();
            if !is_interface_pattern(name) {
                let message = "an interface name has 1 to 15 letters, digits, '-', '_' or '.'; a \
                    `*` at its end means all names that begin so";
                return fail(from.span(), message.to_owned());
            }
            if ports.iter().any(|port| port.tun() == Some(name)) {
                let message = "packets that come out of a port would go round in a circle: name \
                    the network card";
                return fail(from.span(), message.to_owned());
            }
        }
        if let Some(mark) = &steer.mark
            && *mark.get_ref() == 0
        {
            return fail(mark.span(), "0 is no mark: choose 1 or more".to_owned());
        }
        let mut to = Vec::new();
        for prefix in &steer.to {
            match prefix.get_ref().parse() {
                Ok(prefix) => to.push(prefix),
                Err(error) => return fail(prefix.span(), format!("{error}")),
            }
        }
        let steer = SteerSpec {
            from: steer.from.map(Spanned::into_inner),
            mark: steer.mark.map(Spanned::into_inner),
            to,
            port,
        };
        if steers.contains(&steer) {
            return fail(place, "this [[steer]] is there twice".to_owned());
        }
        steers.push(steer);
    }
    if steers.len().max(ports.len()) > MOST && !steers.is_empty() {
        let message = format!(
            "each port and each [[steer]] takes a number from `table` on, of which there are \
             {MOST}: the file has {} ports and {} [[steer]]; steer into fewer, or share the ports \
             among several routers",
            ports.len(),
            steers.len()
        );
        return Err(source.locate(last, message));
    }
    Ok(steers)
}

/// The kernel's addresses on an interface, including host bits.
pub(super) fn host_addresses(
    source: &Source<'_>,
    written: &[Spanned<String>],
) -> Result<Vec<IpNet>, Fault> {
    let mut addresses = Vec::new();
    for text in written {
        match text.get_ref().parse::<IpNet>() {
            Ok(address) if !is_hosts(address.addr()) => {
                return Err(source.locate(Some(text.span()), NO_HOST));
            }
            Ok(address) => addresses.push(address),
            Err(_) => {
                let message = format!(
                    "cannot read `{}`: write ADDRESS/LENGTH, as in 10.9.0.1/30",
                    text.get_ref()
                );
                return Err(source.locate(Some(text.span()), message));
            }
        }
    }
    Ok(addresses)
}
