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

use anyhow::{Context, Result};
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

/// Bytes of a call, and of its answer.
const CALL: usize = 1000;

/// The figures of one run by their names.
type Figures = Vec<(&'static str, f64)>;

/// Datagrams of one size.
#[derive(Clone, Copy, Debug)]
struct Datagrams {
    len: usize,
    time: Duration,
}

/// Calls next to bulk data.
#[derive(Clone, Copy, Debug)]
struct Calls {
    bulk: Direction,
    time: Duration,
}

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
    word: String,
    rounds: usize,
    time: Duration,
}

impl Selection {
    fn from_args() -> Result<Self> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let number = |name: &str, default: u64| -> Result<u64> {
            match args.iter().position(|arg| arg == name) {
                Some(at) => Ok(args.get(at + 1).context("a number is missing")?.parse()?),
                None => Ok(default),
            }
        };
        // Cargo adds `--bench` at the end.
        let word = args.first().filter(|word| !word.starts_with("--"));
        Ok(Self {
            word: word.cloned().unwrap_or_default(),
            rounds: usize::try_from(number("--rounds", 3)?)?,
            time: Duration::from_millis(number("--ms", 2000)?),
        })
    }

    /// Measures by turns if `name` is selected, and prints the medians.
    fn compare(&self, name: &str, measure: [&dyn Fn() -> Result<Figures>; 2]) -> Result<()> {
        if !name.contains(&self.word) {
            return Ok(());
        }
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

fn main() -> Result<()> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let selection = Selection::from_args()?;
    let identity = Identity::new()?;
    let time = selection.time;
    for len in [1100, 100] {
        let case = Datagrams { len, time };
        selection.compare(
            &format!("datagrams of {len} bytes"),
            [
                &|| one_thread()?.block_on(of_pathmark::datagrams(&identity, &case)),
                &|| one_thread()?.block_on(of_quinn::datagrams(&identity, &case)),
            ],
        )?;
    }
    for bulk in [Direction::Up, Direction::Down, Direction::Both] {
        let case = Calls { bulk, time };
        selection.compare(
            &format!("calls beside bulk, {bulk:?}"),
            [
                &|| one_thread()?.block_on(of_pathmark::calls_beside_bulk(&identity, &case)),
                &|| one_thread()?.block_on(of_quinn::calls_beside_bulk(&identity, &case)),
            ],
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
            let ours = || of_pathmark::calls(&identity, connections, at_once, time);
            let theirs = || of_quinn::calls(&identity, connections, at_once, time);
            selection.compare(
                &format!("calls, {at_once} at once on {connections} connections, {name}"),
                [&|| start()?.block_on(ours()), &|| {
                    start()?.block_on(theirs())
                }],
            )?;
        }
    }
    // These last for 40 s whatever the command line says, because their faults grow slowly.
    let long = Duration::from_secs(40);
    selection.compare(
        "fresh streams beside slow readers",
        [
            &|| one_thread()?.block_on(of_pathmark::fresh_beside_slow(&identity, long)),
            &|| one_thread()?.block_on(of_quinn::fresh_beside_slow(&identity, long)),
        ],
    )?;
    selection.compare(
        "fresh streams beside unread data",
        [
            &|| one_thread()?.block_on(of_pathmark::fresh_beside_unread(&identity, long)),
            &|| one_thread()?.block_on(of_quinn::fresh_beside_unread(&identity, long)),
        ],
    )
}
