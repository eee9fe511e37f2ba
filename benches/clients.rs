//! Uploads from 1, 8 and 64 clients at once to one server, over loopback. This measures how many
//! packets are opened by tasks other than the one that reads the server's socket, and how much this
//! gains.
//!
//! ```text
//!   cargo bench --bench clients                       512 MiB in all, 5 rounds
//!   cargo bench --bench clients -- --rounds 9 --mib 256 --threads 4
//! ```
//!
//! The server's runtime either has one thread, on which the reading task opens every packet, or
//! several (`--threads`, default 2), on which connections' tasks open their own packets. The two
//! variants alternate. The clients have one thread per connection, up to four, in the same process.
//! For each number of clients, the bench prints medians of the total goodput, its ratio to the
//! goodput with one thread, and the share of datagrams that connections' tasks opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_cc::Algorithm;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const CHUNK: usize = 64 * 1024;
const ALPN: &[u8] = b"bulk";
static ZEROS: [u8; CHUNK] = [0; CHUNK];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, default: usize| -> Result<usize> {
        match args.iter().position(|arg| arg == name) {
            Some(at) => Ok(args.get(at + 1).context("a number is missing")?.parse()?),
            None => Ok(default),
        }
    };
    let (rounds, mib) = (option("--rounds", 5)?, option("--mib", 512)?);
    let threads = option("--threads", 2)?;
    println!("{mib} MiB over loopback, server with 1 or {threads} threads, {rounds} rounds");
    for clients in [1, 8, 64] {
        let mut runs = [1, threads].map(|threads| (threads, Vec::new(), Vec::new()));
        for _ in 0..rounds {
            for (threads, rates, shares) in &mut runs {
                let (rate, share) = run(*threads, clients, mib)?;
                rates.push(rate);
                shares.push(share);
            }
        }
        let one = median(&mut runs[0].1);
        for (threads, rates, shares) in &mut runs {
            let rate = median(rates);
            println!(
                "{clients:2} clients, {threads} threads: {rate:6.0} Mbit/s, ratio {:.3}, \
                 {:5.1} % opened by the connections' tasks",
                rate / one,
                100.0 * median(shares)
            );
        }
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn runtime(threads: usize) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

/// Returns the goodput of all clients in Mbit/s, and the share of datagrams that connections' tasks
/// opened.
fn run(threads: usize, clients: usize, mib: usize) -> Result<(f64, f64)> {
    let server = runtime(threads)?;
    let others = runtime(clients.min(4))?;
    let made = rcgen::generate_simple_self_signed(["server".to_owned()])?;
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let tls = TlsServerConfig::new(vec![certificate], key.into(), &[ALPN])?;
    let transport = Arc::new(pathmark::transport_config(&Algorithm::parse("cubic")?));
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let (tell, address) = oneshot::channel();
    let serving = server.spawn(serve(config, clients, tell));
    let address = others.block_on(address)?;
    let tls = TlsClientConfig::new(Trust::Roots(Arc::new(roots)), &[ALPN])?;
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let chunks = mib * 1_048_576 / CHUNK / clients;
    let begun = now();
    others.block_on(async {
        let mut uploads = JoinSet::new();
        for _ in 0..clients {
            uploads.spawn(upload(config.clone(), address, chunks));
        }
        while let Some(done) = uploads.join_next().await {
            done??;
        }
        anyhow::Ok(())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let share = server.block_on(serving)??;
    let bits = (chunks * clients * CHUNK) as f64 * 8.0;
    Ok((bits / seconds * 1e-6, share))
}

async fn serve(
    config: ServerConfig,
    clients: usize,
    tell: oneshot::Sender<SocketAddr>,
) -> Result<f64> {
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    ensure!(
        tell.send(endpoint.local_address()).is_ok(),
        "the clients have gone"
    );
    let mut connections = JoinSet::new();
    for _ in 0..clients {
        let incoming = endpoint.accept().await.context("closed")?;
        connections.spawn(async move {
            let connection = incoming.accept()?.await?;
            let mut stream = connection.accept_uni().await?;
            while stream.read_chunk().await?.is_some() {}
            connection.closed().await;
            anyhow::Ok(())
        });
    }
    while let Some(done) = connections.join_next().await {
        done??;
    }
    let stats = endpoint.stats();
    Ok(stats.handed_over as f64 / stats.received as f64)
}

async fn upload(config: ClientConfig, server: SocketAddr, chunks: usize) -> Result<()> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = endpoint.connect_with(config, server, "server")?.await?;
    let mut stream = connection.open_uni().await?;
    for _ in 0..chunks {
        stream.write_chunk(Bytes::from_static(&ZEROS)).await?;
    }
    stream.finish()?;
    ensure!(stream.stopped().await?.is_none(), "the server gave up");
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn now() -> Instant {
    Instant::now()
}
