//! `pathmark tunnel`: carries any application's flows through a proxy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pathmark::ClientConfig;
use pathmark_cc::Algorithm;
use pathmark_http3::wire::ALPN;
use pathmark_proxy::ingress::spec::{Bind, Forward};
use pathmark_proxy::ingress::{EARLY, Ingress, Limits};
use pathmark_proxy::outbound::Refusal;
use pathmark_proxy::tunnel::{Dialer, Switch, Tunnel, TunnelTimes};
use pathmark_proxy::uri::ProxyUri;
use pathmark_transport::crypto::tls::{self, TlsClientConfig, Trust};

use super::control::{Control, ShowArgs};
use super::identity::is_open_to_others;
use super::session::{self, DscpArgs, Stop};
use super::{Failure, Outcome, output, trust, values};
use config::{File, Listeners, Transparent};
pub(super) use status::table;

mod config;
mod live;
mod pipe;
mod rules;
mod status;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
The URI has the token of a user. A file or the environment hides it from other users of the machine;
arguments do not.

Examples:
  pathmark tunnel --uri-file proxy.uri -D 1080              a SOCKS5 server on loopback
  pathmark tunnel --uri-file proxy.uri -L 8080:intranet:80  a port of a machine at the far end
  pathmark tunnel --uri-file proxy.uri -L 53:192.0.2.53:53/udp
  ssh -o ProxyCommand='pathmark tunnel connect --uri-file proxy.uri %h %p' host")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The proxy: pathmark://TOKEN@HOST:PORT?pin=SHA256, as the proxy prints it; by default what
    /// PATHMARK_TUNNEL has
    #[arg(value_name = "URI")]
    uri: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

/// How a tunnel runs.
#[derive(Debug, clap::Args)]
struct RunArgs {
    #[command(flatten)]
    proxy: ProxyArgs,
    /// Take connections at a port to a target, as ssh does; /udp after it for datagrams
    #[arg(short = 'L', value_name = "[BIND:]PORT:HOST:HOSTPORT[/udp]")]
    forward: Vec<Forward>,
    /// Serve SOCKS5 clients, UDP included; on loopback unless BIND is given
    #[arg(short = 'D', value_name = "[BIND:]PORT")]
    socks: Vec<Bind>,
    /// Serve clients of HTTP CONNECT; on loopback unless BIND is given
    #[arg(long, value_name = "[BIND:]PORT")]
    http: Vec<Bind>,
    /// Take connections and datagrams that the rules of `pathmark tunnel rules` bring to this port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    tproxy: Option<u16>,
    /// End a UDP flow after this time without a datagram (default: 2m)
    #[arg(long, value_name = "DUR", value_parser = config::lasting)]
    udp_idle: Option<Duration>,
    /// Send the first bytes of -L and --tproxy connections before their target has answered
    #[arg(long)]
    fast_open: bool,
    /// Print one JSON object once the listeners accept
    #[arg(long)]
    json: bool,
}

/// Which proxy, and how it is reached.
#[derive(Debug, clap::Args)]
struct ProxyArgs {
    /// Read the URI of the proxy from this file
    #[arg(long, value_name = "FILE", conflicts_with = "uri")]
    uri_file: Option<PathBuf>,
    /// Read URI, listeners and limits from this TOML file, and again at SIGHUP; arguments add to
    /// them
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Congestion controller to send with (default: auto); what the proxy sends has that of the
    /// proxy
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    shown: trust::ShowArgs,
    #[command(flatten)]
    marking: DscpArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Join stdin and stdout with one connection: ssh's ProxyCommand
    Connect(pipe::Args),
    /// Check a configuration and report its mistakes
    Check {
        /// The TOML file
        file: PathBuf,
    },
    /// Print the state of a running tunnel: its connection, its flows and what limits them
    Show(ShowArgs),
    /// Install the firewall rules that send traffic of this machine and its subnets to --tproxy
    Rules(rules::Args),
}

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.run.json
    }

    /// Returns true if stdin and stdout carry a flow, so that the log should be short.
    pub(super) const fn is_pipe(&self) -> bool {
        matches!(self.command, Some(Command::Connect(_)))
    }

    /// Returns true if SIGHUP reloads a configuration.
    pub(super) const fn reloads(&self) -> bool {
        self.command.is_none() && self.run.proxy.config.is_some()
    }
}

pub(super) async fn tunnel(args: Args, stop: Stop) -> Outcome {
    match args.command {
        Some(Command::Connect(args)) => pipe::pipe(args, stop).await,
        Some(Command::Check { file }) => check(&file),
        Some(Command::Show(args)) => show(&args),
        Some(Command::Rules(args)) => rules::rules(args).await,
        None => run(args.uri.as_deref(), args.run, stop).await,
    }
}

