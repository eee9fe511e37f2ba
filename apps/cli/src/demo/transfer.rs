//! Transfers files using this library between two sockets, and measures what arrives.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_cc::Algorithm;
use pathmark_emulator::result::FlowResult;
use pathmark_http3::client::{Client, ClientLimits, Get, Progress};
use pathmark_http3::fields::PathName;
use pathmark_http3::http::{HeaderMap, Request};
use pathmark_http3::origin::{Limits, Origin, Steward};
use pathmark_http3::plan::Rules;
use pathmark_http3::root::{Existing, Root};
use pathmark_http3::wire::{ALPN, codes};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::report::SenderReport;

/// Everything that a transfer needs before it begins: files, a directory for received files, and
/// a certificate.
#[derive(Debug)]
pub(super) struct Prepared {
    there: TempDir,
    here: TempDir,
    tls: TlsServerConfig,
}

/// Creates files of the meters' sizes. A gigabyte takes seconds, which aren't part of the
/// transfer time.
///
/// # Errors
/// Fails if a file can't be written.
pub(super) async fn prepare(meters: &[Arc<Meter>]) -> Result<Prepared> {
    let sizes: Vec<u64> = meters.iter().map(|meter| meter.wanted()).collect();
    let files = tokio::task::spawn_blocking(move || {
        let there = tempfile::tempdir()?;
        for (index, bytes) in sizes.into_iter().enumerate() {
            write_file(&there.path().join(index.to_string()), bytes)?;
        }
        anyhow::Ok(there)
    });
    let tls = self_signed(ALPN)?;
    Ok(Prepared {
        there: files.await??,
        here: tempfile::tempdir()?,
        tls,
    })
}

/// Creates a server's certificate for one run.
pub(super) fn self_signed(alpn: &[u8]) -> Result<TlsServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let chain = vec![made.cert.der().clone()];
    Ok(TlsServerConfig::new(chain, key.into(), &[alpn])?)
}

/// Serves the prepared files on `server`, and concurrently fetches them from `clients` (one
/// socket per meter). Returns when all have arrived.
///
/// # Errors
/// Fails if a connection or a file fails.
pub(super) async fn transfer(
    prepared: Prepared,
    server: UdpSocket,
    clients: Vec<UdpSocket>,
    address: SocketAddr,
    algorithm: &Algorithm,
    meters: &[Arc<Meter>],
) -> Result<Vec<SenderReport>> {
    let Prepared { there, here, tls } = prepared;
    let pin = tls.pin().context("a certificate has a pin")?;
    let mut transport = pathmark::transport_config(algorithm);
    // The demo's links carry packets of 1500 bytes, regardless of a loopback interface's MTU.
    transport.max_mtu = Some(1472);
    let transport = Arc::new(transport);
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let server = Endpoint::from_socket(server, Some(config))?;
    let origin = Origin::new(
        Root::open(there.path())?,
        Rules::default(),
        Limits::default(),
    );
    let senders = Senders::default();
    let serving = tokio::spawn(accept(server, origin, senders.clone()));

    let trust = TlsClientConfig::new(Trust::Pin(pin), &[ALPN])?;
    let config = ClientConfig::with_transport(Arc::new(trust), transport);
    let mut fetches = JoinSet::new();
    for (index, (socket, meter)) in clients.into_iter().zip(meters).enumerate() {
        let (config, meter, senders) = (config.clone(), Arc::clone(meter), senders.clone());
        let target = here.path().join(index.to_string());
        fetches.spawn(async move {
            let endpoint = Endpoint::from_socket(socket, None)?;
            let connection = endpoint.connect_with(config, address, "localhost")?.await?;
            let limits = ClientLimits::default();
            let client = Client::new(connection.clone(), "localhost", limits).await?;
            let source = PathName::parse(format!("/{index}").as_bytes())?;
            let how = Get {
                existing: Existing::Replace,
                headers: HeaderMap::new(),
            };
            let fetching = client.get_with(&source, &target, how, |progress| {
                if let Progress::Bytes(bytes) = progress {
                    meter.add(bytes);
                }
            });
            fetching.await?;
            // By now the sender has declared all losses that delayed the file.
            let sender = senders.report(&source.encode()).unwrap_or_default();
            connection.close(codes::NO_ERROR.try_into()?, b"done");
            anyhow::Ok((index, sender))
        });
    }
    let mut all = vec![SenderReport::default(); meters.len()];
    while let Some(fetched) = fetches.join_next().await {
        let (index, report) = fetched??;
        if let Some(slot) = all.get_mut(index) {
            *slot = report;
        }
    }
    serving.abort();
    Ok(all)
}

/// The connections that fetched files, by path.
#[derive(Clone, Debug, Default)]
struct Senders(Arc<Mutex<BTreeMap<String, Connection>>>);

