//! `pathmark proxy`: TCP and UDP of clients with a token, to their targets.

use std::io::{self, IsTerminal};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use pathmark::Endpoint;
use pathmark_http3::wire::ALPN;
use pathmark_proxy::policy::Policy;
use pathmark_proxy::server::config::{self, Config};
use pathmark_proxy::server::{Access, Proxy};
use pathmark_proxy::target::Target;
use pathmark_proxy::token::Token;
use pathmark_proxy::uri::ProxyUri;
use pathmark_transport::crypto::tls::Pin;
use serde::Serialize;
use tokio::task::JoinSet;

use super::control::{Control, ShowArgs};
use super::identity::{Identity, read, read_or_make};
use super::routers::{AnswerArgs, MeasureArgs};
use super::session::{self, DscpArgs};
use super::values::{self, Algorithms, Listen};
use super::{Failure, Outcome, output};
use status::ProxyStatus;

mod status;

/// Lines of a name and a token each, where there is no file.
const TOKENS: &str = "PATHMARK_PROXY_TOKENS";
/// Silence after which the proxy sends a packet: flows may be silent for longer than a connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Memory of datagrams that wait for the congestion window: less than a second on slow paths.
const WAITING_DATAGRAMS: usize = 128 * 1024;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    /// TOML file with the configuration; SIGHUP has it read again
    #[arg(long, value_name = "FILE", required_unless_present = "listen")]
    config: Option<PathBuf>,
    /// Address and UDP port to listen on; :PORT means all addresses
    #[arg(long, value_name = "ADDR", value_parser = values::listen, conflicts_with = "config")]
    listen: Option<Listen>,
    /// File with a name and a token in each line; made with a token if there is none. The key is
    /// next to it. Without a file, $PATHMARK_PROXY_TOKENS has the lines
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    token_file: Option<PathBuf>,
    /// Let clients reach these addresses of the host and its networks, such as 10.0.0.0/8
    #[arg(long, value_name = "CIDR", value_parser = prefix, conflicts_with = "config")]
    allow: Vec<ipnet::IpNet>,
    /// Print the URI of each user, which has the token, to a pipe or file too
    #[arg(long)]
    show_uri: bool,
    /// Congestion controllers of `config`, or else these
    #[arg(long, value_name = "NAME", value_parser = values::algorithms, default_value = "auto")]
    cc: Algorithms,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    marking: DscpArgs,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    pub(super) json: bool,
    #[command(subcommand)]
    command: Option<Subcommand>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Check a configuration and its tokens, and do nothing
    Check {
        /// TOML file with the configuration
        file: PathBuf,
    },
    /// Print the URI of each user, which has the token
    Uris {
        /// TOML file with the configuration
        file: PathBuf,
    },
    /// Print the state of a running proxy: its clients, their flows and what limits them
    Show(ShowArgs),
}

/// The object that the proxy prints once it accepts connections.
#[derive(Debug, Serialize)]
struct Listening {
    listening: SocketAddr,
    pin: Option<String>,
    /// In the order of the tokens; with `--show-uri`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uris: Vec<NamedUri>,
}

#[derive(Debug, Serialize)]
struct NamedUri {
    name: String,
    uri: String,
}

fn prefix(text: &str) -> Result<ipnet::IpNet, String> {
    config::prefix(text).ok_or_else(|| format!("`{text}` is no prefix such as 10.0.0.0/8"))
}

pub(super) fn proxy(args: Args) -> Outcome {
    match &args.command {
        Some(Subcommand::Check { file }) => {
            let loaded = Loaded::of(file, false)?;
            let users = loaded.users.len();
            output::line(format_args!("{}: correct, {users} users", file.display()))?;
            Ok(())
        }
        Some(Subcommand::Uris { file }) => {
            let loaded = Loaded::of(file, false)?;
            let listening = loaded.listen.bind(Ok)?;
            let pin = loaded.identity()?.tls.pin();
            for NamedUri { name, uri } in uris(&loaded, listening, pin)? {
                output::line(format_args!("for {name}: {uri}"))?;
            }
            Ok(())
        }
        Some(Subcommand::Show(args)) => {
            let configured = args.config.as_deref().map(Config::load).transpose();
            let configured = configured.map_err(Failure::usage)?;
            args.show(configured.and_then(|config| config.control), status::table)
        }
        None => session::run_server(serve(args)),
    }
}

