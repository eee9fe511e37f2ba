//! Sysctls of the network.

use std::fs;
use std::path::{Path, PathBuf};

/// Source validation of all interfaces: the larger one of this and their own holds.
pub(super) const RP_FILTER: &str = "ipv4/conf/all/rp_filter";

/// The file of a sysctl under `net`.
pub(super) fn sysctl(key: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(key)
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

/// True if new interfaces have IPv6.
pub(super) fn has_ipv6() -> bool {
    ["all", "default"].iter().all(|conf| {
        let file = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
        fs::read_to_string(file).is_ok_and(|value| value.trim() == "0")
    })
}
