//! A tunnel's configuration, from a file and from arguments.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use pathmark_cc::Algorithm;
use pathmark_link::keys::Source;
use pathmark_proxy::classes::Classes;
use pathmark_proxy::ingress::spec::{Bind, Forward, Protocol};
use pathmark_proxy::ingress::{EARLY, Limits};
use pathmark_proxy::target::Host;
use pathmark_proxy::uri::ProxyUri;
use pathmark_testbed::IpNet;
use serde::{Deserialize, Deserializer};

use super::super::state::address_towards;
use super::super::values;

/// Maximum number of flows that can be configured.
const MOST_FLOWS: u32 = 1_000_000;

/// A configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The proxy's URI.
    pub(super) uri: Option<String>,
    /// A file that contains the URI, relative to this file's directory.
    pub(super) uri_file: Option<PathBuf>,
    /// The client's certificate chain and private key in PEM, relative to this file's directory.
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// The congestion controller to send with.
    #[serde(default, deserialize_with = "controller")]
    pub(super) cc: Option<Algorithm>,
    #[serde(default, deserialize_with = "texts")]
    forward: Vec<Forward>,
    #[serde(default, deserialize_with = "texts")]
    socks: Vec<Bind>,
    #[serde(default, deserialize_with = "texts")]
    http: Vec<Bind>,
    tproxy: Option<Transparent>,
    /// Whether a connection's first bytes directly follow its request.
    #[serde(default)]
    fast_open: bool,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    class: Classes,
    /// The status socket, relative to this file's directory.
    pub(super) control: Option<PathBuf>,
    /// The address that serves Prometheus metrics.
    pub(super) metrics: Option<SocketAddr>,
}

/// The listeners that accept flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listeners {
    /// Port forwards.
    pub(super) forward: Vec<Forward>,
    /// SOCKS5 servers.
    pub(super) socks: Vec<Bind>,
    /// HTTP CONNECT servers.
    pub(super) http: Vec<Bind>,
    /// The transparent listener.
    pub(super) tproxy: Option<Transparent>,
}

/// A transparent listener, and the packets that should reach it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transparent {
    /// Its port.
    pub(super) port: u16,
    /// Networks to reach directly, in addition to private ones.
    #[serde(default, deserialize_with = "texts")]
    pub(super) bypass: Vec<IpNet>,
    /// Networks whose packets a gateway redirects, or empty for all.
    #[serde(default, deserialize_with = "texts")]
    pub(super) from: Vec<IpNet>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLimits {
    #[serde(default, deserialize_with = "number")]
    flows: Option<usize>,
    #[serde(default, deserialize_with = "number")]
    udp_flows: Option<usize>,
    #[serde(default, deserialize_with = "duration")]
    udp_idle: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    handshake: Option<Duration>,
}

/// Parses strings in the same form as arguments.
fn texts<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let values = texts.iter().map(|text| text.parse());
    values
        .collect::<Result<_, _>>()
        .map_err(serde::de::Error::custom)
}

fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Algorithm>, D::Error> {
    let text = String::deserialize(deserializer)?;
    values::algorithm(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    lasting(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Parses a duration above 0.
pub(super) fn lasting(text: &str) -> Result<Duration, String> {
    let time = values::duration(text)?;
    if time.is_zero() {
        Err("a time of 0 ends each flow at once".to_owned())
    } else {
        Ok(time)
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let number = u32::deserialize(deserializer)?;
    match number {
        1..=MOST_FLOWS => Ok(Some(number as usize)),
        _ => Err(serde::de::Error::custom(format!(
            "a number of flows is from 1 to {MOST_FLOWS}"
        ))),
    }
}

impl File {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        // The message contains neither the line nor its key: the line may contain the token.
        let source = Source { path, text: &text };
        let error = |error: toml::de::Error| {
            let fault = source.syntax(&error);
            anyhow!("{shown}:{}: {}", fault.line, fault.message)
        };
        let mut file: Self = toml::from_str(&text).map_err(error)?;
        if file.uri.is_some() && file.uri_file.is_some() {
            return Err(anyhow!("{shown} has both uri and uri_file; remove one"));
        }
        if file.cert.is_some() != file.key.is_some() {
            return Err(anyhow!("{shown}: cert and key go together"));
        }
        if let Some(directory) = path.parent() {
            let paths = file.uri_file.iter_mut().chain(&mut file.control);
            let paths = paths.chain(&mut file.cert).chain(&mut file.key);
            paths.for_each(|path| *path = directory.join(&*path));
        }
        Ok(file)
    }

    pub(super) fn listeners(&self) -> Listeners {
        Listeners {
            forward: self.forward.clone(),
            socks: self.socks.clone(),
            http: self.http.clone(),
            tproxy: self.tproxy.clone(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        let usual = Limits::default();
        let FileLimits {
            flows,
            udp_flows,
            udp_idle,
            handshake,
        } = self.limits;
        Limits {
            flows: flows.unwrap_or(usual.flows),
            udp_flows: udp_flows.unwrap_or(usual.udp_flows),
            udp_idle: udp_idle.unwrap_or(usual.udp_idle),
            handshake: handshake.unwrap_or(usual.handshake),
            early: if self.fast_open { EARLY } else { usual.early },
            classes: self.class.clone(),
        }
    }
}

impl Listeners {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.forward.extend(other.forward);
        self.socks.extend(other.socks);
        self.http.extend(other.http);
        self.tproxy = other.tproxy.or(self.tproxy.take());
    }

    /// Returns warnings to show before the tunnel runs.
    pub(super) fn warnings(&self) -> Vec<String> {
        let open = |what: &str, bind: &Bind| {
            format!("{what} {bind} serves other machines, without a password")
        };
        let forwards = (self.forward.iter()).map(|forward| ("forward", &forward.bind));
        let socks = self.socks.iter().map(|bind| ("socks", bind));
        let http = self.http.iter().map(|bind| ("http", bind));
        let binds = forwards.chain(socks).chain(http);
        let foreign = binds.filter(|(_, bind)| !bind.is_local());
        foreign.map(|(what, bind)| open(what, bind)).collect()
    }

    /// Rejects two listeners on the same port, and forwards that lead back to their own listener
    /// through the proxy.
    pub(super) fn check(&self, proxy: Option<&ProxyUri>) -> anyhow::Result<()> {
        let mut forwards = self.forward.iter();
        if let Some(forward) = forwards.find(|forward| is_loop(forward, proxy)) {
            return Err(anyhow!(
                "the target of {forward} is its own listener, so that each flow would come back \
                 without end; choose another target, or another port to listen on"
            ));
        }
        let mut taken: Vec<(Bind, Protocol)> = Vec::new();
        let forwards = (self.forward.iter()).map(|forward| (forward.bind, forward.protocol));
        let others = self.socks.iter().chain(&self.http);
        for (bind, protocol) in forwards.chain(others.map(|bind| (*bind, Protocol::Tcp))) {
            let clash = |(other, its): &&(Bind, Protocol)| {
                let addresses = other.addresses();
                *its == protocol
                    && bind.port != 0
                    && bind
                        .addresses()
                        .iter()
                        .any(|address| addresses.contains(address))
            };
            if let Some((other, _)) = taken.iter().find(clash) {
                return Err(anyhow!(
                    "two listeners have the port of {bind} (the other one is {other}); choose \
                     another for one of them"
                ));
            }
            taken.push((bind, protocol));
        }
        Ok(())
    }
}

/// Returns true if the proxy would connect a forward's flows to the forward's own listener. The
/// proxy resolves names, and its own loopback addresses are different from this host's.
fn is_loop(forward: &Forward, proxy: Option<&ProxyUri>) -> bool {
    let address_of = |host: &Host| match host {
        Host::Address(address) => Some(address.to_canonical()),
        Host::Name(name) if name == "localhost" || is_own_name(name) => {
            Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
        }
        Host::Name(_) => None,
    };
    let (Some(target), port) = (address_of(&forward.target.host), forward.target.port) else {
        return false;
    };
    // Packets to an address of this host have this address as their source, too.
    let is_own = |address: IpAddr| {
        let source = address_towards(SocketAddr::new(address, port));
        address.is_loopback() || source.is_ok_and(|source| source == address)
    };
    let listeners = forward.bind.addresses();
    let is_bound = listeners.iter().any(|listener| {
        let own = listener.ip();
        let is_any = own.is_unspecified() && own.is_ipv4() == target.is_ipv4();
        listener.port() == port && (own == target || (is_any && is_own(target)))
    });
    let is_here = || {
        let host = proxy.and_then(|uri| address_of(&uri.server.host));
        host.is_some_and(is_own)
    };
    is_bound && (!target.is_loopback() || is_here())
}

/// Returns true for the name of this host, with or without its domain.
fn is_own_name(name: &str) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (own, name) = (own.trim(), name.trim_end_matches('.'));
    let short = own.split('.').next().unwrap_or_default();
    !own.is_empty()
        && [own, short]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
}

/// Returns the given URI, or reads it from a file.
pub(super) fn uri(text: Option<&str>, file: Option<&Path>) -> anyhow::Result<ProxyUri> {
    if let Some(text) = text {
        return Ok(text.trim().parse()?);
    }
    let path = file.ok_or_else(|| {
        anyhow!(
            "no proxy is named: give its URI, which `pathmark proxy` prints, in --uri-file FILE, \
             in PATHMARK_TUNNEL, or as uri_file in the configuration"
        )
    })?;
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    // The proxy prints `for NAME: URI`.
    let (_, uri) = text.trim().rsplit_once(' ').unwrap_or(("", text.trim()));
    uri.parse()
        .with_context(|| format!("{shown} has no URI of a proxy"))
}

/// Returns the proxy's addresses, which packets must reach directly.
pub(super) async fn addresses(uri: &ProxyUri) -> anyhow::Result<Vec<IpAddr>> {
    let target: super::super::target::Target = uri
        .server
        .to_string()
        .parse()
        .map_err(|error| anyhow!("the proxy's address is of no use here: {error}"))?;
    let addresses = target.resolve().await?;
    Ok(addresses.iter().map(std::net::SocketAddr::ip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<File, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tunnel.toml");
        std::fs::write(&path, text).unwrap();
        let read = File::read(&path);
        read.map_err(|error| {
            let text = format!("{error:#}");
            text.replace(&format!("{}", path.display()), "FILE")
        })
    }

    #[test]
    fn a_file_has_what_arguments_have() {
        let file = read(
            r#"
            uri_file = "proxy.uri"
            forward = ["8080:example.org:80", "53:192.0.2.1:53/udp"]
            socks = ["1080"]
            http = ["[::1]:3128"]
            [tproxy]
            port = 12345
            bypass = ["198.51.100.0/24"]
            [limits]
            udp_idle = "5m"
            flows = 10
            "#,
        )
        .unwrap();
        assert_eq!(file.forward[1].to_string(), "53:192.0.2.1:53/udp");
        assert_eq!(file.http[0].to_string(), "[::1]:3128");
        assert_eq!(file.tproxy.as_ref().unwrap().port, 12345);
        let limits = file.limits();
        assert_eq!((limits.flows, limits.udp_idle.as_secs()), (10, 300));
        assert!(file.uri_file.unwrap().is_absolute());
    }

    #[test]
    fn a_fault_has_its_line_and_no_token() {
        for (text, says) in [
            ("\nsocks = [\"a:1\"]", ":2: `a` is no address to listen on"),
            (
                "socks = [\"1080\"]\nsock = 1",
                "unknown name `sock`: did you mean `socks`?",
            ),
            ("[limits]\nudp_idle = \"0s\"", ":2: a time of 0"),
            ("uri = \"a\"\nuri_file = \"b\"", "both uri and uri_file"),
            ("forward = 5", ":1: invalid type"),
            ("socks = [1080]", "expected text in quotes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let secret = "pathmark://0123456789abcdef@a:1";
        let error = read(&format!("uri = \"{secret}\" x")).unwrap_err();
        assert!(!error.contains("0123456789"), "{error}");
        let error = uri(Some(&secret.replace(":1", "")), None).unwrap_err();
        assert!(!format!("{error:#}").contains("0123456789"), "{error:#}");
    }

    #[test]
    fn a_forward_to_itself_is_a_fault() {
        let here = "127.0.0.1:4433";
        let there = "192.0.2.1:4433";
        for (forward, proxy, is_fault) in [
            ("8080:127.0.0.1:8080", here, true),
            ("8080:localhost:8080", here, true),
            ("8080:[::1]:8080/udp", "localhost:4433", true),
            ("*:8080:127.0.0.1:8080", here, true),
            ("0.0.0.0:8080:[::ffff:127.0.0.1]:8080", here, true),
            ("192.0.2.9:8080:192.0.2.9:8080", there, true),
            ("*:8080:[::1]:8080", "OWN:4433", true),
            ("8080:OWN:8080", "OWN:4433", true),
            // The loopback of the proxy's host.
            ("8080:localhost:8080", there, false),
            ("8080:127.0.0.1:8080", "example.org:4433", false),
            ("8080:127.0.0.1:8081", here, false),
            ("8080:127.0.0.2:8080", here, false),
            ("*:8080:192.0.2.9:8080", here, false),
            ("8080:example.org:8080", here, false),
        ] {
            let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
            let forward = forward.replace("OWN", own.trim());
            let proxy = proxy.replace("OWN", own.trim());
            let listeners = Listeners {
                forward: vec![forward.parse().unwrap()],
                ..Listeners::default()
            };
            let token = "x".repeat(43);
            let proxy = format!("pathmark://{token}@{proxy}").parse().unwrap();
            let checked = listeners.check(Some(&proxy));
            assert_eq!(checked.is_err(), is_fault, "{forward} {checked:?}");
        }
    }

    #[test]
    fn two_listeners_at_one_port_are_a_fault() {
        for (text, clash) in [
            ("socks = [\"1080\"]\nhttp = [\"1080\"]", true),
            ("socks = [\"1080\"]\nhttp = [\"[::1]:1080\"]", true),
            ("socks = [\"0\"]\nhttp = [\"0\"]", false),
            ("forward = [\"53:a:53\", \"53:a:53/udp\"]", false),
            ("forward = [\"53:a:53\"]\nsocks = [\"127.0.0.2:53\"]", false),
        ] {
            let file = read(text).unwrap();
            assert_eq!(file.listeners().check(None).is_err(), clash, "{text}");
        }
        let open = read("socks = [\"*:1080\"]\nhttp = [\"3128\"]").unwrap();
        let warning = "socks *:1080 serves other machines, without a password";
        assert_eq!(open.listeners().warnings(), [warning]);
    }
}