/// A configuration with its users.
struct Loaded {
    config: Config,
    users: Vec<(String, Token)>,
    listen: Listen,
    cc: Option<Algorithms>,
}

impl Loaded {
    /// The configuration in a file. With `make`, a file of tokens is created where there is none.
    fn of(path: &Path, make: bool) -> Result<Self, Failure> {
        let config = Config::load(path).map_err(Failure::usage)?;
        let at = |line: usize, what: String| {
            Failure::usage(anyhow!("{}:{line}: {what}", path.display()))
        };
        let (listen, line) = &config.listen;
        let listen = values::listen(listen).map_err(|what| at(*line, what))?;
        let cc = config
            .cc
            .as_ref()
            .map(|(laws, line)| values::algorithms(laws).map_err(|what| at(*line, what)));
        Ok(Self {
            users: users(Some(&config.tokens), make)?,
            cc: cc.transpose()?,
            listen,
            config,
        })
    }

    /// That of arguments or of the file that they name.
    fn from_args(args: &Args, make: bool) -> Result<Self, Failure> {
        if let Some(path) = &args.config {
            return Self::of(path, make);
        }
        let listen = args.listen.clone();
        let listen = listen.ok_or_else(|| Failure::usage(anyhow!("give --listen or --config")))?;
        let policy = Policy {
            allow: args.allow.clone(),
            deny: Vec::new(),
        };
        let tokens = args.token_file.clone().unwrap_or_default();
        Ok(Self {
            config: Config::new(String::new(), tokens, policy),
            users: users(args.token_file.as_deref(), make)?,
            cc: None,
            listen,
        })
    }

    fn access(&self) -> Access {
        self.config.access(&self.users)
    }

    /// The certificate that is configured; or else one that is kept next to the tokens, or of this
    /// run.
    fn identity(&self) -> Result<Identity, Failure> {
        let tokens = &self.config.tokens;
        match &self.config.certificate {
            Some((cert, key)) => {
                let read = |path: &PathBuf| {
                    std::fs::read(path)
                        .with_context(|| format!("cannot read {}", path.display()))
                        .map_err(Failure::usage)
                };
                Identity::from_pem(&read(cert)?, &read(key)?, ALPN).map_err(Failure::usage)
            }
            None if tokens.as_os_str().is_empty() => Ok(Identity::new(ALPN)?),
            None => Identity::kept(tokens, ALPN),
        }
    }
}

/// The users of a file, or of the environment.
fn users(path: Option<&Path>, make: bool) -> Result<Vec<(String, Token)>, Failure> {
    let Some(path) = path else {
        let text = std::env::var(TOKENS).map_err(|_| {
            Failure::usage(anyhow!(
                "clients need a token: give --token-file FILE, or set {TOKENS}"
            ))
        })?;
        return config::users(TOKENS, &text).map_err(Failure::usage);
    };
    let text = match make {
        true => read_or_make(path, || Ok(format!("default {}\n", random()?).into_bytes())),
        false => read(path),
    };
    let text = text
        .with_context(|| format!("cannot use the tokens {}", path.display()))
        .map_err(Failure::usage)?;
    let text = String::from_utf8_lossy(&text);
    config::users(&path.display().to_string(), &text).map_err(Failure::usage)
}

/// A token of 128 random bits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let filled = provider.secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(values::hex(&bytes))
}

