//! Runs a scenario of the emulator in real time: the same laws and ports over TUN interfaces,
//! between processes and sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use pathmark_cc::Algorithm;
use pathmark_emulator::Scenario;
use pathmark_emulator::result::jain;
use pathmark_emulator::result::{FlowResult, RunResult};
use pathmark_emulator::scenario::Pattern;
use pathmark_link::impair::Random;
use pathmark_testbed::Node;
use pathmark_testbed::chain::{Chain, RECEIVER, RouterProgram, SENDER};
use tokio::task::JoinSet;

use super::bed;
use super::plan::{Load, Plan, Planned};
use super::run::now;
use super::transfer::{Meter, self_signed};
use crate::report::SenderReport;
use pathmark::tls::{TlsClientConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig};

const ALPN: &[u8] = b"pathmark-demo";
/// Port of the first receiver. Each flow uses the next port.
const FIRST_PORT: u16 = 5000;
/// Size of the IPv4 and UDP headers.
const HEADERS: u16 = 28;
/// How much longer than the scenario a run can take.
const GRACE: Duration = Duration::from_secs(1);

/// Runs `scenario` between namespaces of this machine.
///
/// # Errors
/// Fails if the test bed doesn't support the scenario or can't be created, or if a connection
/// fails.
pub async fn run(scenario: &Scenario, program: RouterProgram) -> Result<RunResult> {
    let plan = Plan::new(scenario)?;
    let chain = Chain::new(program, plan.mtu, &plan.hops)?;
    let begun = now();
    let meters: Vec<Arc<Meter>> = plan.flows.iter().map(|flow| meter(begun, flow)).collect();
    let mut finite = JoinSet::new();
    let mut background = JoinSet::new();
    for (index, (flow, meter)) in plan.flows.iter().zip(&meters).enumerate() {
        let port = FIRST_PORT + u16::try_from(index).context("too many flows")?;
        let (from, to, address) = if flow.backwards {
            (&chain.receiver, &chain.sender, SENDER)
        } else {
            (&chain.sender, &chain.receiver, RECEIVER)
        };
        let ends = Ends::new(from, to, (address, port).into())?;
        let (start, meter, limit) = (flow.setup.start, Arc::clone(meter), plan.limit);
        let payload = plan.payload()?;
        match flow.load.clone() {
            Load::Bytes(law, bytes) => {
                let job = async move {
                    tokio::time::sleep(start).await;
                    let sent = transfer(ends, &law, payload, bytes, &meter);
                    match tokio::time::timeout(limit.saturating_sub(start), sent).await {
                        Ok(report) => report.map(|report| (index, Some(report))),
                        Err(_) => Ok((index, None)),
                    }
                };
                if flow.setup.bytes.is_some() {
                    finite.spawn(job);
                } else {
                    background.spawn(job);
                }
            }
            Load::Datagrams(pattern) => {
                let random = Random::new(scenario.seed, &flow.setup.name);
                let size = usize::from(payload);
                background.spawn(async move {
                    tokio::time::sleep(start).await;
                    datagrams(ends, pattern, size, random, &meter, limit).await?;
                    Ok((index, None))
                });
            }
        }
    }
    let mut reports = vec![None; plan.flows.len()];
    let (ended, other) = if finite.is_empty() {
        (&mut background, &mut finite)
    } else {
        (&mut finite, &mut background)
    };
    while let Some(done) = ended.join_next().await {
        let (index, report) = done??;
        if let Some(slot) = reports.get_mut(index) {
            *slot = report;
        }
    }
    other.abort_all();
    let seconds = begun.elapsed().min(plan.limit + GRACE).as_secs_f64();
    let mut links = Vec::new();
    for (index, names) in plan.names.iter().enumerate() {
        for (mut link, name) in bed::links(&chain, index)?.into_iter().zip(names) {
            link.name.clone_from(name);
            links.push(link);
        }
    }
    let each = plan.flows.iter().zip(&meters).zip(&reports);
    let flows: Vec<FlowResult> = each
        .map(|((flow, meter), report)| result(scenario, flow, meter, report.as_ref()))
        .collect();
    Ok(RunResult {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        simulated_s: seconds,
        wall_s: seconds,
        jain: jain(flows.iter().map(|flow| flow.goodput_bps)),
        flows,
        links,
        ..RunResult::default()
    })
}

impl Plan {
    /// Returns the maximum UDP payload of a packet in bytes.
    fn payload(&self) -> Result<u16> {
        Ok(u16::try_from(self.mtu)?.saturating_sub(HEADERS))
    }
}

