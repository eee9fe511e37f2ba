//! `pathmark proxy`: carries TCP and UDP for authenticated clients.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pathmark::{Endpoint, TransportConfig};
use pathmark_proxy::UNREAD;
use pathmark_proxy::server::Proxy;
use pathmark_proxy::server::config::{self, Config, Credential};
use pathmark_transport::crypto::tls::Pin;
use serde::Serialize;

use super::control::{Control, ShowArgs};
use super::routers::{AnswerArgs, MeasureArgs};
use super::session::{self, DscpArgs, Stop};
use super::values::{self, Algorithms, Listen};
use super::{Failure, Outcome, accept, output};
use loaded::{Loaded, NamedUri, hand_out, have_certificates, uris};
use status::ProxyStatus;
pub(super) use status::table;

pub(super) mod loaded;
mod status;

/// Idle time after which the proxy sends a packet, because flows may be idle for longer than the
/// idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    /// TOML file with the configuration; SIGHUP reloads it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and UDP port to listen on; :PORT means all addresses
    #[arg(long, value_name = "ADDR", value_parser = values::listen, conflicts_with = "config")]
    listen: Option<Listen>,
    /// File with a name and a token (or sha256: and a certificate's pin) on each line. If it does
    /// not exist, it is created with one token. The server's key is next to it. By default,
    /// $PATHMARK_PROXY_TOKENS contains the lines
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    token_file: Option<PathBuf>,
    /// Let clients reach these addresses of the host and its networks, such as 10.0.0.0/8
    #[arg(long, value_name = "CIDR", value_parser = prefix, conflicts_with = "config")]
    allow: Vec<ipnet::IpNet>,
    /// Append a line of JSON for each request to this file; - is the standard output. SIGHUP opens
    /// it again
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    access_log: Option<PathBuf>,
    /// Print the URI of each user even if stdout is a pipe or a file; each contains a token
    #[arg(long)]
    show_uri: bool,
    /// Congestion controllers that clients may choose from; `cc` in the configuration overrides it
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
    /// Check a configuration and its tokens without starting the proxy
    Check {
        /// TOML file with the configuration
        file: PathBuf,
    },
    /// Print the URI of each user, which contains the user's token
    Uris {
        /// TOML file with the configuration
        file: PathBuf,
        /// Print only the URI of this user, as `pathmark tunnel --uri-file` reads it
        user: Option<String>,
    },
    /// Print the state of a running proxy: its clients, their flows and what limits them
    Show(ShowArgs),
}

/// The JSON object that the proxy prints once it accepts connections.
#[derive(Debug, Serialize)]
struct Listening {
    listening: SocketAddr,
    pin: Option<String>,
    /// The URIs in the order of the tokens, with `--show-uri`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uris: Vec<NamedUri>,
}

/// Prints URIs for people.
fn print(uris: &[NamedUri]) -> Outcome {
    for NamedUri { name, uri } in uris {
        output::line(format_args!("for {name}: {uri}"))?;
    }
    Ok(())
}

fn prefix(text: &str) -> Result<ipnet::IpNet, String> {
    config::prefix(text).ok_or_else(|| format!("`{text}` is no prefix such as 10.0.0.0/8"))
}

pub(super) fn proxy(args: Args) -> Outcome {
    match &args.command {
        Some(Subcommand::Check { file }) => {
            let loaded = Loaded::of(file, false)?;
            let users = loaded.users.len();
            if loaded.config.certificate.is_some() {
                loaded.identity(false)?;
            }
            output::line(format_args!("{}: correct, {users} users", file.display()))?;
            Ok(())
        }
        Some(Subcommand::Uris { file, user }) => {
            let loaded = Loaded::of(file, false).map_err(|failure| match failure {
                Failure::Usage(error) => Failure::Usage(error.context(
                    "cannot read the configuration (with a file of tokens alone, run pathmark \
                     proxy --token-file FILE --show-uri)",
                )),
                other => other,
            })?;
            let listening = loaded.listen.bind(Ok)?;
            let pin = loaded.identity(false)?.tls.pin();
            let uris = uris(&loaded.config, &loaded.users, listening, pin)?;
            let Some(user) = user else {
                return print(&uris);
            };
            let found = uris.iter().find(|named| named.name == *user);
            let found = found.ok_or_else(|| {
                Failure::usage(anyhow::anyhow!(
                    "{} has no user {user}",
                    loaded.config.tokens.display()
                ))
            })?;
            Ok(output::line(format_args!("{}", found.uri))?)
        }
        Some(Subcommand::Show(args)) => {
            let configured = args.config.as_deref().map(Config::load).transpose();
            let configured = configured.map_err(Failure::usage)?;
            args.show(configured.and_then(|config| config.control), table)
        }
        None => session::run_reloading(|stop| serve(args, stop)),
    }
}

