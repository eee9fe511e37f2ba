//! The runtime, endpoints and configurations that the commands share.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::stream::{FuturesUnordered, StreamExt};
use pathmark_cc::Algorithm;
use pathmark_transport::endpoint::RetryPolicy;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::identity::Identity;
use super::target::Target;
use super::trust::Judge;
use super::values::{self, Listen};
use super::{Failure, Outcome, output};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};

/// Silence after which a client sends a packet, so that the connection outlives what either side
/// does with its disk: a part is hashed, a whole file is synced and read back.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Time from an attempt to reach one address of a host to the next one (RFC 8305 section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Longest wait for clients after the server announced its end.
const FAREWELL: Duration = Duration::from_secs(2);

/// A client stays this long after it has closed its connection, and answers late packets …
const LINGER: Duration = Duration::from_millis(20);
/// … or until its CONNECTION_CLOSE has left, up to this long.
const LONGEST_LINGER: Duration = Duration::from_secs(1);

/// Time without an answer after which the user gets a message.
const SILENCE: Duration = Duration::from_secs(3);

/// Longest attempt to connect: as long as the transport's handshake may take.
const LONGEST_CONNECT: Duration = Duration::from_secs(30);

/// What a command learns of SIGINT (Ctrl-C) and SIGTERM.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// There was a signal.
    pub(super) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for a signal; ready at once if there was one.
    pub(super) async fn stopped(&self) {
        let mut signalled = self.0.clone();
        if signalled.wait_for(|signalled| *signalled).await.is_err() {
            // The runtime ends.
            std::future::pending::<()>().await;
        }
    }
}

/// Why a command ends before its work is done.
pub(super) fn interrupted() -> anyhow::Error {
    anyhow!("interrupted")
}

/// Runs a command, which ends soon after its [`Stop`] says so.
pub(super) fn run<F: Future<Output = Outcome>>(command: impl FnOnce(Stop) -> F) -> Outcome {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (tell, stop) = watch::channel(false);
        let signal = stopped();
        tokio::spawn(async move {
            signal.await;
            tell.send_replace(true);
            std::future::pending::<()>().await;
        });
        command(Stop(stop)).await
    });
    // A host name that is looked up, or a disk that syncs, holds up no command that has ended.
    runtime.shutdown_background();
    outcome
}

/// The same for a command that need not do anything more when it is stopped.
pub(super) fn run_to_stop(command: impl Future<Output = Outcome>) -> Outcome {
    run(|stop| async move {
        tokio::select! {
            outcome = command => outcome,
            () = stop.stopped() => Err(interrupted().into()),
        }
    })
}

/// Closes a connection of a client, and returns once CONNECTION_CLOSE has left. What the peer owes
/// has arrived by now, or is not wanted any more: nothing is waited for.
pub(super) async fn leave(connection: &Connection, stop: &Stop) {
    if connection.close_reason().is_some() {
        return;
    }
    if stop.is_stopped() {
        connection.close(1, b"interrupted");
    } else {
        connection.close(0, b"done");
    }
    let closed = now();
    let mut ticks = tokio::time::interval(LINGER);
    ticks.tick().await;
    while closed.elapsed() < LONGEST_LINGER {
        ticks.tick().await;
        if connection.has_sent_close() {
            return;
        }
    }
}

/// Runs the future of a command that serves, until [`stopped`]: it sees to that itself.
pub(super) fn run_server(command: impl Future<Output = Outcome>) -> Outcome {
    runtime()?.block_on(command)
}

fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Ready when SIGINT (Ctrl-C) or SIGTERM comes. Handlers of both are installed by the call, not by
/// the first poll: a command's own first poll may do much of its work.
fn stopped() -> impl Future<Output = ()> {
    let wait = |kind| {
        let signals = signal(kind);
        async move {
            match signals {
                Ok(mut signals) => drop(signals.recv().await),
                // Then it does what it does to any process.
                Err(_) => std::future::pending().await,
            }
        }
    };
    let (interrupt, terminate) = (wait(SignalKind::interrupt()), wait(SignalKind::terminate()));
    async move {
        tokio::select! {
            () = interrupt => {}
            () = terminate => {}
        }
    }
}

