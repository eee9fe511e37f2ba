//! Settings for `vcp-router setup`: the interfaces, and the packets that the kernel steers into
//! them; and checks of names and addresses that the kernel would later reject or misinterpret.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ipnet::IpNet;
use pathmark_link::keys::{Fault, Source, nearest};
use toml::Spanned;

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

/// The size of `sun_path` in a Unix socket's address, without the terminating zero.
const LONGEST_SOCKET: usize = 107;

/// Whether the kernel accepts this as an interface name, and it has only the characters that
/// this program allows.
pub(super) fn is_interface_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // IFNAMSIZ, without the terminating zero. `.` and `..` cannot be sysctl directories, and the
    // directories `all` and `default` do not belong to a single interface.
    (1..=15).contains(&name.len())
        && name.chars().all(plain)
        && !matches!(name, "." | ".." | "all" | "default")
        && !name.starts_with('-')
}

/// Returns true for an interface name, or the start of one followed by `*`.
fn is_interface_pattern(name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => is_interface_name(start),
        None => is_interface_name(name),
    }
}

/// Returns true for a port name that fits into a line: on the status socket, in a message, or in
/// a table.
pub(crate) fn is_port_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.contains(char::is_control)
}

/// The rule for port names.
pub(crate) const PORT_NAME: &str = "a port's name is one line: at least one character, none of \
                                    them a control character, and no space at its ends";

/// The nearest of the known names to one that is unknown, if one is near.
pub(super) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
}

/// The error for the name of no port, with the nearest name of one.
pub(super) fn no_port(name: &str, ports: &BTreeMap<String, usize>) -> String {
    let meant = meant(name, ports.keys().map(String::as_str));
    format!("no port is called `{name}`{meant}")
}

/// The error in the path of the status socket, if any.
pub(super) fn bad_socket(path: &Path) -> Option<String> {
    let bytes = path.as_os_str().as_bytes();
    match bytes.len() {
        0 => Some("an empty path: leave it out for no status socket".to_owned()),
        _ if bytes.ends_with(b"/") => Some("a path that ends in / is no socket's".to_owned()),
        _ if bytes.contains(&0) => Some("a path has no zero bytes".to_owned()),
        len if len > LONGEST_SOCKET => Some(format!(
            "the path of a socket has at most {LONGEST_SOCKET} bytes, this one has {len}: choose a \
             shorter one"
        )),
        _ => None,
    }
}

/// Whether packets can have this source and this destination: it belongs to a single host, and
/// is not its loopback address (RFC 1122 §3.2.1.3, RFC 1112 §4, RFC 4291 §2.5, §2.7). Link-local
/// addresses count as well.
pub(super) fn is_hosts(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !matches!(v4.octets(), [0 | 127 | 224..=255, ..]),
        IpAddr::V6(v6) => {
            let other = v6.is_unspecified() || v6.is_loopback() || v6.is_multicast();
            !other && v6.to_ipv4_mapped().is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const PORT: &str = "[[port]]\nname = \"a\"\ntun = \"a0\"\n";

    fn outcome(text: &str) -> String {
        let parsed = Config::parse(Path::new("router.toml"), text);
        parsed.map_or_else(|error| error.to_string(), |_| "good".to_owned())
    }

    #[test]
    fn interfaces_that_the_kernel_refuses_are_refused() {
        for name in ["all", "default", ".", "..", "-a", "a b", "0123456789abcdef"] {
            let text = PORT.replace("a0", name);
            assert!(outcome(&text).contains("an interface name"), "{name}");
        }
        for name in ["all0", "a.1", "0123456789abcde"] {
            assert_eq!(outcome(&PORT.replace("a0", name)), "good", "{name}");
        }
    }

    /// Other names could not be sent to the status socket, or could not be read in a table.
    #[test]
    fn ports_are_called_what_fits_into_a_line() {
        for name in "| | a|a |a\\nb|a\\tb|a\\u001b[2J|\\u0085".split('|') {
            let error = outcome(&PORT.replace("\"a\"", &format!("\"{name}\"")));
            let expected = format!("router.toml:2: name: {PORT_NAME}");
            assert_eq!(error, expected, "{name:?}");
        }
        for name in ["wan side", "München", "a,b", "\\\"q\\\""] {
            let text = PORT.replace("\"a\"", &format!("\"{name}\""));
            assert_eq!(outcome(&text), "good", "{name}");
        }
    }

    /// The longest path accepted is one that a socket can have.
    #[test]
    fn sockets_that_cannot_be_made_are_refused() {
        for (path, part) in [
            ("", "leave it out"),
            ("/a\\u0000", "zero bytes"),
            ("/run/control/", "ends in /"),
            (&"/a".repeat(54), "at most 107 bytes, this one has 108"),
        ] {
            let error = outcome(&format!("control = \"{path}\"\n{PORT}"));
            assert!(error.starts_with("router.toml:1: control: "), "{error}");
            assert!(error.contains(part), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        let start = dir.path().to_str().unwrap().to_owned() + "/";
        let longest = start.clone() + &"a".repeat(LONGEST_SOCKET - start.len());
        assert_eq!(outcome(&format!("control = \"{longest}\"\n{PORT}")), "good");
        std::os::unix::net::UnixListener::bind(&longest).unwrap();
        assert!(std::os::unix::net::UnixListener::bind(longest + "a").is_err());
    }

    /// A port must not have an address that belongs to no single host, because no packet would
    /// reach it, and hosts would drop packets from it.
    #[test]
    fn addresses_of_no_host_are_refused() {
        let bad = "0.0.0.0 0.1.2.3 127.0.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ff02::1 \
                   ::ffff:192.0.2.1";
        for address in bad.split(' ') {
            for (name, values) in [
                ("addresses", format!("\"192.0.2.1\", \"{address}\"")),
                ("host_addresses", format!("\"{address}/32\"")),
            ] {
                let error = outcome(&format!("{PORT}{name} = [{values}]\n"));
                let part = format!(":4: {name}: this address names no");
                assert!(error.contains(&part), "{error}");
            }
        }
        for address in "192.0.2.1 169.254.0.1 fe80::1 fd00::1 64:ff9b::1".split(' ') {
            let text = format!("{PORT}addresses = [\"{address}\"]\n");
            assert_eq!(outcome(&text), "good", "{address}");
        }
    }

    /// The group decides who may connect to the router, and depends on the user.
    #[test]
    fn a_group_needs_a_user() {
        let error = outcome(&format!("group = \"root\"\n{PORT}"));
        assert!(error.starts_with("router.toml:1: group: ") && error.contains("add `user`"));
        let with_user = outcome(&format!("user = \"root\"\ngroup = \"root\"\n{PORT}"));
        assert_eq!(with_user, "good");
    }
}
