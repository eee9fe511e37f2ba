//! Converts a scenario of the emulator to a chain of routers between two hosts, and rejects
//! unsupported scenarios.

use std::time::Duration;

use anyhow::{Result, bail};
use pathmark_cc::Algorithm;
use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::{App, Connects, FlowSetup, LinkSetup, Pattern, Sender};
use pathmark_testbed::chain::Hop;

/// Maximum number of routers that one machine runs in real time.
const MOST_HOPS: usize = 4;

/// The network to build and its flows.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The routers' ports from the first host to the second, in both directions.
    pub hops: Vec<Hop>,
    /// Names of each hop's links in both directions.
    pub names: Vec<[String; 2]>,
    /// Maximum size of an IP packet.
    pub mtu: u32,
    /// The time limit.
    pub limit: Duration,
    /// Flows in the order of the scenario.
    pub flows: Vec<Planned>,
}

/// A planned flow.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The flow's setup in the scenario.
    pub setup: FlowSetup,
    /// Whether it goes from the second host to the first.
    pub backwards: bool,
    /// Its load.
    pub load: Load,
}

/// A flow's load.
#[derive(Clone, Debug)]
pub enum Load {
    /// A number of bytes over a connection.
    Bytes(Algorithm, u64),
    /// Datagrams without a connection.
    Datagrams(Pattern),
}

impl Plan {
    /// Plans the test bed for `scenario`.
    ///
    /// # Errors
    /// Names the part of the scenario that isn't supported.
    pub fn new(scenario: &Scenario) -> Result<Self> {
        let Some(first) = scenario.flows.first() else {
            bail!("there are no flows");
        };
        if !scenario.stalls.is_empty() {
            bail!("the test bed stops no routers or hosts: leave out [[stall]]");
        }
        let [there, back] = &first.path;
        let forward = limited(scenario, there)?;
        let mut reverse = limited(scenario, back)?;
        reverse.reverse();
        if forward.len() != reverse.len() {
            bail!(
                "the test bed has as many links with a rate on the way back as there: give the \
                 others a `rate`, or leave it out of both"
            );
        }
        if !(1..=MOST_HOPS).contains(&forward.len()) {
            bail!(
                "the test bed shows 1 to {MOST_HOPS} links with a `rate` in a row, not {}",
                forward.len()
            );
        }
        let delay = |way: &[usize]| -> Duration {
            let links = way.iter().filter_map(|index| scenario.links.get(*index));
            let unlimited = links.filter(|link| link.spec.rate.is_none());
            unlimited.map(|link| link.spec.delay.0).sum()
        };
        // The first hop adds the delays of links without a rate.
        let mut before = [delay(there), delay(back)];
        let (mut hops, mut names) = (Vec::new(), Vec::new());
        for (there, back) in forward.iter().zip(&reverse) {
            let [more, more_back] = std::mem::take(&mut before);
            let lines = |link: &LinkSetup, more: Duration| {
                let lines = scenario.port_lines(link, link.spec.delay.0 + more);
                lines.unwrap_or_default()
            };
            hops.push(Hop {
                forward: lines(there, more),
                reverse: lines(back, more_back),
            });
            names.push([there.name.clone(), back.name.clone()]);
        }
        let flows = scenario
            .flows
            .iter()
            .map(|flow| planned(scenario, first, flow));
        Ok(Self {
            hops,
            names,
            mtu: u32::from(scenario.packet),
            limit: scenario.duration,
            flows: flows.collect::<Result<_>>()?,
        })
    }
}

/// Returns the links with a rate along a way.
fn limited<'a>(scenario: &'a Scenario, way: &[usize]) -> Result<Vec<&'a LinkSetup>> {
    let mut found = Vec::new();
    for link in way.iter().filter_map(|index| scenario.links.get(*index)) {
        if link.medium.is_some() {
            bail!(
                "link `{}` shares a medium: the test bed's links do not",
                link.name
            );
        }
        if link.spec.rate.is_some() {
            found.push(link);
        } else if link.spec.loss.is_some() || link.spec.jitter.is_some() || !link.spec.at.is_empty()
        {
            bail!(
                "link `{}` has loss, jitter or changes but no `rate`: give it one",
                link.name
            );
        }
    }
    Ok(found)
}

fn planned(scenario: &Scenario, first: &FlowSetup, flow: &FlowSetup) -> Result<Planned> {
    let name = &flow.name;
    let backwards = (flow.from, flow.to) == (first.to, first.from);
    if !backwards && (flow.from, flow.to) != (first.from, first.to) {
        bail!(
            "flow `{name}` runs between other nodes than `{}`: the test bed has two hosts",
            first.name
        );
    }
    if flow.packet != scenario.packet {
        bail!("flow `{name}` has a `packet` of its own, which the test bed does not set");
    }
    if flow.app != App::Bulk {
        bail!(
            "flow `{name}` has `app = \"http\"`, which the test bed does not send: add --set \
             flow.{name}.app=bulk"
        );
    }
    if flow.known_rate.is_some() || flow.connects != Connects::Sender {
        bail!("flow `{name}` has a `known_rate` or `connects`, which the test bed does not set");
    }
    if flow.stop.is_some() || flow.receive_window.is_some() || flow.max_ack_ranges.is_some() {
        bail!(
            "flow `{name}` has a `stop`, a `receive_window` or `max_ack_ranges`, which the test \
             bed does not set"
        );
    }
    if !flow.milestones.is_empty() {
        bail!("flow `{name}` has `milestones`, which the test bed does not measure");
    }
    let load = match (&flow.sender, flow.source) {
        (Sender::Udp, Some(pattern)) if pattern.on_off.is_none() => Load::Datagrams(pattern),
        (Sender::Law(law), None) => {
            let rates = scenario.links.iter().filter_map(|link| link.spec.rate);
            let slowest = rates.map(|rate| rate.bytes()).min().unwrap_or(0);
            let most = slowest.saturating_mul(scenario.duration.as_secs());
            Load::Bytes(law.clone(), flow.bytes.unwrap_or(most))
        }
        (Sender::Tcp(_), _) => bail!("`{name}` is a TCP of the emulator: choose another --variant"),
        _ => bail!(
            "flow `{name}` is limited by its application (`rate` or `on_off`), which the test bed \
             does not show"
        ),
    };
    Ok(Planned {
        setup: flow.clone(),
        backwards,
        load,
    })
}
