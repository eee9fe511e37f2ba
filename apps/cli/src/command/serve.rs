//! `pathmark serve`: serves a directory to clients over HTTP/3, and over HTTP/2 on TCP.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context;
use pathmark::Endpoint;
use pathmark_cc::Algorithm;
use pathmark_http3::origin::{Limits, Origin};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::Root;
use pathmark_http3::wire::{ALPN, ALPN_TCP, LinkError, TcpServer};

use super::clients::Clients;
use super::operator::AccessLog;
use super::operator::{House, Laws, Operator};
use super::proxy::loaded::Joined;
use super::routers::{AnswerArgs, MeasureArgs};
use super::session::{self, DscpArgs, Stop};
use super::trust::CertificateArgs;
use super::values::{self, Algorithms, Listen};
use super::{Failure, Outcome, accept};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address and port to listen on, of UDP and TCP; :PORT means all addresses
    #[arg(long, value_name = "ADDR", value_parser = values::listen)]
    listen: Listen,
    /// Directory to read from, and to store in with --allow-put; nothing outside it is touched but
    /// the server's key, .pathmark-NAME.key next to it
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Let clients store files, and replace files with put --force
    #[arg(long, conflicts_with = "clients")]
    allow_put: bool,
    /// Serve only the clients listed in this TOML file, each with its rights (docs/clients.md has
    /// the format). SIGHUP reloads it, --cert and --key
    #[arg(long, value_name = "FILE")]
    clients: Option<PathBuf>,
    /// Carry TCP and UDP of applications at the same port, as `pathmark proxy` does with this TOML
    /// file, which must not set listen, cert, key or cc. SIGHUP reloads it
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// Append a line of JSON for each request to this file; - is the standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Congestion controllers that clients may choose from; the first is the default
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_parser = values::algorithms,
        default_value = Algorithm::DEFAULT
    )]
    cc: Algorithms,
    #[command(flatten)]
    tcp: accept::TcpArgs,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    marking: DscpArgs,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    pub(super) json: bool,
}

/// Returns true if SIGHUP reloads files instead of ending the server.
pub(super) fn reloads(args: &Args) -> bool {
    args.clients.is_some()
        || args.access_log.is_some()
        || args.certificate.is_given()
        || args.proxy.is_some()
}

