//! A proxy's configuration, its users, and their URIs.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use pathmark::TransportConfig;
use pathmark_http3::wire::ALPN;
use pathmark_proxy::flows::Kind;
use pathmark_proxy::policy::Policy;
use pathmark_proxy::server::config::{Config, Credential};
use pathmark_proxy::server::{Access, Proxy, config};
use pathmark_proxy::target::Target;
use pathmark_proxy::uri::ProxyUri;
use pathmark_transport::crypto::tls::Pin;
use serde::Serialize;

use super::super::control::Control;
use super::super::identity::{Identity, read, read_or_make};
use super::super::operator::AccessLog;
use super::super::session;
use super::super::values::{Algorithms, Listen};
use super::super::{Failure, Outcome, output, values};
use super::status::ProxyStatus;
use super::{Args, carry_flows, change, keep, print};

/// The variable with lines of names and tokens, which is used without a file.
const TOKENS: &str = "PATHMARK_PROXY_TOKENS";

/// A user's URI.
#[derive(Debug, Serialize)]
pub(super) struct NamedUri {
    pub(super) name: String,
    pub(super) uri: String,
}

/// A configuration with its users.
pub(super) struct Loaded {
    pub(super) config: Config,
    pub(super) users: Vec<(String, Credential)>,
    pub(super) listen: Listen,
    pub(super) cc: Option<Algorithms>,
    /// Whether the file of tokens was made now.
    pub(super) is_new: bool,
}

impl Loaded {
    /// Loads a configuration file. With `make`, a missing file of tokens is created.
    pub(super) fn of(path: &Path, make: bool) -> Result<Self, Failure> {
        let config = Config::load(path).map_err(Failure::usage)?;
        let at = |line: usize, what: String| {
            Failure::usage(anyhow!("{}:{line}: {what}", path.display()))
        };
        let (listen, line) = config.listen.as_ref().ok_or_else(|| {
            at(
                1,
                "`listen` is missing: the address and UDP port of the proxy".to_owned(),
            )
        })?;
        let listen = values::listen(listen).map_err(|what| at(*line, what))?;
        let cc = config
            .cc
            .as_ref()
            .map(|(laws, line)| values::algorithms(laws).map_err(|what| at(*line, what)));
        Ok(Self {
            is_new: make && !config.tokens.exists(),
            users: users(Some(&config.tokens), make)?,
            cc: cc.transpose()?,
            listen,
            config,
        })
    }

    /// Loads the configuration from arguments or from the file that they name.
    pub(super) fn from_args(args: &Args, make: bool) -> Result<Self, Failure> {
        if let Some(path) = &args.config {
            return Self::of(path, make);
        }
        let listen = args.listen.clone();
        let why = "give --config FILE, or --listen ADDR with --token-file FILE";
        let listen = listen.ok_or_else(|| Failure::usage(anyhow!(why)))?;
        let policy = Policy {
            allow: args.allow.clone(),
            deny: Vec::new(),
        };
        let tokens = args.token_file.clone().unwrap_or_default();
        let mut config = Config::new(tokens, policy);
        config.access_log.clone_from(&args.access_log);
        Ok(Self {
            is_new: make && args.token_file.as_ref().is_some_and(|file| !file.exists()),
            config,
            users: users(args.token_file.as_deref(), make)?,
            cc: None,
            listen,
        })
    }

    pub(super) fn access(&self) -> Access {
        self.config.access(&self.users)
    }

    /// Returns the configured certificate, or one that is kept next to the tokens, or else a
    /// temporary one. With `asks`, clients are asked for certificates.
    pub(super) fn identity(&self, asks: bool) -> Result<Identity, Failure> {
        let tokens = &self.config.tokens;
        let identity = match &self.config.certificate {
            Some((cert, key)) => {
                Identity::from_files(cert, key, &[ALPN]).map_err(Failure::usage)?
            }
            None if tokens.as_os_str().is_empty() => Identity::new(&[ALPN])?,
            None => Identity::kept(tokens, &[ALPN])?,
        };
        if asks {
            Ok(identity.asking_clients()?)
        } else {
            Ok(identity)
        }
    }
}

