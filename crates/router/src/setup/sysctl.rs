//! Network sysctls.

use std::fs;
use std::path::{Path, PathBuf};

/// Source validation of all interfaces. The larger value of this and the interface's own
/// applies.
pub(super) const RP_FILTER: &str = "ipv4/conf/all/rp_filter";

/// The file of a sysctl under `net`.
pub(super) fn sysctl(key: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(key)
}

/// The sysctls that an interface needs: files and values.
pub(super) fn sysctls(name: &str, ipv6: bool) -> impl Iterator<Item = (PathBuf, &'static str)> {
    // Source validation must be off because packets return with sources from behind a card,
    // which has already validated them. Routes without carrier must be ignored because this is
    // how the kernel notices that no router runs. There must be no link-local address, so that
    // the kernel itself sends nothing.
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
