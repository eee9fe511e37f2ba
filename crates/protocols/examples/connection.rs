//! A connection that carries a single signal, built only from the transport, a law and the
//! protocol's crate: `cargo run -p pathmark-protocols --example connection -- vcp`, or `xcp`.
//!
//! Both ends offer the signal during the handshake. From then on, each packet with data is preceded
//! by its header, in which routers on the path can answer. On a path without such routers, as here,
//! the sender falls back to CUBIC.

use std::error::Error;
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Endpoint, ServerConfig};
use pathmark_transport::connection::PathReport;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::{Signal, TransportConfig};
use vcp_proto::VcpSignal;
use xcp_proto::XcpSignal;

/// The application protocol's name in TLS (ALPN).
const PROTOCOL: &[u8] = b"one-signal";
const BYTES: usize = 1_000_000;

/// Returns the signal that the law with this name uses.
fn signal(law: &str) -> Result<Arc<dyn Signal>, Box<dyn Error>> {
    match law {
        "vcp" => Ok(Arc::new(VcpSignal::default())),
        "xcp" => Ok(Arc::new(XcpSignal::default())),
        _ => Err("usage: connection vcp|xcp".into()),
    }
}

fn transport(law: &str) -> Result<Arc<TransportConfig>, Box<dyn Error>> {
    let signal = signal(law)?;
    let law: Algorithm = law.parse()?;
    let mut config = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    config.signals = vec![signal];
    Ok(Arc::new(config))
}

/// Sends [`BYTES`] to a server in this process. Returns how many arrived, and the path report of
/// the client's connection.
async fn transfer(law: &str) -> Result<(usize, PathReport), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let certificate = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[PROTOCOL])?;
    let trust = Trust::Pin(certificate.pin().ok_or("the server has no certificate")?);
    let config = ServerConfig::with_transport(Arc::new(certificate), transport(law)?);
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_address();
    let received = tokio::spawn(async move {
        let connection = server.accept().await?.accept().ok()?.await.ok()?;
        let mut stream = connection.accept_uni().await.ok()?;
        let received = stream.read_to_end(BYTES).await.ok()?;
        connection.closed().await;
        Some(received.len())
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let tls = TlsClientConfig::new(trust, &[PROTOCOL])?;
    let config = ClientConfig::with_transport(Arc::new(tls), transport(law)?);
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![7; BYTES]).await?;
    stream.finish()?;
    stream.stopped().await?;
    let report = connection.path_report();
    connection.close(0_u32.into(), b"done");
    Ok((received.await?.ok_or("the server gave up")?, report))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let law = std::env::args().nth(1).unwrap_or_default();
    let (bytes, report) = transfer(&law).await?;
    println!(
        "{bytes} bytes arrived; signal in front of data: {:?}",
        report.signal
    );
    println!("window: {:?}", report.controller);
    Ok(())
}

#[tokio::test]
async fn data_travel_behind_the_one_signal() {
    for law in ["vcp", "xcp"] {
        let (bytes, report) = transfer(law).await.unwrap();
        assert_eq!(bytes, BYTES);
        assert_eq!(report.signal, Some(signal(law).unwrap().kind()));
    }
}