/// Serves until SIGINT or SIGTERM, then closes all connections, and waits for `serving`, which ends
/// with the endpoint.
pub(super) async fn serve(endpoint: &Endpoint, serving: impl Future<Output = ()>) {
    let stopped = stopped();
    let tell = async {
        stopped.await;
        endpoint.close(0, b"the server was stopped");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = tell => {}
    }
    // A client that does not answer is not waited for.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// What a server prints once it accepts connections.
#[derive(Debug, Serialize)]
struct Listening {
    listening: SocketAddr,
    pin: Option<String>,
}

/// Binds a server and says so.
pub(super) fn listen(
    address: &Listen,
    identity: Identity,
    transport: TransportConfig,
    retry: bool,
    json: bool,
) -> Result<Endpoint, Failure> {
    let pin = identity.tls.pin().map(|pin| pin.to_string());
    let mut config = ServerConfig::new(Arc::new(identity.tls), Arc::new(transport));
    config.key(identity.key);
    if retry {
        config.retry(RetryPolicy::Always);
    }
    let endpoint = address.bind(|address| Endpoint::server(config.clone(), address))?;
    let listening = Listening {
        listening: endpoint.local_address(),
        pin,
    };
    if json {
        output::json(&listening)?;
    } else {
        let pin = listening.pin.as_deref().unwrap_or("by its authority");
        output::line(format_args!(
            "listening on {}, pin {pin}",
            listening.listening
        ))?;
    }
    Ok(endpoint)
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connected<T> {
    pub(super) connection: Connection,
    /// The time that the handshake took.
    pub(super) handshake: Duration,
    /// What was prepared for it.
    pub(super) prepared: T,
}

/// How long a client tries.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ConnectArgs {
    /// Give up after this time without a connection, 30s at most
    #[arg(long, value_name = "DUR", value_parser = connect_timeout, default_value = "30s")]
    connect_timeout: Duration,
}

fn connect_timeout(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        time if time.is_zero() || time > LONGEST_CONNECT => {
            Err(format!("`{text}` is not above 0s and up to 30s"))
        }
        time => Ok(time),
    }
}

/// Who a client connects to, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) target: &'a Target,
    pub(super) trust: Judge<'a>,
    pub(super) limits: ConnectArgs,
    pub(super) stop: &'a Stop,
}

/// Connects to a server: to whichever of its addresses answers first. They are tried one after the
/// other, each a moment after the one before, or when that has failed. `before` gets the local and
/// the remote address before the first packet leaves.
pub(super) async fn connect<T>(
    way: Way<'_>,
    alpn: &[u8],
    transport: TransportConfig,
    before: impl FnMut(&Endpoint, SocketAddr) -> T,
) -> Result<Connected<T>, Failure> {
    let Way {
        target,
        trust,
        limits,
        stop,
    } = way;
    let tls = trust.config(alpn)?;
    let config = ClientConfig::new(Arc::new(tls), Arc::new(transport));
    let connecting = async { race(target, target.resolve().await?, &config, before).await };
    let server = target.server();
    let time = limits.connect_timeout;
    let silence = async {
        tokio::time::sleep(time.min(SILENCE)).await;
        if time > SILENCE {
            output::note!(
                "pathmark: no answer yet from {server}; a firewall may drop UDP, or no server \
                 runs there"
            );
            tokio::time::sleep(time - SILENCE).await;
        }
    };
    let connected = tokio::select! {
        connected = connecting => connected?,
        () = stop.stopped() => return Err(interrupted().into()),
        () = silence => {
            return Err(anyhow!("cannot connect to {server}: no answer within {time:?}").into());
        }
    };
    tokio::select! {
        checked = trust.check(&connected.connection, target) => checked?,
        () = stop.stopped() => return Err(interrupted().into()),
    }
    Ok(connected)
}

/// Connects to whichever of `addresses` answers first.
async fn race<T, B: FnMut(&Endpoint, SocketAddr) -> T>(
    target: &Target,
    addresses: Vec<SocketAddr>,
    config: &ClientConfig,
    mut before: B,
) -> Result<Connected<T>, Failure> {
    let mut addresses = addresses.into_iter();
    let (mut attempts, mut failed) = (FuturesUnordered::new(), Vec::new());
    loop {
        if let Some(address) = addresses.next() {
            attempts.push(attempt(target, address, config.clone(), &mut before)?);
        }
        let another = async {
            match addresses.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(STAGGER).await,
            }
        };
        let ended = tokio::select! {
            ended = attempts.next() => ended,
            () = another => continue,
        };
        match ended {
            Some(Ok(connected)) => return Ok(connected),
            Some(Err(error)) => failed.push(output::explain(&error)),
            None => {}
        }
        if attempts.is_empty() && addresses.len() == 0 {
            let (server, why) = (target.server(), failed.join("; "));
            return Err(anyhow!("cannot connect to {server}: {why}").into());
        }
    }
}

