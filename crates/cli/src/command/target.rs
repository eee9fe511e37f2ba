//! `HOST:PORT/NAME` as written on the command line.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Debug, Display};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, anyhow};

use super::Failure;

/// A server, and possibly a file on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Host name or address, without brackets.
    pub(super) host: String,
    /// UDP port.
    pub(super) port: u16,
    /// What follows the first `/`.
    pub(super) name: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not of the form HOST:PORT or HOST:PORT/NAME");
        let (authority, name) = match text.split_once('/') {
            Some((authority, name)) => (authority, Some(name.to_owned())),
            None => (text, None),
        };
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let ambiguous = bare.is_none() && host.contains(':');
        if host.is_empty() || ambiguous || name.as_deref() == Some("") {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            name,
        })
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server())?;
        self.name
            .as_ref()
            .map_or(Ok(()), |name| write!(f, "/{name}"))
    }
}

impl Target {
    /// `HOST:PORT`, with an IPv6 address in brackets.
    pub(super) fn server(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The addresses of the host, the best one first: at least one.
    pub(super) async fn resolve(&self) -> anyhow::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .with_context(|| format!("cannot find the host `{}`", self.host))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(anyhow!("the host `{}` has no address", self.host));
        }
        Ok(addresses)
    }
}

/// Refuses two sources of one final name: the one would take the other's place.
pub(super) fn distinct<N: Ord + Debug, S: Display>(
    pairs: impl IntoIterator<Item = (N, S)>,
) -> Result<(), Failure> {
    let mut seen = BTreeMap::new();
    for (name, source) in pairs {
        match seen.entry(name) {
            Entry::Vacant(free) => {
                free.insert(source);
            }
            Entry::Occupied(taken) => {
                return Err(Failure::usage(anyhow!(
                    "{} and {source} would both become {:?}; take them one at a time",
                    taken.get(),
                    taken.key()
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let target = |host: &str, port, name: Option<&str>| Target {
            host: host.into(),
            port,
            name: name.map(Into::into),
        };
        for (text, expected) in [
            ("a:1", target("a", 1, None)),
            ("10.0.0.1:4433/x/y", target("10.0.0.1", 4433, Some("x/y"))),
            ("[::1]:4433/x", target("::1", 4433, Some("x"))),
        ] {
            assert_eq!(expected.to_string(), text);
            assert_eq!(text.parse(), Ok(expected));
        }
        for text in ["a", ":1", "a:1/", "::1:4433", "a:b", "a:70000", ""] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
