//! An application that brings its own congestion controller: `cargo run --example custom_controller`.
//!
//! The law here aims at a fixed queueing delay: the window grows while the round trip is less than 10 ms above the least
//! one seen, and shrinks in proportion when it is more. It is no rival for the laws of `pathmark::cc`, but it is whole:
//! it starts, follows the path, halves on loss and reports its state.

use std::error::Error;
use std::sync::Arc;

use pathmark::cc::{Acked, Controller, Duration, Instant, Lost, Metrics, Phase};
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

const TARGET: Duration = Duration::from_millis(10);
const ALPN: &[u8] = b"example";

/// Keeps about [`TARGET`] of queue.
#[derive(Debug)]
struct SteadyDelay {
    /// Bytes.
    window: u64,
    mtu: u64,
    /// Losses of packets sent before belong to a round trip that was answered already.
    recovery_until: u64,
}

impl SteadyDelay {
    fn new(mtu: u16) -> Self {
        let mtu = u64::from(mtu);
        Self {
            window: 10 * mtu,
            mtu,
            recovery_until: 0,
        }
    }
}

impl Controller for SteadyDelay {
    fn on_ack(&mut self, _now: Instant, acked: &Acked) {
        let queued = acked.srtt.saturating_sub(acked.min_rtt);
        if queued > TARGET {
            self.window = self.window.saturating_sub(acked.bytes / 8);
        } else if acked.window_limited {
            self.window += acked.bytes / 2;
        }
        self.window = self.window.max(2 * self.mtu);
    }

    fn on_loss(&mut self, _now: Instant, lost: &Lost) {
        if lost.largest >= self.recovery_until {
            self.recovery_until = lost.last_sent + 1;
            self.window = (self.window / 2).max(2 * self.mtu);
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window = 2 * self.mtu;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Metrics {
        Metrics::new("steady-delay", Phase::Avoidance, self.window)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let certificate = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[ALPN])?;
    let trust = Trust::Pin(certificate.pin().ok_or("no certificate")?);

    // Every `Fn(Instant, u16) -> Box<dyn Controller>` is a factory: one controller per path.
    let transport = Arc::new(TransportConfig::new(Arc::new(|_now: Instant, mtu: u16| {
        Box::new(SteadyDelay::new(mtu)) as Box<dyn Controller>
    })));
    let server = Endpoint::server(
        ServerConfig::new(Arc::new(certificate), Arc::clone(&transport)),
        "127.0.0.1:0".parse()?,
    )?;
    let address = server.local_address();
    let receiving = tokio::spawn(async move {
        let connection = server.accept().await?.accept().ok()?.await.ok()?;
        let mut stream = connection.accept_uni().await.ok()?;
        let mut bytes = 0;
        while let Some(chunk) = stream.read_chunk().await.ok()? {
            bytes += chunk.len();
        }
        Some(bytes)
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let tls = TlsClientConfig::new(trust, &[ALPN])?;
    let config = ClientConfig::new(Arc::new(tls), transport);
    let connection = client.connect(config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; 50 << 20]).await?;
    stream.finish()?;
    stream.stopped().await?;
    let report = connection.path_report();
    println!(
        "{} has a window of {} bytes after 50 MiB, round trip {:?}",
        report.controller.ruling, report.controller.window, report.smoothed_rtt
    );
    connection.close(0, b"done");
    println!("received {:?} bytes", receiving.await?);
    Ok(())
}
