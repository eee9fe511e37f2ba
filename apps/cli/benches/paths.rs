//! Flows over real paths: TUN interfaces, router processes, real time. `cargo bench --bench paths
//! [-- NAME…]`.
//!
//! | name | path | measures |
//! |---|---|---|
//! | loss | 100 Mbit/s, 250 ms, one BDP, loss 0, 1e-4, 1e-3, 1e-2 | mean rate of a 30 s download, mean backlog |
//! | declared | the same, loss 0, 5 and 10 %, declared; VCP and `auto` | share of (1 − loss) |
//! | join | 20 Mbit/s, 100 ms | the share of a flow that joins a full link, 50 to 60 s later |
//! | droptail | 50 Mbit/s, 100 ms, no marking router | `vcp+bise+wlte` and `cubic`, each alone |
//! | hidden | a 5 Mbit/s DropTail hop before or after a 10 Mbit/s VCP router | the same |
//! | series | a `vcp` and a `vcp+bise` router in a row | drops, rate |
//!
//! Each flow is a download over its own connection; the figures are from its receiver and from the
//! routers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_cc::Algorithm;
use pathmark_cli::demo::bed::links;
use pathmark_emulator::result::LinkResult;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, RouterProgram, SENDER};

const ALPN: &[u8] = b"paths";
const VCP: &str = "vcp+bise+wlte";
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if runs("loss") {
        loss().await?;
    }
    if runs("declared") {
        declared().await?;
    }
    if runs("join") {
        join().await?;
    }
    if runs("droptail") {
        droptail().await?;
    }
    if runs("hidden") {
        hidden().await?;
    }
    if runs("series") {
        series().await?;
    }
    Ok(())
}

/// Returns a hop's ports; `queue` is in milliseconds at this rate.
fn hop(mbit: u64, one_way_ms: u64, queue_ms: u64, controller: &str, loss: f64) -> Hop {
    let port = |controller: &str, queue_ms: u64| {
        format!(
            "rate = \"{mbit}Mbit\"\ndelay = \"{one_way_ms}ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"{queue_ms}ms\" }}\n"
        )
    };
    let mut forward = port(controller, queue_ms);
    if loss > 0.0 {
        forward += &format!("loss = {{ kind = \"bernoulli\", per = {loss} }}\n");
    }
    Hop {
        forward,
        reverse: port("none", 4 * queue_ms),
    }
}

/// A path with a server on its sending host.
struct Path {
    chain: Chain,
    tls: Arc<TlsClientConfig>,
}

/// A download in progress.
struct Flow {
    received: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Path {
    fn new(hops: &[Hop], algorithm: &str) -> Result<Self> {
        let program = RouterProgram {
            program: env!("CARGO_BIN_EXE_pathmark").into(),
            prefix: vec!["vcp-router".to_owned()],
        };
        let chain = Chain::new(program, 1500, hops)?;
        let made = rcgen::generate_simple_self_signed(["sender".to_owned()])?;
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN])?;
        let trust = Trust::Pin(tls.pin().context("no pin")?);
        let transport = pathmark::transport_config(&Algorithm::parse(algorithm)?);
        let config = ServerConfig::with_transport(Arc::new(tls), Arc::new(transport));
        let socket = chain.sender.udp((SENDER, 4433).into())?;
        let server = Endpoint::from_socket(socket, Some(config))?;
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move {
                    let connection = incoming.accept().ok()?.await.ok()?;
                    let mut stream = connection.open_uni().await.ok()?;
                    // Until the receiver has enough data and closes the connection.
                    while stream.write_chunk(Bytes::from_static(&ZEROS)).await.is_ok() {}
                    Some(())
                });
            }
        });
        Ok(Self {
            chain,
            tls: Arc::new(TlsClientConfig::new(trust, &[ALPN])?),
        })
    }

    fn flow(&self, algorithm: &str) -> Result<Flow> {
        let transport = pathmark::transport_config(&Algorithm::parse(algorithm)?);
        let config = ClientConfig::with_transport(Arc::clone(&self.tls) as _, Arc::new(transport));
        let socket = self.chain.receiver.udp((RECEIVER, 0).into())?;
        let received = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received);
        let task = tokio::spawn(async move {
            let download = async {
                let endpoint = Endpoint::from_socket(socket, None)?;
                let connection = endpoint
                    .connect_with(config, (SENDER, 4433).into(), "sender")?
                    .await?;
                let mut stream = connection.accept_uni().await?;
                while let Some(chunk) = stream.read_chunk().await? {
                    counter.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                }
                anyhow::Ok(())
            };
            if let Err(error) = download.await {
                eprintln!("a flow ended: {error:#}");
            }
        });
        Ok(Flow { received, task })
    }

    fn link(&self, router: usize) -> Result<LinkResult> {
        links(&self.chain, router)?
            .into_iter()
            .next()
            .context("no link")
    }
}

