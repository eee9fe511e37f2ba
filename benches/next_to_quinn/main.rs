//! Measurements of the transport next to quinn, in the same run and by the same program.
//!
//! ```text
//!   cargo bench --bench next_to_quinn                    all, 3 rounds of 2 s each: 15 minutes
//!   cargo bench --bench next_to_quinn -- calls           those whose name has this word
//!   cargo bench --bench next_to_quinn -- calls --rounds 5 --ms 1000
//! ```
//!
//! The two libraries take turns over loopback, each with its own default configuration, except that
//! the largest packet is the same. The bench prints the medians of the rounds, and pathmark's
//! figure divided by quinn's. Processor times are those of both ends together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::{Builder, Runtime};

mod of_pathmark {
    #![allow(unused_mut, reason = "quinn's endpoints must be mutable")]

    use pathmark as api;

    use super::MTU;

    include!("program.rs");

    fn transport() -> api::TransportConfig {
        let mut config = api::TransportConfig::default();
        config.max_mtu = Some(MTU);
        config
    }

    fn endpoint_config() -> Result<api::EndpointConfig> {
        Ok(api::EndpointConfig::default())
    }
}

mod of_quinn {
    use quinn as api;

    use super::MTU;

    include!("program.rs");

    fn transport() -> api::TransportConfig {
        let mut search = api::MtuDiscoveryConfig::default();
        search.upper_bound(MTU);
        let mut config = api::TransportConfig::default();
        config.mtu_discovery_config(Some(search));
        config
    }

    fn endpoint_config() -> Result<api::EndpointConfig> {
        let mut config = api::EndpointConfig::default();
        config.max_udp_payload_size(MTU)?;
        Ok(config)
    }
}

/// Largest packet, in bytes of UDP payload. With 8952 bytes, connections of quinn time out.
const MTU: u16 = 1452;

/// Time after which a measurement fails.
const LIMIT: Duration = Duration::from_secs(120);

/// Bytes of a call, and of its answer.
const CALL: usize = 1000;

/// The figures of one run by their names.
type Figures = Vec<(&'static str, f64)>;

/// Where bulk data go, as seen by the client.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Up,
    Down,
    Both,
}

/// Certificate and key of the server.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        Ok(Self {
            certificate: made.cert.der().clone(),
            key: key.map_err(anyhow::Error::msg)?,
        })
    }

    fn server(&self) -> Result<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![b"bench".to_vec()];
        Ok(config)
    }

    fn client(&self) -> Result<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = rustls::ClientConfig::builder()
            .with_root_certificates(Arc::new(roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"bench".to_vec()];
        Ok(config)
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the processor time of this process so far in seconds.
fn cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn threads(workers: usize) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    Ok(builder.worker_threads(workers).enable_all().build()?)
}

/// The measurements that the command line selects.
struct Selection {
    /// A part of their names.
    word: String,
    rounds: usize,
    time: Duration,
    /// How many were selected so far.
    found: usize,
}

impl Selection {
    fn from_args() -> Result<Self> {
        let mut selection = Self {
            word: String::new(),
            rounds: 3,
            time: Duration::from_secs(2),
            found: 0,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut number = || args.next().context("a number is missing");
            match arg.as_str() {
                "--rounds" => selection.rounds = number()?.parse()?,
                "--ms" => selection.time = Duration::from_millis(number()?.parse()?),
                // Cargo adds this.
                "--bench" => {}
                option if option.starts_with("--") => bail!("{option} is no option"),
                word => word.clone_into(&mut selection.word),
            }
        }
        Ok(selection)
    }

    /// Measures by turns if `name` is selected, and prints the medians.
    fn compare(&mut self, name: &str, measure: [&dyn Fn() -> Result<Figures>; 2]) -> Result<()> {
        if !name.contains(&self.word) {
            return Ok(());
        }
        self.found += 1;
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..self.rounds {
            for (runs, measure) in runs.iter_mut().zip(measure) {
                runs.push(measure()?);
            }
        }
        println!("{name}: pathmark, quinn, ratio");
        let [ours, theirs] = &runs;
        for (at, (figure, _)) in ours.first().context("no round")?.iter().enumerate() {
            let median = |runs: &[Figures]| {
                let mut values: Vec<f64> = runs.iter().map(|run| run[at].1).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let (ours, theirs) = (median(ours), median(theirs));
            println!(
                "  {figure:26} {ours:11.3} {theirs:11.3} {:7.2}",
                ours / theirs
            );
        }
        Ok(())
    }
}

/// The same measurement with both libraries, each in a runtime of its own.
macro_rules! both {
    ($start:expr, $measure:ident($($argument:expr),*)) => {
        [
            &|| in_time(&$start()?, of_pathmark::$measure($($argument),*)),
            &|| in_time(&$start()?, of_quinn::$measure($($argument),*)),
        ]
    };
}

/// Runs a measurement, which fails after [`LIMIT`], so that you notice a library that hangs.
fn in_time(runtime: &Runtime, measure: impl Future<Output = Result<Figures>>) -> Result<Figures> {
    runtime.block_on(async { tokio::time::timeout(LIMIT, measure).await? })
}

fn main() -> Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut selection = Selection::from_args()?;
    let identity = &Identity::new()?;
    let time = selection.time;
    for len in [1100, 100] {
        let name = format!("datagrams of {len} bytes");
        selection.compare(&name, both!(one_thread, datagrams(identity, len, time)))?;
    }
    for bulk in [Direction::Up, Direction::Down, Direction::Both] {
        let name = format!("calls beside bulk, {bulk:?}");
        selection.compare(
            &name,
            both!(one_thread, calls_beside_bulk(identity, bulk, time)),
        )?;
    }
    type Start = fn() -> Result<Runtime>;
    let runtimes: [(&str, Start); 3] = [
        ("one thread", one_thread),
        ("one worker", || threads(1)),
        ("two workers", || threads(2)),
    ];
    for (connections, at_once) in [(100, 4), (1, 1)] {
        for (name, start) in runtimes {
            let name = format!("calls, {at_once} at once on {connections} connections, {name}");
            selection.compare(
                &name,
                both!(start, calls(identity, connections, at_once, time)),
            )?;
        }
    }
    selection.compare(
        "fresh streams beside slow readers",
        both!(one_thread, fresh_beside_slow(identity)),
    )?;
    selection.compare(
        "fresh streams beside unread data",
        both!(one_thread, fresh_beside_unread(identity)),
    )?;
    ensure!(
        selection.found > 0,
        "no measurement is called {:?}",
        selection.word
    );
    Ok(())
}
