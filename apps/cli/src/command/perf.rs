//! `pathmark perf`: measures throughput with the QUIC performance protocol
//! (draft-banks-quic-performance).
//!
//! On each bidirectional stream, the client sends the number of bytes it wants (8 bytes in
//! network order), its upload, and FIN. The server then sends the requested number of bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bytes::Bytes;
use futures_util::future::try_join_all;
use indicatif::MultiProgress;
use pathmark_cc::Algorithm;
use serde::Serialize;

use super::connect::{ConnectArgs, Connected, Way};
use super::figures::Transfer;
use super::session::{DscpArgs, Stop};
use super::target::Target;
use super::trust::{CertificateArgs, TrustArgs};
use super::values::{self, Listen};
use super::{Failure, Outcome, accept, connect, output, session};
use crate::report::SenderReport;
use pathmark::{Connection, Endpoint, RecvStream, SendStream};
use pathmark_lab::text;

const ALPN: &[u8] = b"perf";
/// The same protocol, extended by [`REPORT`].
const REPORTING: &[u8] = b"pathmark-perf";
/// Requests a JSON report of the server's sending side instead of bytes.
const REPORT: u64 = u64::MAX - 1;
/// Maximum size of a report in bytes.
const LONGEST_REPORT: usize = 64 * 1024;
/// Time limit for receiving the report.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// Maximum number of concurrent streams of a client.
const MOST_STREAMS: u64 = 1000;

/// Interval between rate messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sides of the measurement.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Answer clients
    Server(ServerArgs),
    /// Measure against a server; each direction has a report of its own
    Client(ClientArgs),
}

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct ServerArgs {
    /// Address and UDP port to listen on; :PORT means all addresses
    #[arg(long, value_name = "ADDR", value_parser = values::listen)]
    listen: Listen,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Congestion controller to send with
    #[arg(
        long,
        value_name = "NAME",
        value_parser = values::algorithm,
        default_value = Algorithm::DEFAULT
    )]
    cc: Algorithm,
    #[command(flatten)]
    marking: DscpArgs,
    /// Validate every client's address with a Retry packet first
    #[arg(long)]
    retry: bool,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct ClientArgs {
    /// The server
    #[arg(value_name = "HOST:PORT")]
    target: Target,
    /// Bytes to send on each stream, like 1GB
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "0")]
    upload: u64,
    /// Bytes to fetch on each stream, like 1GB
    #[arg(long, value_name = "BYTES", value_parser = values::bytes, default_value = "0")]
    download: u64,
    /// Stop after this time; without --upload and --download, download until then
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    time: Option<Duration>,
    /// Streams at a time
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=MOST_STREAMS)
    )]
    streams: u64,
    /// Congestion controller to send with; what is fetched has that of the server
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    marking: DscpArgs,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    limits: ConnectArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn server(args: ServerArgs, stop: Stop) -> Outcome {
    let mut transport = session::transport(&args.cc, args.marking);
    transport.streams.max_bidi_streams = MOST_STREAMS;
    let identity = args.certificate.identity(None, &[REPORTING, ALPN])?;
    let (config, pin) = session::server_config(identity, transport.into(), args.retry);
    let (endpoint, ()) = session::listen(&args.listen, &config, pin, args.json, |_| ())?;
    session::serve(&endpoint, session::PERF, serve_perf(&endpoint), &stop).await;
    Ok(())
}

/// Serves clients until the endpoint closes.
async fn serve_perf(endpoint: &Endpoint) {
    accept::accept(endpoint, None, session::PERF, |connection| async move {
        let client = connection.remote_address();
        tracing::info!(%client, "connected");
        while let Ok((send, recv)) = connection.accept_bi().await {
            let connection = connection.clone();
            tokio::spawn(async move {
                if let Err(error) = answer(&connection, send, recv).await {
                    tracing::debug!(%error, "stream ended early");
                }
            });
        }
        let stats = connection.stats();
        tracing::info!(
            %client,
            bytes_sent = stats.bytes_sent,
            bytes_received = stats.bytes_received,
            packets_lost = stats.packets_lost,
            "gone"
        );
    })
    .await;
}

