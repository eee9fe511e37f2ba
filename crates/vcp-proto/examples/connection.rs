//! A connection that carries VCP's signal and no other one, built from the transport, the laws and
//! this crate alone: `cargo run -p vcp-proto --example connection`.
//!
//! Both ends offer the signal during the handshake. From then on each packet of data has VCP's
//! header in front, which routers on the path answer in. On a path without such routers, as here,
//! the sender falls back to CUBIC.

use std::error::Error;
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Endpoint, ServerConfig};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::PathReport;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use vcp_proto::VcpSignal;

/// The application protocol's name in TLS (ALPN).
const PROTOCOL: &[u8] = b"one-signal";
const BYTES: usize = 1_000_000;

/// The law `vcp`, and the one signal that it listens to.
fn transport() -> Result<Arc<TransportConfig>, Box<dyn Error>> {
    let law: Algorithm = "vcp".parse()?;
    let mut config = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    config.signals = vec![Arc::new(VcpSignal::default())];
    Ok(Arc::new(config))
}

/// Sends [`BYTES`] to a server in this process. Returns how many arrived, and what the client's
/// connection reports of its path.
async fn transfer() -> Result<(usize, PathReport), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let certificate = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[PROTOCOL])?;
    let trust = Trust::Pin(certificate.pin().ok_or("the server has no certificate")?);
    let config = ServerConfig::new(Arc::new(certificate), transport()?);
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
    let config = ClientConfig::new(Arc::new(tls), transport()?);
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![7; BYTES]).await?;
    stream.finish()?;
    stream.stopped().await?;
    let report = connection.path_report();
    connection.close(0u32, b"done");
    Ok((received.await?.ok_or("the server gave up")?, report))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (bytes, report) = transfer().await?;
    println!(
        "{bytes} bytes arrived; signal in front of data: {:?}",
        report.signal
    );
    println!("window: {:?}", report.controller);
    Ok(())
}

#[tokio::test]
async fn data_travel_behind_the_one_signal() {
    let (bytes, report) = transfer().await.unwrap();
    assert_eq!(bytes, BYTES);
    let own = pathmark_transport::Signal::kind(&VcpSignal::default());
    assert_eq!(report.signal, Some(own));
}
