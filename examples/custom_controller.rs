//! An application that brings its own congestion controller. Run it with `cargo run --example
//! custom_controller`. The tests at the end check its law over emulated paths: `cargo test
//! --example custom_controller`.
//!
//! The law aims at a fixed queueing delay: while the round trip is less than 10 ms above the
//! minimum seen, the window grows, more slowly the closer it is to this target; above the target,
//! the window shrinks. It cannot compete with the laws of `pathmark::cc`, but it is complete: it
//! starts, follows the path, halves its window on loss and reports its state.

use std::error::Error;
use std::sync::Arc;

use pathmark::cc::{Acked, Controller, Duration, Instant, Lost, Metrics, Phase};
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

const TARGET: Duration = Duration::from_millis(10);
const ALPN: &[u8] = b"example";

/// Keeps the queueing delay at about [`TARGET`].
#[derive(Debug)]
struct SteadyDelay {
    /// Congestion window in bytes.
    window: u64,
    mtu: u64,
    /// Losses of packets with lower numbers belong to a round trip for which the window was already
    /// halved.
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
            let short = TARGET.saturating_sub(queued).as_micros() as u64;
            self.window += acked.bytes * short / (2 * TARGET.as_micros() as u64);
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

    // Any `Fn(Instant, u16) -> Box<dyn Controller>` is a factory, called once for each path.
    let transport = Arc::new(TransportConfig::new(Arc::new(|_now: Instant, mtu: u16| {
        Box::new(SteadyDelay::new(mtu)) as Box<dyn Controller>
    })));
    let server = Endpoint::server(
        ServerConfig::with_transport(Arc::new(certificate), Arc::clone(&transport)),
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
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; 50 << 20]).await?;
    stream.finish()?;
    stream.stopped().await?;
    let report = connection.path_report();
    println!(
        "{} has a window of {} bytes after 50 MiB, round trip {:?}",
        report.controller.ruling, report.controller.window, report.smoothed_rtt
    );
    connection.close(0_u32.into(), b"done");
    println!("received {:?} bytes", receiving.await?);
    Ok(())
}

/// Checks the law's promises on emulated paths, with real connections of this library.
#[cfg(test)]
mod tests {
    use pathmark::testkit::{Figures, Flow, Path, Trial};

    use super::*;

    fn run(path: &Path, flow: Flow) -> Result<Figures, Box<dyn Error>> {
        let trial = Trial::over(path, &[flow], Duration::from_secs(60))?;
        let law = |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(SteadyDelay::new(mtu)) };
        Ok(trial.controller("own", "steady-delay", law).run()?)
    }

    #[test]
    fn it_fills_the_link_and_keeps_ten_milliseconds_of_queue() -> Result<(), Box<dyn Error>> {
        let path = Path::new("20Mbit", Duration::from_millis(50)).queue("4bdp");
        let figures = run(&path, Flow::new("own"))?;
        let queue = figures.link("bottleneck").and_then(|link| link.queue_ms);
        let mean = queue.ok_or("no queue")?.mean;
        figures
            .expect()
            .used_within("bottleneck", Duration::from_secs(1))
            .utilization_at_least("bottleneck", 0.95)
            .drops_at_most("bottleneck", 0)
            .that(
                "mean queue",
                format!("{mean:.1} ms"),
                "5 to 15 ms",
                (5.0..15.0).contains(&mean),
            )
            .met()?;
        Ok(())
    }

    #[test]
    fn a_file_takes_little_longer_than_the_link_needs() -> Result<(), Box<dyn Error>> {
        // At 20 Mbit/s, 10 MB take 4 s.
        let path = Path::new("20Mbit", Duration::from_millis(50));
        let figures = run(&path, Flow::new("own").bytes(10_000_000))?;
        let limit = Duration::from_millis(4_800);
        figures.expect().completion_within("own", limit).met()?;
        Ok(())
    }

    #[test]
    fn a_little_loss_does_not_stop_it() -> Result<(), Box<dyn Error>> {
        let path = Path::new("20Mbit", Duration::from_millis(50)).loss(1e-3);
        let figures = run(&path, Flow::new("own"))?;
        figures.expect().goodput_at_least("own", 10e6).met()?;
        Ok(())
    }
}