fn check(path: &std::path::Path) -> Outcome {
    let shown = path.display();
    let checked = File::read(path).and_then(|file| {
        // Arguments or the tunnel's environment may also name the proxy.
        let proxy = uri_without_arguments(&file).transpose()?;
        file.listeners().check(proxy.as_ref())?;
        Ok(file)
    });
    let file = checked.map_err(Failure::usage)?;
    let certificate = trust::ShowArgs::default();
    let certificate = certificate.or(file.cert.as_ref(), file.key.as_ref());
    certificate.read()?;
    let listeners = file.listeners();
    let secret = file.uri_file.as_deref().or(file.uri.as_ref().map(|_| path));
    for warning in listeners.warnings().into_iter().chain(readable(secret)) {
        output::note!("warning: {warning}");
    }
    if listeners.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!(
            "{shown} has no listener: add forward, socks, http or tproxy"
        )));
    }
    Ok(output::line(format_args!("{shown}: no faults"))?)
}

fn show(args: &ShowArgs) -> Outcome {
    let file = args.config.as_deref().map(File::read).transpose();
    let file = file.map_err(Failure::usage)?.unwrap_or_default();
    args.show(file.control, table)
}

fn readable(path: Option<&std::path::Path>) -> Option<String> {
    let path = path.filter(|path| is_open_to_others(path))?;
    let shown = path.display();
    Some(format!(
        "all users can read the token in {shown}; chmod o-r {shown}"
    ))
}

/// Returns the URI from the configuration, or else from the environment.
fn uri_without_arguments(file: &File) -> Option<anyhow::Result<ProxyUri>> {
    let text = match file.uri_file {
        Some(_) => None,
        None => file.uri.clone().or(std::env::var("PATHMARK_TUNNEL").ok()),
    };
    let is_named = text.is_some() || file.uri_file.is_some();
    is_named.then(|| config::uri(text.as_deref(), file.uri_file.as_deref()))
}

impl ProxyArgs {
    fn file(&self) -> Result<File, Failure> {
        let read = self.config.as_deref().map(File::read);
        Ok(read
            .transpose()
            .map_err(Failure::usage)?
            .unwrap_or_default())
    }

    /// Returns the URI from the arguments, the configuration, or the environment.
    fn uri(&self, given: Option<&str>, file: &File) -> Result<ProxyUri, Failure> {
        let argument = || config::uri(given, self.uri_file.as_deref());
        let uri = if given.is_some() || self.uri_file.is_some() {
            argument()
        } else {
            // Its error explains how to name a proxy.
            uri_without_arguments(file).unwrap_or_else(argument)
        };
        uri.map_err(Failure::usage)
    }

    /// Returns the client certificate from the arguments or the configuration.
    fn shown(&self, file: &File) -> Result<Option<trust::Shown>, Failure> {
        let shown = self.shown.or(file.cert.as_ref(), file.key.as_ref());
        shown.read()
    }

    /// Returns how to reach the proxy.
    fn way(&self, given: Option<&str>, file: &File) -> Result<Way, Failure> {
        let cc = self.cc.as_ref().or(file.cc.as_ref());
        Ok(Way {
            uri: self.uri(given, file)?,
            shown: self.shown(file)?,
            cc: cc.cloned().unwrap_or_default(),
        })
    }

    /// Starts connecting.
    fn tunnel(&self, way: &Way) -> Result<Tunnel, Failure> {
        let Way { uri, shown, cc } = way;
        let trust = match uri.pin {
            Some(pin) => Trust::Pin(pin),
            None => Trust::platform().map_err(Failure::usage)?,
        };
        let mut tls = TlsClientConfig::new(trust, &[ALPN]).map_err(Failure::usage)?;
        if let Some(shown) = shown {
            let with = tls.with_certificate(&shown.chain, &shown.key);
            tls = with.map_err(Failure::usage)?;
        } else if uri.token.is_none() {
            return Err(Failure::usage(anyhow::anyhow!(
                "the URI has no token: show a certificate that the proxy knows (--client-cert, \
                 --own-cert)"
            )));
        }
        let mut transport = session::transport(cc, self.marking);
        transport.keep_alive = Some(session::KEEP_ALIVE);
        let config = ClientConfig::with_transport(Arc::new(tls), Arc::new(transport));
        let dialer = Dialer::new(uri.server.clone(), config);
        Ok(Tunnel::new(
            dialer,
            uri.token.as_ref(),
            TunnelTimes::default(),
        ))
    }
}

/// How to reach the proxy. A change needs another connection.
#[derive(PartialEq)]
struct Way {
    uri: ProxyUri,
    shown: Option<trust::Shown>,
    cc: Algorithm,
}

/// The configuration that a tunnel should currently have.
struct Wanted {
    way: Way,
    file: File,
    listeners: Listeners,
    limits: Limits,
    warnings: Vec<String>,
}

