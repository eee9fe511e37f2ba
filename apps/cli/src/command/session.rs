//! The runtime, endpoints and configurations shared by the commands.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use pathmark_cc::Algorithm;
use pathmark_transport::endpoint::RetryPolicy;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::identity::Identity;
use super::values::Listen;
use super::{Failure, Outcome, output};
use pathmark::{Connection, Endpoint, ServerConfig, TransportConfig};

/// Idle time after which a client sends a packet, so that the connection survives long disk
/// operations on either side, such as hashing a part or syncing and reading back a whole file.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Maximum time to wait for clients after closing the server's connections.
const FAREWELL: Duration = Duration::from_secs(2);

/// Time that a command has to end after a signal. After that, or with a second signal, the process
/// ends even if a call of the system doesn't return, such as opening a pipe without a writer.
const LAST: Duration = Duration::from_secs(10);

/// A client stays for this time after closing its connection, in order to answer late packets …
const LINGER: Duration = Duration::from_millis(20);
/// … and waits at most this long for its CONNECTION_CLOSE to be sent.
const LONGEST_LINGER: Duration = Duration::from_secs(1);

/// Application error codes for closing connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codes {
    done: u32,
    interrupted: u32,
    /// For a connection of a host that has too many.
    pub(super) excess: u32,
}

/// The codes of HTTP/3 (RFC 9114 section 8.1): H3_NO_ERROR, H3_REQUEST_CANCELLED and
/// H3_EXCESSIVE_LOAD.
pub(super) const HTTP3: Codes = Codes {
    done: 0x100,
    interrupted: 0x10c,
    excess: 0x107,
};
/// The codes of the performance protocol.
pub(super) const PERF: Codes = Codes {
    done: 0,
    interrupted: 1,
    excess: 2,
};

/// The request to stop after SIGINT (Ctrl-C), SIGTERM or SIGHUP.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Returns true after a signal.
    pub(super) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for a signal, or returns immediately if there was one.
    pub(super) async fn stopped(&self) {
        let mut signalled = self.0.clone();
        if signalled.wait_for(|signalled| *signalled).await.is_err() {
            // The runtime is shutting down.
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the error of a command that was interrupted.
pub(super) fn interrupted() -> anyhow::Error {
    anyhow!("interrupted")
}

/// Does the same for a transfer that the same command resumes.
pub(super) fn interrupted_transfer() -> anyhow::Error {
    anyhow!("interrupted; the same command continues where it stopped")
}

/// Runs a command, which must end soon after its [`Stop`] is signalled.
pub(super) fn run<F: Future<Output = Outcome>>(command: impl FnOnce(Stop) -> F) -> Outcome {
    run_until(hangup_counts(), command)
}

/// Does the same as [`run`], but leaves SIGHUP to the command, which has [`Hangups`].
pub(super) fn run_reloading<F: Future<Output = Outcome>>(
    command: impl FnOnce(Stop) -> F,
) -> Outcome {
    run_until(false, command)
}

fn run_until<F: Future<Output = Outcome>>(
    hangup: bool,
    command: impl FnOnce(Stop) -> F,
) -> Outcome {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (tell, stop) = watch::channel(false);
        let signal = stopped_by(hangup);
        tokio::spawn(async move {
            signal.await;
            tell.send_replace(true);
            tokio::select! {
                () = tokio::time::sleep(LAST) => {}
                () = stopped_by(hangup) => {}
            }
            output::note!("pathmark: interrupted without waiting for files and devices");
            output::settle();
            std::process::exit(1);
        });
        command(Stop(stop)).await
    });
    // Don't wait for a name lookup or disk sync after the command has ended.
    runtime.shutdown_background();
    outcome
}

/// Does the same for a command that can be dropped when it is stopped.
pub(super) fn run_to_stop(command: impl Future<Output = Outcome>) -> Outcome {
    run(|stop| async move {
        tokio::select! {
            outcome = command => outcome,
            () = stop.stopped() => Err(interrupted().into()),
        }
    })
}

/// Closes a client's connection once the server has received all streams that have ended, and waits
/// until CONNECTION_CLOSE has been sent. Later data from the peer is discarded.
pub(super) async fn leave(connection: &Connection, stop: &Stop, codes: Codes) {
    if connection.close_reason().is_some() {
        return;
    }
    let delivered = tokio::select! {
        delivered = connection.delivered() => delivered,
        () = stop.stopped() => Ok(()),
    };
    if delivered.is_err() {
        return;
    }
    if stop.is_stopped() {
        connection.close(codes.interrupted.into(), b"interrupted");
    } else {
        connection.close(codes.done.into(), b"done");
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

fn runtime() -> anyhow::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    // With a handler, exceeding the file size limit makes writing fail instead of killing the
    // process.
    {
        let _entered = runtime.enter();
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ)));
    }
    Ok(runtime)
}