async fn answer(
    connection: &Connection,
    mut send: SendStream,
    mut recv: RecvStream,
) -> anyhow::Result<()> {
    let mut wanted = [0; 8];
    recv.read_exact(&mut wanted).await?;
    while recv.read_chunk().await?.is_some() {}
    match u64::from_be_bytes(wanted) {
        REPORT if is_reporting(connection) => {
            let report = SenderReport::of(connection);
            send.write_all(&serde_json::to_vec(&report)?).await?;
        }
        wanted => send_zeros(&mut send, wanted, &AtomicU64::new(0)).await?,
    }
    send.finish()?;
    Ok(())
}

fn is_reporting(connection: &Connection) -> bool {
    connection.handshake_data().protocol.as_deref() == Some(REPORTING)
}

/// Requests the server's report of its sending side, which some servers don't provide.
async fn report(connection: &Connection) -> Option<SenderReport> {
    if !is_reporting(connection) {
        return None;
    }
    let asking = async {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&REPORT.to_be_bytes()).await?;
        send.finish()?;
        let report = recv.read_to_end(LONGEST_REPORT).await?;
        anyhow::Ok(serde_json::from_slice(&report)?)
    };
    let asked = tokio::time::timeout(REPORT_TIME, asking).await;
    asked.ok()?.ok()
}

async fn send_zeros(
    send: &mut SendStream,
    bytes: u64,
    sent: &AtomicU64,
) -> Result<(), pathmark::WriteError> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let size = usize::try_from(left.min(ZEROS.len() as u64)).unwrap_or(ZEROS.len());
        let chunk = Bytes::from_static(&ZEROS).slice(..size);
        send.write_chunk(chunk).await?;
        sent.fetch_add(size as u64, Ordering::Relaxed);
        left -= size as u64;
    }
    Ok(())
}

/// A client's JSON output.
#[derive(Debug, Default, Serialize)]
struct Measured {
    /// Includes the figures of the sending side, which is the client if both send.
    #[serde(flatten)]
    transfer: Transfer,
    /// The client's report of its sending side.
    up: Option<SenderReport>,
    /// The server's report of its sending side, if it provides one.
    down: Option<SenderReport>,
}

/// Bytes moved so far on all streams.
#[derive(Debug, Default)]
struct Moved {
    up: AtomicU64,
    down: AtomicU64,
}

pub(super) async fn client(args: ClientArgs, stop: Stop) -> Outcome {
    if args.upload == 0 && args.download == 0 && args.time.is_none() {
        return Err(Failure::usage(anyhow!(
            "say what to measure: --download BYTES, --upload BYTES or --time DUR"
        )));
    }
    let mut measured = Measured {
        transfer: Transfer {
            // The server has its own controller.
            algorithm: (args.upload > 0).then(|| args.cc.clone().unwrap_or_default().to_string()),
            streams: args.streams,
            ..Transfer::default()
        },
        ..Measured::default()
    };
    let began = session::now();
    let outcome = match measure(&args, &stop, &mut measured).await {
        Err(Failure::Failed(error)) => {
            if measured.transfer.handshake_ms.is_none() {
                let Transfer { seconds, cpu_s, .. } = Transfer::unconnected(began.elapsed());
                (measured.transfer.seconds, measured.transfer.cpu_s) = (seconds, cpu_s);
            }
            measured.transfer.error = Some(output::explain(&error));
            Err(Failure::Failed(error))
        }
        other => other,
    };
    if matches!(outcome, Err(Failure::Usage(_))) {
        return outcome;
    }
    if args.json {
        output::json(&measured)?;
    } else {
        measured.tell();
    }
    outcome
}

impl Measured {
    fn tell(&self) {
        let Self { transfer, up, down } = self;
        transfer.tell(up.as_ref().or(down.as_ref()));
        for (direction, report) in [("up", up), ("down", down)] {
            if let Some(report) = report {
                let (law, lost) = (&report.algorithm, report.packets_lost);
                output::note!("{direction}: sent by {law}, {lost} packets lost");
            }
        }
        if let (Some(_), Some(down)) = (up, down) {
            output::note!("down is bounded by: {}", down.explain());
        }
    }
}

