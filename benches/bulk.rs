//! Bulk transfer over one connection between two processes, across a veth pair with offloads,
//! compared with quinn in the same run.
//!
//! ```text
//!   cargo bench --bench bulk                      1 GiB, 5 rounds, the two stacks taking turns
//!   cargo bench --bench bulk -- --rounds 9 --mib 256
//! ```
//!
//! Prints the medians of goodput and of processor seconds per GiB for sender and receiver, with the
//! ratios to quinn. Each process measures itself (`getrusage`), from before it opens its socket
//! until the end of the transfer.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_cc::Algorithm;
use pathmark_testbed::Testbed;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use serde::{Deserialize, Serialize};

const MTU: u32 = 1500;
const CHUNK: usize = 64 * 1024;
const ALPN: &[u8] = b"bulk";
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// The figures that a process reports for its side of a transfer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Half {
    seconds: f64,
    cpu_s: f64,
    peak_rss_kib: i64,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, default: u64| -> Result<u64> {
        match args.iter().position(|arg| arg == name) {
            Some(at) => Ok(args.get(at + 1).context("a number is missing")?.parse()?),
            None => Ok(default),
        }
    };
    let mib = option("--mib", 1024)?;
    match std::env::var("BULK_ROLE").ok().as_deref() {
        Some("receiver") => return role(receiver(&args)),
        Some("sender") => return role(sender(&args, mib)),
        _ => {}
    }
    compare(option("--rounds", 5)?, mib)
}

/// Computes a figure from the sender's and the receiver's side.
type Figure<'a> = &'a dyn Fn(&Half, &Half) -> f64;

fn compare(rounds: u64, mib: u64) -> Result<()> {
    let mut all: Vec<(&str, Half, Half)> = Vec::new();
    println!("{mib} MiB over a veth pair, MTU {MTU}, {rounds} rounds");
    for round in 1..=rounds {
        for stack in ["pathmark", "quinn"] {
            let (sender, receiver) = transfer(stack, mib)?;
            println!(
                "{round:2} {stack:9} {:7.0} Mbit/s   CPU s/GiB sender {:.3} receiver {:.3}",
                goodput(mib, sender),
                per_gib(mib, sender),
                per_gib(mib, receiver)
            );
            all.push((stack, sender, receiver));
        }
    }
    let median = |stack: &str, figure: Figure<'_>| {
        let mut values: Vec<f64> = all
            .iter()
            .filter(|(name, ..)| *name == stack)
            .map(|(_, sender, receiver)| figure(sender, receiver))
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let figures: [(&str, Figure<'_>); 4] = [
        ("goodput Mbit/s", &|sender, _| goodput(mib, *sender)),
        ("sender CPU s/GiB", &|sender, _| per_gib(mib, *sender)),
        ("receiver CPU s/GiB", &|_, receiver| per_gib(mib, *receiver)),
        ("peak RSS KiB, both", &|sender, receiver| {
            (sender.peak_rss_kib + receiver.peak_rss_kib) as f64
        }),
    ];
    println!(
        "{:20} {:>10} {:>10} {:>7}",
        "median", "pathmark", "quinn", "ratio"
    );
    for (name, figure) in figures {
        let (ours, theirs) = (median("pathmark", figure), median("quinn", figure));
        println!("{name:20} {ours:10.3} {theirs:10.3} {:7.3}", ours / theirs);
    }
    Ok(())
}

fn goodput(mib: u64, half: Half) -> f64 {
    mib as f64 * 1_048_576.0 * 8.0 / half.seconds * 1e-6
}

fn per_gib(mib: u64, half: Half) -> f64 {
    half.cpu_s * 1024.0 / mib as f64
}

/// Runs one transfer in its own test bed, and returns the sender's and the receiver's side.
fn transfer(stack: &str, mib: u64) -> Result<(Half, Half)> {
    let bed = Testbed::new()?;
    let (a, b) = (bed.node("sender")?, bed.node("receiver")?);
    bed.veth((&a, "eth0"), (&b, "eth0"), MTU)?;
    a.add_address("eth0", "10.0.0.1/24".parse()?)?;
    b.add_address("eth0", "10.0.0.2/24".parse()?)?;
    let program = |role: &str, extra: &[&str]| -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env("BULK_ROLE", role)
            .args(["--mib", &mib.to_string(), stack])
            .args(extra)
            .stdout(Stdio::piped());
        Ok(command)
    };
    let mut receiver = b.spawn(program("receiver", &[])?, &[])?;
    let output = receiver.child().stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines();
    let certificate = lines.next().context("the receiver said nothing")??;
    let mut sender = a.spawn(program("sender", &["--certificate", &certificate])?, &[])?;
    let output = sender.child().stdout.take().context("no output")?;
    let sent = BufReader::new(output)
        .lines()
        .next()
        .context("the sender said nothing")??;
    let received = lines.next().context("the receiver said no more")??;
    sender.wait()?;
    receiver.wait()?;
    Ok((
        serde_json::from_str(&sent)?,
        serde_json::from_str(&received)?,
    ))
}

