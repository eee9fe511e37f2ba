//! A test bed for one run: two hosts with a router process between them.

use std::net::IpAddr;

use anyhow::{Context, Result};
use pathmark_emulator::result::LinkResult;
use pathmark_router::daemon::{Query, ask};
use pathmark_testbed::Node;
use pathmark_testbed::chain::{Addresses, Chain, Hop, RECEIVER, SENDER};
use serde::Deserialize;
use serde_json::Value;

use super::scenario::{Scenario, Stack};

pub use pathmark_testbed::chain::RouterProgram;

/// Maximum size of IP packets on the path.
const MTU: u32 = 1500;
/// The sender's address.
pub const SERVER: IpAddr = SENDER;
/// The receiver's address.
pub const CLIENT: IpAddr = RECEIVER;

/// Two hosts with a router between them, which dropping this removes completely.
#[derive(Debug)]
pub struct Bed {
    chain: Chain,
}

/// One row of the router's time series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Unix time in seconds.
    pub unix_s: f64,
    /// Bytes sent so far.
    pub sent_bytes: f64,
    /// Bytes in the queue.
    pub queue_bytes: f64,
}

impl Bed {
    /// Builds the bed and starts the router. Each round loses different packets.
    ///
    /// # Errors
    /// Fails if the machine forbids namespaces or TUN interfaces, or if the router doesn't start.
    pub fn new(
        scenario: &Scenario,
        stack: &Stack,
        program: RouterProgram,
        round: u32,
    ) -> Result<Self> {
        let (rate, delay) = (scenario.rate_bps, scenario.delay_ms);
        let rtt = 2 * delay;
        let mut forward = format!(
            r#"rate = "{rate}bit"
delay = "{delay}ms"
controller = "{}"
queue = {{ kind = "droptail", limit = "1bdp", rtt = "{rtt}ms", separate = false }}
"#,
            stack.link_controller(),
        );
        if scenario.loss > 0.0 {
            forward += &format!(
                "loss = {{ kind = \"bernoulli\", per = {} }}\n",
                scenario.loss
            );
        }
        let reverse = format!(
            r#"rate = "{rate}bit"
delay = "{delay}ms"
queue = {{ kind = "droptail", limit = "4bdp", rtt = "{rtt}ms" }}
"#
        );
        let chain = Chain::with(
            program,
            MTU,
            &[Hop { forward, reverse }],
            Addresses::V4,
            round.into(),
        )?;
        Ok(Self { chain })
    }

    /// Returns the sender's host.
    pub fn server(&self) -> &Node {
        &self.chain.sender
    }

    /// Returns the receiver's host.
    pub fn client(&self) -> &Node {
        &self.chain.receiver
    }

    /// Returns the router's view of the links: the bottleneck and its reverse.
    ///
    /// # Errors
    /// Fails if the router doesn't answer.
    pub fn links(&self) -> Result<Vec<LinkResult>> {
        let mut links = links(&self.chain, 0)?;
        for (link, name) in links.iter_mut().zip(["bottleneck", "bottleneck.reverse"]) {
            name.clone_into(&mut link.name);
        }
        Ok(links)
    }

    /// Stops the router and reads its time series of the bottleneck.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn finish(mut self) -> Result<Vec<Sample>> {
        self.chain.stop(0)?;
        let text = std::fs::read_to_string(self.chain.record(0))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| {
            header
                .iter()
                .position(|column| *column == name)
                .with_context(|| format!("the router records no {name}"))
        };
        let [time, link, sent, queue] = [
            column("unix_s")?,
            column("link")?,
            column("sent_bytes")?,
            column("queue_bytes")?,
        ];
        let mut samples = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            if fields.get(link).is_none_or(|name| *name != "forward") {
                continue;
            }
            let number = |at: usize| fields.get(at).and_then(|f| f.parse().ok()).unwrap_or(0.0);
            samples.push(Sample {
                unix_s: number(time),
                sent_bytes: number(sent),
                queue_bytes: number(queue),
            });
        }
        Ok(samples)
    }
}

/// Returns a router's view of its links: forward and reverse.
///
/// # Errors
/// Fails if the router doesn't answer.
pub fn links(chain: &Chain, router: usize) -> Result<Vec<LinkResult>> {
    let text = ask(&chain.control(router), &Query::Json)?;
    let state: Value = serde_json::from_str(&text)?;
    let links = state["links"].as_array().context("no links")?;
    let result = |link| Ok(LinkResult::deserialize(link)?);
    links.iter().map(result).collect()
}
