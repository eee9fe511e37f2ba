//! The target of a flow, and how to reach the first of its addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;

/// A host by name or address. Names are resolved by the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name of at most 255 bytes.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

/// The reason why a text is not a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The host is missing or has invalid characters.
    #[error("a host is a name or an address; an IPv6 address stands in brackets")]
    Host,
    /// The port is missing or invalid.
    #[error("a port is a number from 1 to 65535")]
    Port,
}

impl std::str::FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::Port)?;
        Self::new(host, self::port(port)?)
    }
}

impl Target {
    /// Creates a target from a host and a port. IPv6 addresses can be in brackets.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn new(host: &str, port: u16) -> Result<Self, TargetError> {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = match (bare, bare.unwrap_or(host).parse::<IpAddr>()) {
            (Some(_), Ok(IpAddr::V4(_)) | Err(_)) => return Err(TargetError::Host),
            (_, Ok(address)) => Host::Address(address),
            (None, Err(_)) => Host::Name(name(host)?),
        };
        match port {
            0 => Err(TargetError::Port),
            port => Ok(Self { host, port }),
        }
    }
}

/// Parses a port, which must only have digits.
pub(crate) fn port(text: &str) -> Result<u16, TargetError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port > 0);
    port.ok_or(TargetError::Port)
}

/// Parses a name of letters, digits, hyphens, dots (RFC 1123 section 2.1), and underscores.
fn name(text: &str) -> Result<String, TargetError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=255).contains(&text.len()) && text.bytes().all(known) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(TargetError::Host)
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Address(address.ip()),
            port: address.port(),
        }
    }
}

/// Delay between attempts to reach the addresses of a name (RFC 8305 section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the address that answers first. Each attempt starts a moment after the previous
/// one, or as soon as that one has failed. Returns the errors in order if all fail.
pub(crate) async fn race<T: Send + 'static, E: Send + 'static, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut addresses = addresses.into_iter();
    let (mut attempts, mut failed) = (JoinSet::new(), Vec::new());
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(connect(address));
        } else if attempts.is_empty() {
            return Err(failed);
        }
        let another = async {
            match addresses.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(STAGGER).await,
            }
        };
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => failed.push(error),
                Err(_) => {}
            },
            () = another => {}
        }
    }
}

/// Returns any address and port of the same IP version.
pub(crate) fn unspecified(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_names_or_addresses_with_a_port() {
        for text in ["example.org:80", "192.0.2.1:443", "[2001:db8::1]:53"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let shown = Target::new("2001:db8::1", 53).unwrap().to_string();
        assert_eq!(shown, "[2001:db8::1]:53");
        for (text, error) in [
            ("example.org", TargetError::Port),
            ("example.org:0", TargetError::Port),
            ("example.org:65536", TargetError::Port),
            (":80", TargetError::Host),
            ("[192.0.2.1]:80", TargetError::Host),
            ("a b:80", TargetError::Host),
            ("a\0b:80", TargetError::Host),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
        assert_eq!(Target::new(&"a".repeat(256), 1), Err(TargetError::Host));
    }
}