/// A request in the access log.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// When it ended, in seconds since 1970-01-01 UTC.
    time: f64,
    user: Option<&'a str>,
    client: SocketAddr,
    kind: Option<Kind>,
    target: Option<&'a str>,
    status: u16,
    bytes_up: u64,
    bytes_down: u64,
    seconds: f64,
    error: Option<&'a str>,
}

/// Writes the proxy's requests to the access log, if there is one.
pub(super) fn log(proxy: &Proxy, config: &Config) -> Result<Option<AccessLog>, Failure> {
    let log = config.access_log.as_deref().map(AccessLog::open);
    let log = log.transpose().map_err(Failure::usage)?;
    if let Some(log) = log.clone() {
        proxy.record(move |record| {
            let (kind, target) = record
                .flow
                .as_ref()
                .map(|(kind, to)| (*kind, to.as_str()))
                .unzip();
            log.log(&Line {
                time: session::unix_time().as_secs_f64(),
                user: record.user.as_deref(),
                client: record.client,
                kind,
                target,
                status: record.status,
                bytes_up: record.bytes_up,
                bytes_down: record.bytes_down,
                seconds: record.took.as_secs_f64(),
                error: record.error.as_deref(),
            });
        });
    }
    Ok(log)
}

/// Returns true if clients should be asked for certificates.
pub(super) fn have_certificates(users: &[(String, Credential)]) -> bool {
    let mut credentials = users.iter().map(|(_, credential)| credential);
    credentials.any(|credential| matches!(credential, Credential::Certificate(_)))
}

/// Returns the users in a file or in the environment.
pub(super) fn users(path: Option<&Path>, make: bool) -> Result<Vec<(String, Credential)>, Failure> {
    let Some(path) = path else {
        let text = std::env::var(TOKENS).map_err(|_| {
            Failure::usage(anyhow!(
                "clients need a token: give --token-file FILE, or set {TOKENS}"
            ))
        })?;
        return config::users(TOKENS, &text).map_err(Failure::usage);
    };
    let text = if make {
        read_or_make(path, || Ok(format!("default {}\n", random()?).into_bytes()))
    } else {
        read(path)
    };
    let text = text
        .with_context(|| format!("cannot use the tokens {}", path.display()))
        .map_err(Failure::usage)?;
    let text = String::from_utf8_lossy(&text);
    config::users(&path.display().to_string(), &text).map_err(Failure::usage)
}

/// Creates a token of 128 random bits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let filled = provider.secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(values::hex(&bytes))
}

pub(super) fn uris(
    config: &Config,
    users: &[(String, Credential)],
    listening: SocketAddr,
    pin: Option<Pin>,
) -> Result<Vec<NamedUri>, Failure> {
    let host = match &config.name {
        Some(name) => name.clone(),
        None => reachable(listening.ip()).to_string(),
    };
    let server = Target::new(&host, listening.port())
        .with_context(|| format!("`{host}` is no name of a host"))
        .map_err(Failure::usage)?;
    let uris = users.iter().map(|(name, credential)| NamedUri {
        name: name.clone(),
        uri: ProxyUri {
            token: match credential {
                Credential::Token(token) => Some(token.clone()),
                Credential::Certificate(_) => None,
            },
            server: server.clone(),
            pin,
        }
        .to_string(),
    });
    Ok(uris.collect())
}