/// Begins to connect to one address.
fn attempt<T, B: FnMut(&Endpoint, SocketAddr) -> T>(
    target: &Target,
    address: SocketAddr,
    config: ClientConfig,
    before: &mut B,
) -> Result<impl Future<Output = anyhow::Result<Connected<T>>> + use<T, B>, Failure> {
    let unspecified: SocketAddr = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let opened = Endpoint::client(unspecified).context("cannot open a UDP socket");
    // Before the first packet may leave: the connection's own task sends it, on another core.
    let started = now();
    let begun = match opened {
        Ok(endpoint) => {
            let prepared = before(&endpoint, address);
            let connecting = endpoint.connect_with(config, address, &target.host);
            let connecting = connecting.map_err(Failure::usage)?;
            Ok((endpoint, prepared, connecting))
        }
        // Of this address's family there may be none on this machine.
        Err(error) => Err(error),
    };
    // An address that was asked for need not be said twice.
    let named = target.host.parse::<IpAddr>().is_err();
    Ok(async move {
        let (_endpoint, prepared, connecting) = begun?;
        let connection = match connecting.await {
            Err(error) if named => return Err(error).context(address.to_string()),
            other => other?,
        };
        Ok(Connected {
            connection,
            handshake: started.elapsed(),
            prepared,
        })
    })
}

/// How the packets' IP headers are marked.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct DscpArgs {
    /// Differentiated services code point of the packets, 0 to 63: 46 is expedited forwarding
    /// (Linux only)
    #[arg(long, value_name = "N", default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=63))]
    pub(super) dscp: u8,
}

/// The transport's configuration for `--cc` and `--dscp`.
pub(super) fn transport(algorithm: &Algorithm, marking: DscpArgs) -> TransportConfig {
    let mut config = pathmark::transport_config(algorithm);
    config.dscp = marking.dscp;
    config
}

/// Wall time, for messages to users.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Time since 1970-01-01 UTC, for what outlives this process.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn unix_time() -> std::time::Duration {
    let epoch = std::time::UNIX_EPOCH;
    let since = std::time::SystemTime::now().duration_since(epoch);
    since.unwrap_or_default()
}

/// Waits before the next look at a lock that another process holds.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No host answers at the first address.
    #[tokio::test]
    async fn an_address_that_does_not_answer_is_not_the_only_one_tried() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let tls = Identity::new(b"test").unwrap().tls;
        let transport = || Arc::new(transport(&Algorithm::default(), DscpArgs { dscp: 0 }));
        let config = ServerConfig::new(Arc::new(tls), transport());
        let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let live = server.local_address();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async { drop(connecting.await) });
                }
            }
        });
        let target: Target = "localhost:1/a".parse().unwrap();
        let trust = pathmark_transport::crypto::tls::Trust::Anyone;
        let tls = pathmark::tls::TlsClientConfig::new(trust, &[b"test"]).unwrap();
        let config = ClientConfig::new(Arc::new(tls), transport());
        let addresses = vec![silent.local_addr().unwrap(), live];
        let connected = race(&target, addresses, &config, |_, address| address).await;
        assert_eq!(connected.unwrap().prepared, live);
    }

    #[test]
    fn packets_get_the_code_point_that_was_asked_for() {
        assert_eq!(
            super::transport(&Default::default(), super::DscpArgs { dscp: 46 }).dscp,
            46
        );
    }

    /// Without a handler the signal would end this process.
    #[tokio::test]
    async fn a_signal_before_the_first_poll_counts() {
        use nix::sys::signal::{Signal, raise};
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let stopped = super::stopped();
            raise(signal).unwrap();
            let ready = tokio::time::timeout(Duration::from_secs(30), stopped).await;
            assert!(ready.is_ok(), "{signal}");
        }
    }
}