fn role(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn say(half: &Half) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, half)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn now() -> Instant {
    Instant::now()
}

fn half(begun: Instant) -> Result<Half> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    Ok(Half {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_s: seconds(usage.user_time()) + seconds(usage.system_time()),
        peak_rss_kib: usage.max_rss(),
    })
}

fn is_quinn(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "quinn")
}

const ANYWHERE: &str = "10.0.0.2:4433";

async fn receiver(args: &[String]) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["receiver".to_owned()])?;
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key);
    let address: SocketAddr = ANYWHERE.parse()?;
    let hex: String = certificate.iter().map(|b| format!("{b:02x}")).collect();
    if is_quinn(args) {
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
        let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        let endpoint = quinn::Endpoint::server(config, address)?;
        println!("{hex}");
        let connection = endpoint.accept().await.context("closed")?.await?;
        let begun = now();
        let mut stream = connection.accept_uni().await?;
        while stream.read_chunk(usize::MAX, true).await?.is_some() {}
        say(&half(begun)?)?;
        connection.closed().await;
    } else {
        let tls = TlsServerConfig::new(vec![certificate], key.into(), &[ALPN])?;
        let transport = pathmark::transport_config(&Algorithm::parse("cubic")?);
        let config = ServerConfig::with_transport(Arc::new(tls), Arc::new(transport));
        let endpoint = Endpoint::server(config, address)?;
        println!("{hex}");
        let connection = endpoint.accept().await.context("closed")?.accept()?.await?;
        let begun = now();
        let mut stream = connection.accept_uni().await?;
        while stream.read_chunk().await?.is_some() {}
        say(&half(begun)?)?;
        connection.closed().await;
    }
    Ok(())
}

async fn sender(args: &[String], mib: u64) -> Result<()> {
    let at = args
        .iter()
        .position(|arg| arg == "--certificate")
        .context("no certificate")?;
    let hex = args.get(at + 1).context("no certificate")?;
    let bytes: Option<Vec<u8>> = (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok())
        .collect();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(bytes.context("not hexadecimal")?.into())?;
    let address: SocketAddr = ANYWHERE.parse()?;
    let local: SocketAddr = "10.0.0.1:0".parse()?;
    let chunks = mib * 1_048_576 / CHUNK as u64;
    if is_quinn(args) {
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let endpoint = quinn::Endpoint::client(local)?;
        let connection = endpoint.connect_with(config, address, "receiver")?.await?;
        let begun = now();
        let mut stream = connection.open_uni().await?;
        for _ in 0..chunks {
            stream.write_chunk(Bytes::from_static(&ZEROS)).await?;
        }
        stream.finish()?;
        if stream.stopped().await?.is_some() {
            bail!("stopped");
        }
        say(&half(begun)?)?;
        connection.close(0u32.into(), b"done");
        endpoint.wait_idle().await;
    } else {
        let tls = TlsClientConfig::new(Trust::Roots(Arc::new(roots)), &[ALPN])?;
        let transport = pathmark::transport_config(&Algorithm::parse("cubic")?);
        let config = ClientConfig::with_transport(Arc::new(tls), Arc::new(transport));
        let endpoint = Endpoint::client(local)?;
        let connection = endpoint.connect_with(config, address, "receiver")?.await?;
        let begun = now();
        let mut stream = connection.open_uni().await?;
        for _ in 0..chunks {
            stream.write_chunk(Bytes::from_static(&ZEROS)).await?;
        }
        stream.finish()?;
        if stream.stopped().await?.is_some() {
            bail!("stopped");
        }
        say(&half(begun)?)?;
        connection.close(0_u32.into(), b"done");
        endpoint.wait_idle().await;
    }
    Ok(())
}