fn meter(begun: std::time::Instant, flow: &Planned) -> Arc<Meter> {
    let wanted = flow.setup.bytes.unwrap_or(u64::MAX);
    let meter = Meter::new(wanted);
    meter.begin(begun + flow.setup.start);
    Arc::new(meter)
}

fn result(
    scenario: &Scenario,
    flow: &Planned,
    meter: &Meter,
    report: Option<&SenderReport>,
) -> FlowResult {
    let setup = &flow.setup;
    let node = |index: usize| scenario.nodes.get(index).cloned().unwrap_or_default();
    FlowResult {
        name: setup.name.clone(),
        algorithm: setup.algorithm_name(),
        from: node(setup.from),
        to: node(setup.to),
        start_s: setup.start.as_secs_f64(),
        bytes_requested: setup.bytes,
        controllers: report.map(|report| report.controllers.clone()),
        ..meter.result(report)
    }
}

/// A flow's sockets.
struct Ends {
    from: UdpSocket,
    to: UdpSocket,
    address: SocketAddr,
}

impl Ends {
    fn new(from: &Node, to: &Node, address: SocketAddr) -> Result<Self> {
        Ok(Self {
            from: from.udp((Ipv4Addr::UNSPECIFIED, 0).into())?,
            to: to.udp(address)?,
            address,
        })
    }
}

/// Moves `bytes` over a connection in the same way as the emulator's flows: the sender connects
/// and writes one stream.
async fn transfer(
    ends: Ends,
    law: &Algorithm,
    payload: u16,
    bytes: u64,
    meter: &Arc<Meter>,
) -> Result<SenderReport> {
    let tls = self_signed(ALPN)?;
    let pin = tls.pin().context("a certificate has a pin")?;
    let mut transport = pathmark::transport_config(law);
    // The path's MTU is known, as it is to the emulator's endpoints.
    (transport.initial_mtu, transport.max_mtu) = (payload, Some(payload));
    let transport = Arc::new(transport);
    let receiver = Endpoint::from_socket(
        ends.to,
        Some(ServerConfig::with_transport(
            Arc::new(tls),
            Arc::clone(&transport),
        )),
    )?;
    let counting = Arc::clone(meter);
    let receiving = tokio::spawn(async move {
        let incoming = receiver.accept().await.context("the endpoint closed")?;
        let connection = incoming.accept()?.await?;
        let mut stream = connection.accept_uni().await?;
        while let Some(chunk) = stream.read_chunk().await? {
            counting.add(chunk.len() as u64);
        }
        // The sender closes the connection when all its data is acknowledged.
        let _ = connection.accept_uni().await;
        anyhow::Ok(())
    });
    let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN])?;
    let sender = Endpoint::from_socket(ends.from, None)?;
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let connection = sender
        .connect_with(config, ends.address, "localhost")?
        .await?;
    let mut stream = connection.open_uni().await?;
    let mut left = bytes;
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    while left > 0 {
        let size = usize::try_from(left.min(ZEROS.len() as u64)).unwrap_or(ZEROS.len());
        stream
            .write_chunk(Bytes::from_static(&ZEROS).slice(..size))
            .await?;
        left -= size as u64;
    }
    stream.finish()?;
    stream.stopped().await?;
    let report = SenderReport::of(&connection);
    connection.close(0_u32.into(), b"done");
    receiving.abort();
    Ok(report)
}

/// Sends datagrams at a rate, either evenly or as a Poisson process.
async fn datagrams(
    ends: Ends,
    pattern: Pattern,
    size: usize,
    mut random: Random,
    meter: &Meter,
    limit: Duration,
) -> Result<()> {
    ends.from.set_nonblocking(true)?;
    let from = tokio::net::UdpSocket::from_std(ends.from)?;
    let payload = vec![0; size];
    let mean = (size + usize::from(HEADERS)) as f64 / pattern.rate.max(1) as f64;
    let begun = now();
    let mut due = 0.0;
    while due < limit.as_secs_f64() {
        let wait = Duration::from_secs_f64(due).saturating_sub(begun.elapsed());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        // Datagrams that exceed the host's queue are lost.
        if from.send_to(&payload, ends.address).await.is_ok() {
            meter.add(size as u64);
        }
        let gap = if pattern.poisson {
            let uniform = (f64::from(random.next_u32()) + 1.0) / 4_294_967_296.0;
            -uniform.ln()
        } else {
            1.0
        };
        due += gap * mean;
    }
    Ok(())
}