/// Writes the URI of the first user next to its new token, as `tunnel --uri-file` reads it.
pub(super) fn hand_out(tokens: &Path, uris: &[NamedUri]) -> Outcome {
    let (path, uri) = (tokens.with_file_name("proxy.uri"), uris.first());
    let uri = uri
        .map(|named| format!("{}\n", named.uri))
        .unwrap_or_default();
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&path);
    let written = opened.and_then(|mut file| file.write_all(uri.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    output::note!(
        "{} has the URI that clients need: pathmark tunnel --uri-file",
        path.display()
    );
    Ok(())
}

/// Returns the address for clients. If the proxy listens on all addresses, this is the address of
/// the default route, if there is one. No packet is sent to the documentation address.
fn reachable(address: IpAddr) -> IpAddr {
    if !address.is_unspecified() {
        return address;
    }
    let route = |own: &str, to: &str| {
        let socket = UdpSocket::bind((own, 0))?;
        socket.connect((to, 9))?;
        socket.local_addr()
    };
    let found = route("0.0.0.0", "192.0.2.1").or_else(|_| route("::", "2001:db8::1"));
    found.map_or(address, |found| found.ip())
}

/// A proxy that uses another server's connections.
pub(in super::super) struct Joined {
    path: PathBuf,
    config: Config,
    users: Vec<(String, Credential)>,
    certificates: Cell<bool>,
    log: Option<AccessLog>,
    pub(in super::super) proxy: Proxy,
}

impl Joined {
    /// Loads the proxy from a configuration, which must not have keys that are arguments of the
    /// server.
    pub(in super::super) fn load(path: &Path) -> Result<Self, Failure> {
        let (config, users) = configured(path, true)?;
        let proxy = Proxy::new(config.access(&users), config.times);
        Ok(Self {
            path: path.to_owned(),
            log: log(&proxy, &config)?,
            proxy,
            config,
            certificates: Cell::new(have_certificates(&users)),
            users,
        })
    }

    /// Returns true if any user currently has a certificate.
    pub(in super::super) const fn has_certificates(&self) -> bool {
        self.certificates.get()
    }

    /// Configures the server's connections to carry flows.
    pub(in super::super) fn carry_flows(transport: &mut TransportConfig) {
        carry_flows(transport);
    }

    /// Waits until the access log is written.
    pub(in super::super) fn settle(&self) {
        if let Some(log) = &self.log {
            log.settle();
        }
    }

    /// Reloads the configuration.
    pub(in super::super) fn reload(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
        match configured(&self.path, false) {
            Ok((config, users)) => {
                self.certificates.set(have_certificates(&users));
                // The server asks new connections for certificates from now on.
                change(&self.proxy, &config, &users, true);
            }
            Err(failure) => keep(&failure),
        }
    }

    /// Prints each user's URI on a terminal.
    pub(in super::super) fn announce(&self, listening: SocketAddr, pin: Option<&str>) -> Outcome {
        if !io::stdout().is_terminal() {
            return Ok(());
        }
        let pin = pin.and_then(|pin| pin.parse().ok());
        print(&uris(&self.config, &self.users, listening, pin)?)
    }

    /// Binds the status socket and the metrics port.
    pub(in super::super) fn control(&self) -> Result<Control, Failure> {
        Control::bind(self.config.control.as_deref(), self.config.metrics)
    }

    /// Serves the status socket indefinitely.
    pub(in super::super) fn status(
        &self,
        control: Control,
        listening: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<> {
        control.serve(ProxyStatus::new(listening, self.proxy.clone()))
    }
}

fn configured(path: &Path, make: bool) -> Result<(Config, Vec<(String, Credential)>), Failure> {
    let config = Config::load(path).map_err(Failure::usage)?;
    for (key, is_given) in [
        ("listen", config.listen.is_some()),
        ("cert` and `key", config.certificate.is_some()),
        ("cc", config.cc.is_some()),
    ] {
        if is_given {
            return Err(Failure::usage(anyhow!(
                "{}: remove `{key}`: an argument of `pathmark serve` is in its place",
                path.display()
            )));
        }
    }
    let users = users(Some(&config.tokens), make)?;
    Ok((config, users))
}
