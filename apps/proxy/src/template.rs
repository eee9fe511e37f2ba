//! The path of UDP flows (RFC 9298 section 2):
//! `/.well-known/masque/udp/{target_host}/{target_port}/`.

use pathmark_http3::fields::{decode_bytes, encode_name};

use crate::target::{Host, Target, TargetError};

/// The path before the host.
const PREFIX: &str = "/.well-known/masque/udp/";

/// Formats the path for a target, percent-encoding the colons of an IPv6 address.
pub fn path(target: &Target) -> String {
    let host = match &target.host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    };
    format!("{PREFIX}{}/{}/", encode_name(host.as_bytes()), target.port)
}

/// Parses the target from a path.
///
/// # Errors
/// [`TargetError`].
pub fn target(path: &str) -> Result<Target, TargetError> {
    let rest = path.strip_prefix(PREFIX).ok_or(TargetError::Host)?;
    let (host, port) = rest.split_once('/').ok_or(TargetError::Port)?;
    let port = port.strip_suffix('/').ok_or(TargetError::Port)?;
    let host = decode_bytes(host.as_bytes()).map_err(|_| TargetError::Host)?;
    let host = String::from_utf8(host).map_err(|_| TargetError::Host)?;
    Target::new(&host, crate::target::port(port)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_back() {
        for (text, expected) in [
            ("example.org:53", "/.well-known/masque/udp/example.org/53/"),
            ("192.0.2.6:443", "/.well-known/masque/udp/192.0.2.6/443/"),
            (
                "[2001:db8::42]:443",
                "/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/",
            ),
        ] {
            let parsed: Target = text.parse().unwrap();
            assert_eq!(path(&parsed), expected);
            assert_eq!(target(expected), Ok(parsed));
        }
        // Clients can encode unreserved bytes and leave colons unencoded.
        let plain = target("/.well-known/masque/udp/2001:db8::42/443/");
        assert_eq!(plain.unwrap().to_string(), "[2001:db8::42]:443");
        let encoded = target("/.well-known/masque/udp/%65xample.org/53/");
        assert_eq!(encoded.unwrap().to_string(), "example.org:53");
    }

    #[test]
    fn other_paths_are_refused() {
        for path in [
            "",
            "/",
            "/.well-known/masque/udp/",
            "/.well-known/masque/udp/a/53",
            "/.well-known/masque/udp/a/53/x",
            "/.well-known/masque/udp/a/0/",
            "/.well-known/masque/udp/a/65536/",
            "/.well-known/masque/udp/a/+5/",
            "/.well-known/masque/udp//53/",
            "/.well-known/masque/udp/a%2/53/",
            "/.well-known/masque/udp/a%2fb/53/",
            "/.well-known/masque/udp/%ff/53/",
            "/.well-known/masque/udp/*/*/",
        ] {
            assert!(target(path).is_err(), "{path}");
        }
    }
}