/// Completes on SIGINT (Ctrl-C), SIGTERM, or with `hangup` also on SIGHUP. The handlers are
/// installed by this call rather than by the first poll, because the command's own first poll
/// may do much of its work.
fn stopped_by(hangup: bool) -> impl Future<Output = ()> {
    let wait = |kind| {
        let signals = signal(kind);
        async move {
            match signals {
                Ok(mut signals) => drop(signals.recv().await),
                // Without a handler, the signal has its default effect.
                Err(_) => std::future::pending().await,
            }
        }
    };
    let (interrupt, terminate) = (wait(SignalKind::interrupt()), wait(SignalKind::terminate()));
    // The terminal has closed. Under nohup(1), the command should continue.
    let hangup = hangup.then(|| wait(SignalKind::hangup()));
    let hangup = async move {
        match hangup {
            Some(hangup) => hangup.await,
            None => std::future::pending().await,
        }
    };
    async move {
        tokio::select! {
            () = interrupt => {}
            () = terminate => {}
            () = hangup => {}
        }
    }
}

/// Returns false if SIGHUP is ignored or the system doesn't report this. In these cases it must
/// stay ignored.
fn hangup_counts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 0)
}

/// A stream of SIGHUP signals. Creating it prevents the signal from ending the process.
pub(super) struct Hangups(Option<Signal>);

impl Hangups {
    /// Installs the handler. A server must do this before announcing that it listens.
    pub(super) fn new() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

    pub(super) async fn next(&mut self) {
        let received = match &mut self.0 {
            Some(hangups) => hangups.recv().await,
            None => None,
        };
        if received.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Does the same as [`serve`], calling `reload` on each SIGHUP.
pub(super) async fn serve_reloading(
    endpoint: &Endpoint,
    codes: Codes,
    serving: impl Future<Output = ()>,
    stop: &Stop,
    mut hangups: Hangups,
    reload: impl Fn(),
) {
    let reloading = async {
        loop {
            hangups.next().await;
            reload();
        }
    };
    let serving = async {
        tokio::select! {
            () = serving => {}
            () = reloading => {}
        }
    };
    serve(endpoint, codes, serving, stop).await;
}

/// Serves until `stop`, then closes all connections and waits a few seconds for `serving`, which
/// ends with the endpoint.
pub(super) async fn serve(
    endpoint: &Endpoint,
    codes: Codes,
    serving: impl Future<Output = ()>,
    stop: &Stop,
) {
    let tell = async {
        stop.stopped().await;
        endpoint.close(codes.done.into(), b"the server was stopped");
        // Don't wait any longer for a disk sync or a file being hashed.
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        () = serving => {}
        () = tell => {}
    }
    // Don't wait for clients that don't answer.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// The line that a server prints once it accepts connections.
#[derive(Debug, Serialize)]
struct Listening {
    listening: SocketAddr,
    pin: Option<String>,
}

/// Returns a server's configuration and the pin of its certificate.
pub(super) fn server_config(
    identity: Identity,
    transport: Arc<TransportConfig>,
    retry: bool,
) -> (ServerConfig, Option<String>) {
    let pin = identity.tls.pin().map(|pin| pin.to_string());
    let mut config = ServerConfig::with_transport(Arc::new(identity.tls), transport);
    config.key(identity.key);
    if retry {
        config.retry(RetryPolicy::Always);
    }
    (config, pin)
}

/// Binds a server, calls `also` with its address, and prints address and pin.
pub(super) fn listen<T>(
    address: &Listen,
    config: &ServerConfig,
    pin: Option<String>,
    json: bool,
    also: impl FnOnce(SocketAddr) -> T,
) -> Result<(Endpoint, T), Failure> {
    let endpoint = address.bind(|address| Endpoint::server(config.clone(), address))?;
    let also = also(endpoint.local_address());
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
    Ok((endpoint, also))
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

/// Returns the transport configuration for `--cc` and `--dscp`.
pub(super) fn transport(algorithm: &Algorithm, marking: DscpArgs) -> TransportConfig {
    let mut config = pathmark::transport_config(algorithm);
    config.dscp = marking.dscp;
    super::qlog::log(&mut config);
    config
}

/// Returns the current time for measuring durations.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the time since 1970-01-01 UTC, for data that outlives this process.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn unix_time() -> std::time::Duration {
    let epoch = std::time::UNIX_EPOCH;
    let since = std::time::SystemTime::now().duration_since(epoch);
    since.unwrap_or_default()
}

/// Waits before trying again to get another process's lock.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn packets_get_the_code_point_that_was_asked_for() {
        let transport = super::transport(&Default::default(), super::DscpArgs { dscp: 46 });
        assert_eq!(transport.dscp, 46);
    }

    /// Without a handler, the signal would end this process.
    #[tokio::test]
    async fn a_signal_before_the_first_poll_counts() {
        use nix::sys::signal::{Signal, raise};
        let mut signals = vec![Signal::SIGINT, Signal::SIGTERM];
        if super::hangup_counts() {
            signals.push(Signal::SIGHUP);
        }
        for signal in signals {
            let stopped = super::stopped_by(super::hangup_counts());
            raise(signal).unwrap();
            let ready = tokio::time::timeout(Duration::from_secs(30), stopped).await;
            assert!(ready.is_ok(), "{signal}");
        }
    }
}