/// Configures a server's connections to carry proxied flows.
fn carry_flows(transport: &mut TransportConfig) {
    transport.keep_alive = Some(KEEP_ALIVE);
}

/// Changes the users who have access. `asks` is true if clients have been asked for certificates
/// from the beginning.
fn change(proxy: &Proxy, config: &Config, users: &[(String, Credential)], asks: bool) {
    if have_certificates(users) && !asks {
        tracing::warn!(
            "start the proxy again: it asks clients for certificates only if a user of its first \
             list has one"
        );
    }
    proxy.change(config.access(users));
    tracing::info!(users = users.len(), "the configuration was read again");
}

/// Logs that the configuration could not be reloaded.
fn keep(failure: &Failure) {
    if let Failure::Usage(error) | Failure::Failed(error) = failure {
        let error = output::explain(error);
        tracing::error!(error, "the configuration stays as it was");
    }
}

async fn serve(args: Args, stop: Stop) -> Outcome {
    let loaded = Loaded::from_args(&args, true)?;
    let laws = loaded.cc.clone().unwrap_or(args.cc.clone()).0;
    let mut transport = pathmark::transport_config_of(&laws);
    super::qlog::log(&mut transport);
    transport.dscp = args.marking.dscp;
    carry_flows(&mut transport);
    let _edge = args
        .measure
        .serve(loaded.listen.ip(), &args.answer, &mut transport)?;
    let asks = have_certificates(&loaded.users);
    let identity = loaded.identity(asks)?;
    let pin = identity.tls.pin();
    let (config, _) = session::server_config(identity, Arc::new(transport), false);
    let bind = |address| Endpoint::server(config.clone(), address);
    let endpoint = loaded.listen.bind(bind)?;
    endpoint.set_unread_memory(UNREAD);
    let control = Control::bind(loaded.config.control.as_deref(), loaded.config.metrics)?;
    let hangups = session::Hangups::new();
    let listening = endpoint.local_address();
    if loaded.is_new {
        let uris = uris(&loaded.config, &loaded.users, listening, pin)?;
        if let Err(Failure::Failed(error)) = hand_out(&loaded.config.tokens, &uris) {
            tracing::warn!(error = output::explain(&error));
        }
    }
    announce(&args, &loaded, listening, pin)?;
    let proxy = Proxy::new(loaded.access(), loaded.config.times);
    let log = loaded::log(&proxy, &loaded.config)?;
    let status = ProxyStatus::new(endpoint.local_address(), proxy.clone());
    let serving = tokio::spawn(control.serve(status));
    let accepting = serve_flows(&endpoint, &proxy);
    session::serve_reloading(&endpoint, session::HTTP3, accepting, &stop, hangups, || {
        if let Some(log) = &log {
            log.reopen();
        }
        match Loaded::from_args(&args, false) {
            Ok(loaded) => change(&proxy, &loaded.config, &loaded.users, asks),
            Err(failure) => keep(&failure),
        }
    })
    .await;
    if let Some(log) = &log {
        log.settle();
    }
    // Wait so that the socket is removed.
    serving.abort();
    let _ = serving.await;
    tracing::info!(counts = ?proxy.counts(), "stopped");
    Ok(())
}

/// Prints the proxy's address. Tokens are only printed on a terminal, unless the user requests
/// otherwise.
fn announce(
    args: &Args,
    loaded: &Loaded,
    listening: SocketAddr,
    pin: Option<Pin>,
) -> Result<(), Failure> {
    let uris = if args.show_uri || (!args.json && io::stdout().is_terminal()) {
        uris(&loaded.config, &loaded.users, listening, pin)?
    } else {
        Vec::new()
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
    if said.uris.is_empty() && !loaded.is_new {
        output::note!("the URIs that clients need have tokens: --show-uri prints them here, too");
    }
    print(&said.uris)
}

/// Accepts connections until the endpoint closes, and returns when their flows have ended.
async fn serve_flows(endpoint: &Endpoint, proxy: &Proxy) {
    let proxy = proxy.clone();
    accept::accept(endpoint, None, session::HTTP3, move |connection| {
        let proxy = proxy.clone();
        async move {
            let client = connection.remote_address();
            tracing::debug!(%client, "connected");
            if let Err(error) = proxy.serve(connection).await {
                tracing::debug!(%client, %error, "connection ended");
            }
        }
    })
    .await;
}