/// Measures. `measured` has the results even if an error is returned.
async fn measure(args: &ClientArgs, stop: &Stop, measured: &mut Measured) -> Outcome {
    let (upload, mut download) = (args.upload, args.download);
    if upload == 0 && download == 0 {
        download = u64::MAX;
    }
    let algorithm = args.cc.clone().unwrap_or_default();
    let config = session::transport(&algorithm, args.marking);
    let way = Way {
        target: &args.target,
        trust: args.trust.judge(),
        shown: None,
        limits: args.limits,
        stop,
    };
    let Connected {
        connection,
        handshake,
        ..
    } = connect::connect(way, &[REPORTING, ALPN], config, |_, _| ()).await?;
    let transfer = &mut measured.transfer;
    transfer.handshake_ms = Some(handshake.as_secs_f64() * 1e3);
    let moved = Moved::default();
    let started = session::now();
    let streams =
        try_join_all((0..args.streams).map(|_| stream(&connection, upload, download, &moved)));
    let limit = async {
        match args.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let bars = output::bars(false);
    let outcome = tokio::select! {
        results = streams => results.map(drop).map_err(Failure::from),
        () = limit => Ok(()),
        () = stop.stopped() => Err(session::interrupted().into()),
        () = show(args, &bars, &moved, started) => Ok(()),
    };
    // Remove everything drawn.
    let _ = bars.clear();
    let seconds = started.elapsed().as_secs_f64();
    transfer.bytes_up = moved.up.load(Ordering::Relaxed);
    transfer.bytes_down = moved.down.load(Ordering::Relaxed);
    let own = SenderReport::of(&connection);
    measured.up = (upload > 0).then_some(own);
    if download > 0 && !stop.is_stopped() {
        measured.down = tokio::select! {
            report = report(&connection) => report,
            () = stop.stopped() => None,
        };
        if measured.down.is_none() {
            let note = "the server does not report how it sent, so bounds and losses of the \
                        download are not known";
            transfer.warnings.push(note.to_owned());
        }
    }
    let sender = measured.up.as_ref().or(measured.down.as_ref());
    if let (None, Some(sender)) = (&measured.up, &measured.down) {
        transfer.algorithm = Some(sender.algorithm.clone());
        if args.cc.is_some() {
            let (law, wish) = (&sender.algorithm, &algorithm);
            let note = format!(
                "the server sends by {law}: --cc {wish} is for what this side sends, and the \
                 server has a --cc of its own"
            );
            transfer.warnings.push(note);
        }
    }
    transfer.finish(Some(&connection), sender, seconds);
    session::leave(&connection, stop, session::PERF).await;
    outcome
}

/// Shows the progress as a bar of bytes or time, and a line per second.
async fn show(args: &ClientArgs, bars: &MultiProgress, moved: &Moved, started: Instant) {
    let bytes = args.upload.saturating_add(args.download);
    let bar = match args.time {
        Some(time) if bytes == 0 => output::time_bar(bars, "perf", time),
        _ => output::byte_bar(bars, "perf", bytes.saturating_mul(args.streams)),
    };
    let is_time = args.time.is_some() && bytes == 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let (mut before, mut at) = ((0, 0), Duration::ZERO);
    loop {
        ticks.tick().await;
        let now = started.elapsed();
        let (up, down) = (
            moved.up.load(Ordering::Relaxed),
            moved.down.load(Ordering::Relaxed),
        );
        bar.set_position(if is_time {
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
        } else {
            up + down
        });
        if now >= at + INTERVAL && !args.json {
            let seconds = (now - at).as_secs_f64();
            let rate = |bytes: u64| text::rate(bytes as f64 * 8.0 / seconds);
            let line = format!(
                "{:6.1} s to {:6.1} s: up {:>13}, down {:>13}",
                at.as_secs_f64(),
                now.as_secs_f64(),
                rate(up - before.0),
                rate(down - before.1),
            );
            bars.suspend(|| output::note!("{line}"));
            (before, at) = ((up, down), now);
        }
    }
}

async fn stream(
    connection: &Connection,
    upload: u64,
    download: u64,
    moved: &Moved,
) -> anyhow::Result<()> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&download.to_be_bytes()).await?;
    let sending = async {
        send_zeros(&mut send, upload, &moved.up).await?;
        send.finish()?;
        anyhow::Ok(())
    };
    let receiving = async {
        while let Some(chunk) = recv.read_chunk().await? {
            moved.down.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    tokio::try_join!(sending, receiving)?;
    if upload > 0 {
        // The upload is complete when the server has received it, as shown by its answer or its
        // acknowledgement of the end.
        send.stopped().await?;
    }
    Ok(())
}