impl Flow {
    /// Returns the mean rate over the next `seconds` in Mbit/s.
    async fn rate(&self, seconds: u64) -> f64 {
        let (begun, before) = (now(), self.received.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let bytes = self.received.load(Ordering::Relaxed) - before;
        bytes as f64 * 8e-6 / begun.elapsed().as_secs_f64()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn now() -> Instant {
    Instant::now()
}

async fn alone(
    hops: &[Hop],
    algorithm: &str,
    seconds: u64,
    bottleneck: usize,
) -> Result<(f64, LinkResult, u64)> {
    let path = Path::new(hops, algorithm)?;
    let flow = path.flow(algorithm)?;
    let rate = flow.rate(seconds).await;
    let mut drops = 0;
    for router in 0..hops.len() {
        drops += path.link(router)?.drops;
    }
    Ok((rate, path.link(bottleneck)?, drops))
}

async fn loss() -> Result<()> {
    println!("loss: 100 Mbit/s, 250 ms, queue of one BDP, 30 s download, start-up included");
    for loss in [0.0, 1e-4, 1e-3, 1e-2] {
        let hops = [hop(100, 125, 250, "vcp+bise", loss)];
        let (rate, link, drops) = alone(&hops, VCP, 30, 0).await?;
        let queue = link.queue_ms.unwrap_or_default().mean;
        println!(
            "  loss {loss:6}: {rate:6.2} Mbit/s, mean backlog {queue:.1} ms = {:.1} % of BDP, \
             drops {drops}",
            queue / 2.5
        );
    }
    Ok(())
}

async fn declared() -> Result<()> {
    println!("declared: the same with losses that the router declares");
    for (algorithm, controller) in [(VCP, "vcp+bise"), ("auto", "xcp")] {
        let mut clean = 0.0;
        for loss in [0.0, 0.05, 0.1] {
            let mut lossy = hop(100, 125, 250, controller, loss);
            lossy.forward += &format!("corruption = \"{}%\"\n", loss * 100.0);
            let (rate, _, drops) = alone(&[lossy], algorithm, 30, 0).await?;
            if loss == 0.0 {
                clean = rate;
            }
            println!(
                "  {algorithm:14} loss {loss:4}: {rate:6.2} Mbit/s, {:.3} of (1 - loss) of that \
                 without, drops {drops}",
                rate / clean / (1.0 - loss)
            );
        }
    }
    Ok(())
}

async fn join() -> Result<()> {
    println!("join: a second flow on a full 20 Mbit/s, 100 ms link");
    let path = Path::new(&[hop(20, 50, 100, "vcp+bise", 0.0)], VCP)?;
    let first = path.flow(VCP)?;
    first.rate(15).await;
    let second = path.flow(VCP)?;
    for from in [0, 10, 20, 30, 40, 50] {
        let (a, b) = tokio::join!(first.rate(10), second.rate(10));
        println!(
            "  {from}–{} s after joining: {a:.2} and {b:.2} Mbit/s, {:.0} % of its fair share",
            from + 10,
            200.0 * b / (a + b)
        );
    }
    println!("  drops {}", path.link(0)?.drops);
    Ok(())
}

async fn compare(name: &str, hops: &[Hop], bottleneck: usize) -> Result<()> {
    for algorithm in [VCP, "cubic"] {
        let (rate, link, drops) = alone(hops, algorithm, 40, bottleneck).await?;
        let queue = link.queue_ms.unwrap_or_default().mean;
        println!("  {name}, {algorithm:14} {rate:6.3} Mbit/s, drops {drops}, queue {queue:.1} ms");
    }
    Ok(())
}

async fn droptail() -> Result<()> {
    println!("droptail: no router marks, 40 s");
    compare("50 Mbit/s 100 ms", &[hop(50, 50, 100, "none", 0.0)], 0).await
}

async fn hidden() -> Result<()> {
    println!("hidden: a 5 Mbit/s DropTail hop and a 10 Mbit/s VCP router, 100 ms in all, 40 s");
    let (vcp, plain) = (
        hop(10, 25, 100, "vcp+bise", 0.0),
        hop(5, 25, 100, "none", 0.0),
    );
    compare("before", &[plain.clone(), vcp.clone()], 0).await?;
    compare("after", &[vcp, plain], 1).await
}

async fn series() -> Result<()> {
    println!("series: a vcp and a vcp+bise router in a row, 20 Mbit/s, 100 ms, 40 s");
    for hops in [["vcp", "vcp+bise"], ["vcp+bise", "vcp"]] {
        let hops_of = hops.map(|controller| hop(20, 25, 100, controller, 0.0));
        let (rate, _, drops) = alone(&hops_of, VCP, 40, 1).await?;
        println!(
            "  {} then {}: {rate:.2} Mbit/s, drops {drops}",
            hops[0], hops[1]
        );
    }
    Ok(())
}