impl Senders {
    /// Returns the current report of a file's sender.
    fn report(&self, path: &str) -> Option<SenderReport> {
        let senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.get(path).map(SenderReport::of)
    }
}

/// Records the files fetched on one connection.
#[derive(Debug)]
struct Note(Connection, Senders);

impl Steward for Note {
    fn begin(&self, request: &Request<()>) -> HeaderMap {
        let Self(connection, senders) = self;
        let mut senders = senders.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.insert(request.uri().path().to_owned(), connection.clone());
        HeaderMap::new()
    }
}

/// Serves connections until the endpoint closes.
async fn accept(server: Endpoint, origin: Origin, senders: Senders) {
    while let Some(incoming) = server.accept().await {
        let (origin, senders) = (origin.clone(), senders.clone());
        tokio::spawn(async move {
            let Ok(connecting) = incoming.accept() else {
                return;
            };
            if let Ok(connection) = connecting.await {
                let note = Note(connection.clone(), senders);
                // The client reports how it ends.
                let _ = origin.serve_with(connection, Arc::new(note)).await;
            }
        });
    }
}

/// Writes a file whose bytes don't repeat within a packet, so that reordered data would be noticed.
fn write_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for index in 0..bytes / 8 {
        file.write_all(&word(index))?;
    }
    let rest = usize::try_from(bytes % 8)?;
    file.write_all(word(bytes / 8).get(..rest).unwrap_or(&[]))?;
    Ok(file.flush()?)
}

fn word(index: u64) -> [u8; 8] {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// A flow's progress at the receiver's application.
#[derive(Debug)]
pub struct Meter {
    /// Unset before the flow begins.
    begun: OnceLock<Instant>,
    wanted: u64,
    delivered: AtomicU64,
    /// Time of the last byte since `begun`, in nanoseconds.
    last: AtomicU64,
    finished: OnceLock<Duration>,
}

impl Meter {
    /// Creates a meter for `wanted` bytes of a flow that has not begun.
    pub fn new(wanted: u64) -> Self {
        Self {
            begun: OnceLock::new(),
            wanted,
            delivered: AtomicU64::new(0),
            last: AtomicU64::new(0),
            finished: OnceLock::new(),
        }
    }

    /// Begins the flow at `at`, so that preparing files and hosts doesn't count. Only the first
    /// call has an effect.
    pub fn begin(&self, at: Instant) {
        let _ = self.begun.set(at);
    }

    /// Returns when it began, if it has.
    pub fn begun(&self) -> Option<Instant> {
        self.begun.get().copied()
    }

    /// Counts delivered bytes.
    pub fn add(&self, bytes: u64) {
        let elapsed = self.begun().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.add_at(bytes, elapsed);
    }

    /// Counts bytes delivered this long after the flow began.
    pub fn add_at(&self, bytes: u64, elapsed: Duration) {
        let total = self.delivered.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.last.store(nanos, Ordering::Relaxed);
        if total >= self.wanted {
            // Only the first call has an effect.
            let _ = self.finished.set(elapsed);
        }
    }

    /// Returns the delivered bytes so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns the time from the flow's beginning until all bytes were delivered.
    pub fn completion(&self) -> Option<Duration> {
        self.finished.get().copied()
    }

    /// Returns what it measured, with the sender's report if there is one.
    pub(super) fn result(&self, report: Option<&SenderReport>) -> FlowResult {
        FlowResult {
            bytes_delivered: self.delivered(),
            completed: self.completion().is_some(),
            completion_s: self.completion().map(|taken| taken.as_secs_f64()),
            goodput_bps: self.goodput_bps(),
            packets_lost: report.map(|report| report.packets_lost),
            rtt_ms: report.map(|report| report.rtt_ms),
            ..FlowResult::default()
        }
    }

    /// Returns the delivered bits per second until the last byte so far.
    pub fn goodput_bps(&self) -> f64 {
        let seconds = self.last.load(Ordering::Relaxed) as f64 * 1e-9;
        if seconds > 0.0 {
            self.delivered() as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Preparation takes none of the transfer's time and creates files of the requested size.
    #[tokio::test]
    async fn no_flow_begins_before_its_file_is_there() {
        let meters = [0, 3, 8, 100_001].map(|bytes| Arc::new(Meter::new(bytes)));
        let prepared = prepare(&meters).await.unwrap();
        for (index, meter) in meters.iter().enumerate() {
            let content = std::fs::read(prepared.there.path().join(index.to_string())).unwrap();
            assert_eq!(content.len() as u64, meter.wanted());
            let distinct: std::collections::HashSet<&[u8]> = content.chunks(8).collect();
            assert_eq!(distinct.len(), content.chunks(8).len());
            assert_eq!(meter.begun(), None);
        }
    }
}
