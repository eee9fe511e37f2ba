//! Files over this library, between two sockets.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pathmark_cc::Algorithm;
use pathmark_emulator::result::{Distribution, MeanMax};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::meter::Meter;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_files;
use pathmark_files::client::{self, Progress};
use pathmark_files::server::{FileServer, Rules};
use pathmark_files::store::Store;

/// What the sending side of a flow knew at its end.
#[derive(Clone, Debug, Default)]
pub struct SenderFigures {
    /// Packets that it declared lost.
    pub packets_lost: u64,
    /// Round-trip times in milliseconds.
    pub rtt_ms: Option<Distribution>,
    /// Congestion window in bytes, where it is known.
    pub cwnd_bytes: Option<MeanMax>,
}

/// What a transfer needs before it begins: the files, a place for what arrives, a certificate.
#[derive(Debug)]
pub struct Prepared {
    there: TempDir,
    here: TempDir,
    tls: TlsServerConfig,
}

/// Makes files of the meters' sizes. A gigabyte takes seconds, which do not count as transfer time.
///
/// # Errors
/// If a file cannot be written.
pub async fn prepare(meters: &[Arc<Meter>]) -> Result<Prepared> {
    let sizes: Vec<u64> = meters.iter().map(|meter| meter.wanted()).collect();
    let files = tokio::task::spawn_blocking(move || {
        let there = tempfile::tempdir()?;
        for (index, bytes) in sizes.into_iter().enumerate() {
            write_file(&there.path().join(index.to_string()), bytes)?;
        }
        anyhow::Ok(there)
    });
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(
        vec![made.cert.der().clone()],
        key.into(),
        &[pathmark_files::ALPN],
    )?;
    Ok(Prepared {
        there: files.await??,
        here: tempfile::tempdir()?,
        tls,
    })
}

/// Serves the files that were prepared for `meters` on `server` and fetches them from `clients`
/// (one socket per meter), all at once; returns when all have arrived.
///
/// # Errors
/// If a connection or a file fails.
pub async fn transfer(
    prepared: Prepared,
    server: UdpSocket,
    clients: Vec<UdpSocket>,
    address: SocketAddr,
    algorithm: &Algorithm,
    meters: &[Arc<Meter>],
) -> Result<Vec<SenderFigures>> {
    let Prepared { there, here, tls } = prepared;
    let pin = tls.pin().context("a certificate has a pin")?;
    let mut transport = pathmark::transport_config(algorithm);
    // The demo's links carry packets of 1500 bytes, whatever a loopback interface carries.
    transport.max_mtu = Some(1472);
    let transport = Arc::new(transport);
    let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
    let server = Endpoint::new(server, Some(config))?;
    let files = Arc::new(FileServer::watched(
        Store::open(there.path())?,
        Rules::default(),
    ));
    let serving = tokio::spawn({
        let files = Arc::clone(&files);
        async move { files.run(&server).await }
    });

    let trust = TlsClientConfig::new(Trust::Pin(pin), &[pathmark_files::ALPN])?;
    let config = ClientConfig::new(Arc::new(trust), transport);
    let mut fetches = JoinSet::new();
    for (index, (socket, meter)) in clients.into_iter().zip(meters).enumerate() {
        let (config, meter, files) = (config.clone(), Arc::clone(meter), Arc::clone(&files));
        let target = here.path().join(index.to_string());
        fetches.spawn(async move {
            let endpoint = Endpoint::new(socket, None)?;
            let connection = endpoint.connect_with(config, address, "localhost")?.await?;
            let name = index.to_string();
            let fetched = client::get(&connection, &name, &target, None, |progress| {
                if let Progress::Bytes(bytes) = progress {
                    meter.add(bytes);
                }
            })
            .await?;
            // The sender's report left as the last byte was handed to the transport. By now it has
            // declared each loss that held up a byte.
            let sender = files.sender(&name).unwrap_or(fetched.sender);
            connection.close(0, b"done");
            let rtt = sender.rtt_ms;
            let figures = SenderFigures {
                packets_lost: sender.packets_lost,
                rtt_ms: Some(Distribution {
                    min: rtt.min,
                    mean: rtt.mean,
                    p50: rtt.p50,
                    p99: rtt.p99,
                    max: rtt.max,
                }),
                cwnd_bytes: None,
            };
            anyhow::Ok((index, figures))
        });
    }
    let mut all = vec![SenderFigures::default(); meters.len()];
    while let Some(fetched) = fetches.join_next().await {
        let (index, figures) = fetched??;
        if let Some(slot) = all.get_mut(index) {
            *slot = figures;
        }
    }
    serving.abort();
    Ok(all)
}

/// A file whose bytes do not repeat within a packet, so that a mixed-up order would not go
/// unnoticed.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made before a transfer takes none of its time, and has the size that was asked for.
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
