//! Files over this library, between two sockets.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pathmark_cc::Algorithm;
use pathmark_emulator::result::{Distribution, MeanMax};
use tokio::task::JoinSet;

use super::meter::Meter;
use crate::file;
use crate::file::client::{self, Progress};
use crate::file::server::{FileServer, Rules};
use crate::file::store::Store;
use crate::tls::{TlsClientConfig, TlsServerConfig, Trust};
use crate::{ClientConfig, Endpoint, ServerConfig};

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

/// Serves files of the meters' sizes on `server` and fetches them from `client` (one socket per
/// meter), all at once; returns when all have arrived.
///
/// # Errors
/// If a connection or a file fails.
pub async fn transfer(
    server: UdpSocket,
    clients: Vec<UdpSocket>,
    address: SocketAddr,
    algorithm: &Algorithm,
    meters: &[Arc<Meter>],
) -> Result<Vec<SenderFigures>> {
    let (there, here) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for (index, meter) in meters.iter().enumerate() {
        write_file(&there.path().join(index.to_string()), meter.wanted())?;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[file::ALPN])?;
    let pin = tls.pin().context("a certificate has a pin")?;
    let mut transport = crate::transport_config(algorithm);
    // The demo's links carry packets of 1500 bytes, whatever a loopback interface carries.
    transport.max_mtu = Some(1472);
    let transport = Arc::new(transport);
    let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
    let server = Endpoint::new(server, Some(config))?;
    let files = Arc::new(FileServer::new(
        Store::open(there.path())?,
        Rules::default(),
    ));
    let serving = tokio::spawn(async move { files.run(&server).await });

    let trust = TlsClientConfig::new(Trust::Pin(pin), &[file::ALPN])?;
    let config = ClientConfig::new(Arc::new(trust), transport);
    let mut fetches = JoinSet::new();
    for (index, (socket, meter)) in clients.into_iter().zip(meters).enumerate() {
        let (config, meter) = (config.clone(), Arc::clone(meter));
        let target = here.path().join(index.to_string());
        fetches.spawn(async move {
            let endpoint = Endpoint::new(socket, None)?;
            let connection = endpoint.connect(config, address, "localhost")?.await?;
            let name = index.to_string();
            let fetched = client::get(&connection, &name, &target, None, |progress| {
                if let Progress::Bytes(bytes) = progress {
                    meter.add(bytes);
                }
            })
            .await?;
            connection.close(0, b"done");
            let rtt = fetched.sender.rtt_ms;
            let figures = SenderFigures {
                packets_lost: fetched.sender.packets_lost,
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
    let words = (0..bytes.div_ceil(8)).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let mut content: Vec<u8> = words.flatten().collect();
    content.truncate(usize::try_from(bytes)?);
    Ok(std::fs::write(path, content)?)
}