impl Wanted {
    /// Reads files and arguments.
    fn read(given: Option<&str>, args: &RunArgs) -> Result<Self, Failure> {
        let file = args.proxy.file()?;
        let way = args.proxy.way(given, &file)?;
        let mut listeners = file.listeners();
        let mut limits = file.limits();
        limits.udp_idle = args.udp_idle.unwrap_or(limits.udp_idle);
        if args.fast_open {
            limits.early = EARLY;
        }
        listeners.extend(Listeners {
            forward: args.forward.clone(),
            socks: args.socks.clone(),
            http: args.http.clone(),
            tproxy: args.tproxy.map(|port| Transparent {
                port,
                bypass: Vec::new(),
                from: Vec::new(),
            }),
        });
        if listeners.is_empty() {
            return Err(Failure::usage(anyhow::anyhow!(
                "nothing listens: add -L, -D, --http or --tproxy, or a configuration with them"
            )));
        }
        listeners.check(Some(&way.uri)).map_err(Failure::usage)?;
        let secret = args.proxy.uri_file.as_deref().or(file.uri_file.as_deref());
        let warnings = listeners
            .warnings()
            .into_iter()
            .chain(readable(secret.filter(|_| way.uri.token.is_some())));
        Ok(Self {
            way,
            limits,
            warnings: warnings.collect(),
            listeners,
            file,
        })
    }
}

/// Returns the pin if `--own-cert` is the only argument, in which case the command only creates
/// the certificate and prints the pin for the proxy's list of users.
fn only_pin(given: Option<&str>, args: &RunArgs) -> Result<Option<tls::Pin>, Failure> {
    let RunArgs {
        proxy,
        forward,
        socks,
        http,
        tproxy,
        ..
    } = args;
    let listens = !(forward.is_empty() && socks.is_empty() && http.is_empty());
    let named = given.is_some() || proxy.uri_file.is_some() || proxy.config.is_some();
    if named || listens || tproxy.is_some() {
        Ok(None)
    } else {
        proxy.shown.own_pin()
    }
}

/// Logs at the start that the proxy refuses this client, instead of at the first flow.
async fn report_refusal(tunnel: Tunnel) {
    if tunnel.is_refused().await {
        let refusal = Refusal::Unauthorized;
        tracing::error!(proxy = %tunnel.server(), "{refusal}: ask its operator to add one");
    }
}

async fn run(given: Option<&str>, args: RunArgs, stop: Stop) -> Outcome {
    if let Some(pin) = only_pin(given, &args)? {
        return Ok(output::line(format_args!("sha256:{pin}"))?);
    }
    let mut hangups = args.proxy.config.is_some().then(session::Hangups::new);
    let wanted = Wanted::read(given, &args)?;
    for warning in &wanted.warnings {
        output::note!("warning: {warning}");
    }
    let control = Control::bind(wanted.file.control.as_deref(), wanted.file.metrics)?;
    let mut way = wanted.way;
    let open = |way: &Way| {
        let tunnel = args.proxy.tunnel(way);
        tunnel.inspect(|tunnel| drop(tokio::spawn(report_refusal(tunnel.clone()))))
    };
    let switch = Switch::new(open(&way)?);
    let ingress = Ingress::new(switch.clone(), wanted.limits);
    let mut listeners = live::Live::new(ingress.clone());
    listeners.apply(&wanted.listeners).await?;
    let status = status::TunnelStatus::new(switch.clone(), ingress.clone(), &listeners);
    listeners.announce(args.json, control.metrics_address())?;
    let mut serving = tokio::spawn(control.serve(status));
    loop {
        let hangup = async {
            match &mut hangups {
                Some(hangups) => hangups.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.stopped() => break,
            () = hangup => {}
            ended = &mut serving => return Ok(ended.context("the status has ended")?),
            kind = listeners.ended() => {
                return Err(anyhow::anyhow!("the listener of {kind} has ended").into());
            }
        }
        let reloaded = async {
            let wanted = Wanted::read(given, &args)?;
            if wanted.way != way {
                switch.change(open(&wanted.way)?);
            }
            way = wanted.way;
            ingress.change(wanted.limits);
            listeners.apply(&wanted.listeners).await
        };
        match reloaded.await {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(Failure::Usage(error)) => {
                let error = output::explain(&error);
                tracing::error!(error, "the configuration stays as it was");
            }
            Err(Failure::Failed(error)) => {
                let error = output::explain(&error);
                tracing::error!(error, "not all of the configuration is in force");
            }
            Err(Failure::Reported) => {}
        }
    }
    // Wait so that the socket is removed.
    serving.abort();
    let _ = serving.await;
    // The proxy ends the flows.
    if let Ok(connection) = switch.now().connection() {
        session::leave(&connection, &stop, session::HTTP3).await;
    }
    Ok(())
}
