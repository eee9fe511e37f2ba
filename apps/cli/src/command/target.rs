//! Parses `HOST:PORT/NAME` and `https://HOST/PATH` on the command line.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fmt::{self, Debug, Display};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use anyhow::{Context, anyhow};
use clap::builder::{OsStringValueParser, TypedValueParser};
use pathmark_http3::fields::{PathName, encode_name, text_of};

use super::Failure;
use super::values::time;

/// The scheme of URLs.
const HTTPS: &str = "https://";
/// The default port of URLs.
const HTTPS_PORT: u16 = 443;

/// A server, and optionally a path on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Host name or address without brackets.
    pub(super) host: String,
    /// UDP port.
    pub(super) port: u16,
    /// The part after the first `/`.
    pub(super) path: Option<PathName>,
    /// Whether names can be patterns, which they can't in a URL.
    pub(super) globs: bool,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(OsStr::new(text))
    }
}

/// Returns a parser that also accepts names that aren't UTF-8.
pub(super) fn parser() -> impl TypedValueParser<Value = Target> {
    OsStringValueParser::new().try_map(|text| Target::read(&text))
}

impl Target {
    fn read(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let text = text_of(bytes);
        let wrong = || {
            let form = "HOST:PORT, HOST:PORT/NAME or https://HOST[:PORT]/PATH";
            match bytes.strip_prefix(b"http://") {
                Some(_) => format!("`{text}` is a URL of HTTP over TCP; give {form}"),
                None if text.ends_with(['h', 'm', 's']) && time(&text).is_ok() => format!(
                    "`{text}` is not a server ({form}); a time follows its option after `=`: \
                     --reconnect={text}"
                ),
                None => format!("`{text}` is not a server: write {form}"),
            }
        };
        let url = bytes.strip_prefix(HTTPS.as_bytes());
        let rest = url.unwrap_or(bytes);
        let (authority, path) = match rest.iter().position(|byte| *byte == b'/') {
            Some(place) => rest.split_at(place),
            None => (rest, &[][..]),
        };
        let path = path.strip_prefix(b"/");
        let authority = std::str::from_utf8(authority).map_err(|_| wrong())?;
        // The port follows the last colon outside brackets.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ if url.is_some() => (authority, HTTPS_PORT),
            _ => return Err(wrong()),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let ambiguous = bare.is_none() && host.contains(':');
        if host.is_empty() || ambiguous {
            return Err(wrong());
        }
        let path = match (path, url) {
            (None, _) => None,
            (Some(path), Some(_)) if path.iter().any(|byte| b"?#".contains(byte)) => {
                return Err(format!(
                    "`{text}` has a query or a fragment, and files have none; write %3F for a `?` \
                     and %23 for a `#`"
                ));
            }
            (Some(path), Some(_)) => Some([b"/", path].concat()),
            (Some(path), None) => {
                let names: Vec<_> = path.split(|byte| *byte == b'/').map(encode_name).collect();
                Some(format!("/{}", names.join("/")).into_bytes())
            }
        };
        let path = path.map(|path| PathName::parse(&path));
        Ok(Self {
            host: host.to_owned(),
            port,
            path: path
                .transpose()
                .map_err(|error| format!("`{text}` is no name of a file: {error}"))?,
            globs: url.is_none(),
        })
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server())?;
        match &self.path {
            Some(path) => write!(f, "/{}", shown(path)),
            None => Ok(()),
        }
    }
}

/// Formats a path as readable text, without its first slash.
pub(super) fn shown(path: &PathName) -> String {
    let mut text = text_of(&path.names.join(&b'/'));
    if path.slash && !text.is_empty() {
        text.push('/');
    }
    text
}

impl Target {
    /// Returns `HOST:PORT`, with an IPv6 address in brackets.
    pub(super) fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the authority of the server's URLs, without the zone of a link-local address.
    pub(super) fn authority(&self) -> String {
        let mut server = self.server();
        if let Some((zone, end)) = server.find('%').zip(server.find(']')) {
            server.replace_range(zone..end, "");
        }
        match server.strip_suffix(":443") {
            Some(host) if self.port == HTTPS_PORT => host.to_owned(),
            _ => server,
        }
    }

    /// Returns the name of the path as readable text, which is empty without a path.
    pub(super) fn name(&self) -> String {
        self.path.as_ref().map(shown).unwrap_or_default()
    }

    /// Returns at least one address of the host, the best one first.
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

/// Rejects two sources with the same final name, since one would replace the other.
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
        let target = |host: &str, port, path: Option<&[u8]>| Target {
            host: host.into(),
            port,
            path: path.map(|path| PathName::parse(path).unwrap()),
            globs: true,
        };
        for (text, expected) in [
            ("a:1", target("a", 1, None)),
            ("a:1/", target("a", 1, Some(b"/"))),
            ("10.0.0.1:4433/x/y", target("10.0.0.1", 4433, Some(b"/x/y"))),
            ("[::1]:4433/x", target("::1", 4433, Some(b"/x"))),
            ("[fe80::1%eth0]:1", target("fe80::1%eth0", 1, None)),
            ("a:1/x%20?#/", target("a", 1, Some(b"/x%2520%3f%23/"))),
        ] {
            assert_eq!(expected.to_string(), text);
            assert_eq!(text.parse(), Ok(expected));
        }
        for (text, expected) in [
            ("https://a", target("a", 443, None)),
            ("https://a/x%20%ff", target("a", 443, Some(b"/x%20%ff"))),
            ("https://a:1/x/", target("a", 1, Some(b"/x/"))),
            ("https://[::1]/", target("::1", 443, Some(b"/"))),
            ("https://[::1]:2", target("::1", 2, None)),
        ] {
            let expected = Target {
                globs: false,
                ..expected
            };
            assert_eq!(text.parse(), Ok(expected));
        }
        for text in [
            "a",
            ":1",
            "::1:4433",
            "a:b",
            "a:70000",
            "",
            "[::1]",
            "a:1//x",
            "a:1/../x",
            "a:1/x/.",
            "http://a/x",
            "https://",
            "https:///x",
            "https://::1/x",
            "https://a/%2f",
            "https://a/%x",
            "https://a/x?y",
            "https://a/x#y",
            "https://a:b/x",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let scoped: Target = "[fe80::1%eth0]:1/x".parse().unwrap();
        assert_eq!(scoped.authority(), "[fe80::1]:1");
        let odd = Target::read(OsStr::from_bytes(b"a:1/b\xff\xfec")).unwrap();
        assert_eq!(odd, target("a", 1, Some(b"/b%ff%fec")));
        assert_eq!(odd.to_string(), "a:1/b\\xff\\xfec");
        assert!(Target::read(OsStr::from_bytes(b"\xff:1/b")).is_err());
        let said = "http://a/x".parse::<Target>().unwrap_err();
        assert!(said.contains("over TCP"), "{said}");
        let said = "1h".parse::<Target>().unwrap_err();
        assert!(said.contains("--reconnect=1h"), "{said}");
        let said = "b.txt".parse::<Target>().unwrap_err();
        assert!(said.contains("write HOST:PORT"), "{said}");
        let authority = |text: &str| text.parse::<Target>().unwrap().authority();
        assert_eq!(authority("https://[::1]/x"), "[::1]");
        assert_eq!(authority("a:443"), "a");
        assert_eq!(authority("a:1443/x"), "a:1443");
    }
}
