//! Checks names and addresses that the kernel would later reject or misinterpret.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pathmark_link::keys::nearest;

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
pub(super) fn is_interface_pattern(name: &str) -> bool {
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