async fn serve(args: Args) -> Outcome {
    let loaded = Loaded::from_args(&args, true)?;
    let laws = loaded.cc.clone().unwrap_or(args.cc.clone()).0;
    let mut transport = pathmark::transport_config_of(&laws);
    transport.dscp = args.marking.dscp;
    transport.keep_alive = Some(KEEP_ALIVE);
    transport.datagrams.send_bytes = WAITING_DATAGRAMS;
    let _edge = args
        .measure
        .serve(loaded.listen.ip(), &args.answer, &mut transport)?;
    let identity = loaded.identity()?;
    let pin = identity.tls.pin();
    let (config, _) = session::server_config(identity, Arc::new(transport), false);
    let bind = |address| Endpoint::server(config.clone(), address);
    let endpoint = loaded.listen.bind(bind)?;
    let control = Control::bind(loaded.config.control.as_deref(), loaded.config.metrics)?;
    let hangups = session::Hangups::new();
    announce(&args, &loaded, endpoint.local_address(), pin)?;
    let proxy = Proxy::new(loaded.access(), loaded.config.times);
    let status = ProxyStatus::new(endpoint.local_address(), proxy.clone());
    let serving = tokio::spawn(control.serve(status));
    let accepting = accept(&endpoint, &proxy);
    session::serve_reloading(&endpoint, session::HTTP3, accepting, hangups, || {
        match Loaded::from_args(&args, false) {
            Ok(loaded) => {
                proxy.change(loaded.access());
                tracing::info!(
                    users = loaded.users.len(),
                    "the configuration was read again"
                );
            }
            Err(Failure::Usage(error) | Failure::Failed(error)) => {
                let error = output::explain(&error);
                tracing::error!(error, "the configuration stays as it was");
            }
            Err(Failure::Reported) => {}
        }
    })
    .await;
    // The socket is removed.
    serving.abort();
    let _ = serving.await;
    tracing::info!(counts = ?proxy.counts(), "stopped");
    Ok(())
}

/// Prints where the proxy is. A token goes to a terminal alone, unless the user asks for more.
fn announce(
    args: &Args,
    loaded: &Loaded,
    listening: SocketAddr,
    pin: Option<Pin>,
) -> Result<(), Failure> {
    let uris = match args.show_uri || (!args.json && io::stdout().is_terminal()) {
        true => uris(loaded, listening, pin)?,
        false => Vec::new(),
    };
    let said = Listening {
        listening,
        pin: pin.map(|pin| pin.to_string()),
        uris,
    };
    if args.json {
        return Ok(output::json(&said)?);
    }
    let pin = said.pin.as_deref().unwrap_or("by its authority");
    output::line(format_args!("listening on {listening}, pin {pin}"))?;
    for NamedUri { name, uri } in &said.uris {
        output::line(format_args!("for {name}: {uri}"))?;
    }
    Ok(())
}

/// The URI of each user.
fn uris(
    loaded: &Loaded,
    listening: SocketAddr,
    pin: Option<Pin>,
) -> Result<Vec<NamedUri>, Failure> {
    let host = match &loaded.config.name {
        Some(name) => name.clone(),
        None => reachable(listening.ip()).to_string(),
    };
    let server = Target::new(&host, listening.port())
        .with_context(|| format!("`{host}` is no name of a host"))
        .map_err(Failure::usage)?;
    let uris = loaded.users.iter().map(|(name, token)| NamedUri {
        name: name.clone(),
        uri: ProxyUri {
            token: token.clone(),
            server: server.clone(),
            pin,
        }
        .to_string(),
    });
    Ok(uris.collect())
}

/// The address that clients use: of all addresses that of the default route, as far as there is
/// one. No packet is sent to the address of documentation.
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

/// Accepts connections until the endpoint closes, and returns when their flows have ended.
async fn accept(endpoint: &Endpoint, proxy: &Proxy) {
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else {
            break;
        };
        let proxy = proxy.clone();
        connections.spawn(async move {
            let connection = match incoming.accept() {
                Ok(connecting) => connecting.await,
                Err(error) => return tracing::debug!(%error, "connection not accepted"),
            };
            match connection {
                Ok(connection) => {
                    let client = connection.remote_address();
                    tracing::debug!(%client, "connected");
                    if let Err(error) = proxy.serve(connection).await {
                        tracing::debug!(%client, %error, "connection ended");
                    }
                }
                Err(error) => tracing::debug!(%error, "handshake failed"),
            }
        });
    }
    while connections.join_next().await.is_some() {}
}