pub(super) async fn serve(args: Args, stop: Stop) -> Outcome {
    let hangups = reloads(&args).then(session::Hangups::new);
    let root = Root::open(&args.dir)
        .with_context(|| format!("cannot offer {}", args.dir.display()))
        .map_err(Failure::usage)?;
    let laws = args.cc.0;
    let mut transport = pathmark::transport_config_of(&laws);
    super::qlog::log(&mut transport);
    transport.dscp = args.marking.dscp;
    let joined = args.proxy.as_deref().map(Joined::load).transpose()?;
    if joined.is_some() {
        Joined::carry_flows(&mut transport);
    }
    let own = args.listen.ip();
    let _edge = args.measure.serve(own, &args.answer, &mut transport)?;
    let read_clients = || {
        let path = args.clients.as_deref();
        path.map(|path| Clients::read(path, &args.dir)).transpose()
    };
    let clients = read_clients().map_err(Failure::usage)?;
    let pins = Cell::new(clients.as_ref().is_some_and(Clients::have_pins));
    // Clients are only asked for certificates if any client needs one.
    let asked = || pins.get() || joined.as_ref().is_some_and(Joined::has_certificates);
    let asks = Cell::new(asked());
    let clients = clients.map(|clients| Arc::new(RwLock::new(Arc::new(clients))));
    let log = args.access_log.as_deref().map(AccessLog::open);
    let log = log.transpose().map_err(Failure::usage)?;
    let own = args.certificate.identity(Some(&args.dir), &[ALPN])?;
    let identity = || {
        if args.certificate.is_given() {
            args.certificate.identity(None, &[ALPN])
        } else {
            Ok(own.again(&[ALPN])?)
        }
    };
    let transport = Arc::new(transport);
    let config = || {
        let identity = if asks.get() {
            identity()?.asking_clients()?
        } else {
            identity()?
        };
        let over_tcp = identity.tls.over_tcp(&[ALPN_TCP]);
        let (config, pin) = session::server_config(identity, Arc::clone(&transport), false);
        Ok::<_, Failure>((config, pin, over_tcp))
    };
    let control = joined.as_ref().map(Joined::control).transpose()?;
    let (config_now, pin, over_tcp) = config()?;
    let also = |address| args.tcp.listen(address, over_tcp);
    let listening = session::listen(&args.listen, &config_now, pin.clone(), args.json, also);
    let (endpoint, tcp) = listening?;
    let mut status = None;
    if let (Some(joined), Some(control)) = (&joined, control) {
        endpoint.set_unread_memory(pathmark_proxy::UNREAD);
        let listening = endpoint.local_address();
        if !args.json {
            joined.announce(listening, pin.as_deref())?;
        }
        status = Some(tokio::spawn(joined.status(control, listening)));
    }
    let put = if args.allow_put {
        PutRights::Replace
    } else {
        PutRights::None
    };
    let rules = Rules {
        put,
        ..Rules::default()
    };
    let origin = Origin::new(root, rules, Limits::default());
    let house = House {
        laws: Laws::new(laws),
        clients,
        log,
        proxy: joined.as_ref().map(|joined| joined.proxy.clone()),
    };
    let accepting = serve_files(&endpoint, tcp.as_ref(), origin, house.clone());
    let reload = || {
        if let Some(log) = &house.log {
            log.reopen();
        }
        if let Some(joined) = &joined {
            joined.reload();
        }
        let mut is_new = args.certificate.is_given();
        match read_clients() {
            Ok(Some(read)) => {
                pins.set(read.have_pins());
                if let Some(clients) = &house.clients {
                    let mut clients = clients.write().unwrap_or_else(PoisonError::into_inner);
                    *clients = Arc::new(read.after(&clients));
                }
                tracing::info!("clients are read again");
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = format!("{error:#}"), "clients stay as they are"),
        }
        is_new |= asks.replace(asked()) != asks.get();
        if !is_new {
            return;
        }
        let set = config().map(|(config, _, over_tcp)| {
            if let Some(tcp) = &tcp {
                tcp.set_config(over_tcp);
            }
            endpoint.set_server_config(config)
        });
        match set {
            Ok(Ok(())) if args.certificate.is_given() => {
                tracing::info!("certificate and key are read again");
            }
            Ok(Ok(())) => tracing::info!(
                asked = asks.get(),
                "whether new connections are asked for certificates has changed"
            ),
            Ok(Err(error)) => tracing::error!(%error, "certificate and key stay as they are"),
            Err(error) => tracing::error!(?error, "certificate and key stay as they are"),
        }
    };
    match hangups {
        Some(hangups) => {
            session::serve_reloading(&endpoint, session::HTTP3, accepting, &stop, hangups, reload)
                .await;
        }
        None => session::serve(&endpoint, session::HTTP3, accepting, &stop).await,
    }
    if let Some(log) = &house.log {
        log.settle();
    }
    if let Some(joined) = &joined {
        joined.settle();
    }
    if let Some(status) = status {
        // Wait so that the socket is removed.
        status.abort();
        let _ = status.await;
    }
    Ok(())
}

/// Accepts connections until the endpoint closes, and returns when work for them has ended. By
/// then, clients' unfinished files have been removed.
async fn serve_files(endpoint: &Endpoint, tcp: Option<&TcpServer>, origin: Origin, house: House) {
    let (tended, kept) = (origin.clone(), house.clone());
    let grant_of = move |owner: &str| kept.grant(owner);
    let tending = tokio::spawn(async move { tended.tend(grant_of).await });
    let ended = |ended: Result<(), LinkError>| {
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    };
    let (files, operated) = (origin.clone(), house.clone());
    let accepting = accept::accept(endpoint, tcp, session::HTTP3, move |connection| {
        let (origin, house) = (files.clone(), operated.clone());
        async move {
            let operator = Operator::new(connection.clone(), house);
            ended(origin.serve_with(connection, Arc::new(operator)).await);
        }
    });
    let accepting_tcp = accept::accept_tcp(tcp, move |connection| {
        let (origin, house) = (origin.clone(), house.clone());
        async move {
            let operator = Operator::over_tcp(&connection, house);
            ended(origin.serve_tcp(connection, Arc::new(operator)).await);
        }
    });
    tokio::join!(accepting, accepting_tcp);
    tending.abort();
}
