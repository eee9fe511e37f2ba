//! `pathmark perf`: throughput by the QUIC performance protocol (draft-banks-quic-performance).
//!
//! On each bidirectional stream the client sends how many bytes it wants as 8 bytes in network
//! order, then its upload, then FIN; the server answers with as many bytes as were wanted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use futures_util::future::join_all;
use pathmark_cc::Algorithm;
use tokio::io::AsyncReadExt;

use super::figures::Transfer;
use super::session::{Connected, DscpArgs};
use super::target::Target;
use super::trust::{CertificateArgs, TrustArgs};
use super::{Failure, Outcome, output, session, values};
use crate::file::report::SenderReport;
use crate::{Connection, Endpoint, RecvStream, SendStream};

const ALPN: &[u8] = b"perf";

/// Sides of the measurement.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Answer clients
    Server(ServerArgs),
    /// Measure against a server
    Client(ClientArgs),
}

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct ServerArgs {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
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
    /// Have each client prove its address before state is kept for it
    #[arg(long)]
    retry: bool,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    json: bool,
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
    /// Stop after so long; alone it downloads for as long as that
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    time: Option<Duration>,
    /// Streams at a time
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=100)
    )]
    streams: u64,
    /// Congestion controller to send with
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    marking: DscpArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) async fn server(args: ServerArgs) -> Outcome {
    let transport = session::transport(&args.cc, args.marking);
    let endpoint = session::listen(
        args.listen,
        &args.certificate,
        ALPN,
        transport,
        args.retry,
        args.json,
    )?;
    session::serve(&endpoint, accept(&endpoint)).await;
    Ok(())
}

/// Answers clients until the endpoint closes.
async fn accept(endpoint: &Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connecting) = incoming.accept() else {
                return;
            };
            let Ok(connection) = connecting.await else {
                return;
            };
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    if let Err(error) = answer(send, recv).await {
                        tracing::debug!(%error, "stream ended early");
                    }
                });
            }
        });
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> anyhow::Result<()> {
    let mut wanted = [0; 8];
    recv.read_exact(&mut wanted).await?;
    while recv.read_chunk().await?.is_some() {}
    send_zeros(&mut send, u64::from_be_bytes(wanted), &AtomicU64::new(0)).await?;
    send.finish()?;
    Ok(())
}

async fn send_zeros(
    send: &mut SendStream,
    bytes: u64,
    sent: &AtomicU64,
) -> Result<(), crate::WriteError> {
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

/// Bytes moved so far, on all streams.
#[derive(Debug, Default)]
struct Moved {
    up: AtomicU64,
    down: AtomicU64,
}

pub(super) async fn client(args: ClientArgs) -> Outcome {
    let (upload, mut download) = (args.upload, args.download);
    if upload == 0 && download == 0 {
        if args.time.is_none() {
            return Err(Failure::usage(anyhow!(
                "say what to measure: --download BYTES, --upload BYTES or --time DUR"
            )));
        }
        download = u64::MAX;
    }
    let algorithm = args.cc.clone().unwrap_or_default();
    let transport = session::transport(&algorithm, args.marking);
    let Connected {
        endpoint,
        connection,
        handshake,
        ..
    } = session::connect(&args.target, &args.trust, ALPN, transport, |_, _| ()).await?;
    let moved = Moved::default();
    let started = session::now();
    let streams =
        join_all((0..args.streams).map(|_| stream(&connection, upload, download, &moved)));
    let bars = output::bars();
    let bar = output::byte_bar(
        &bars,
        "perf",
        upload.saturating_add(download).saturating_mul(args.streams),
    );
    let show = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            bar.set_position(moved.up.load(Ordering::Relaxed) + moved.down.load(Ordering::Relaxed));
        }
    };
    let limit = async {
        match args.time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let results = tokio::select! {
        results = streams => results,
        () = show => Vec::new(),
        () = limit => Vec::new(),
    };
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    for result in results {
        result?;
    }
    let sender = SenderReport::of(&connection);
    let mut transfer = Transfer {
        handshake_ms: handshake.as_secs_f64() * 1e3,
        bytes_up: moved.up.load(Ordering::Relaxed),
        bytes_down: moved.down.load(Ordering::Relaxed),
        streams: args.streams,
        algorithm: algorithm.to_string(),
        ..Transfer::default()
    };
    transfer.finish(&connection, &sender, seconds);
    connection.close(0, b"done");
    endpoint.wait_idle().await;
    if args.json {
        output::json(&transfer)?;
    } else {
        transfer.tell(&sender);
    }
    Ok(())
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
        // The upload counts when the server has it: its answer or its acknowledgement of the end
        // says so.
        send.stopped().await?;
    }
    Ok(())
}
