//! Scenarios: nodes, links and flows, read strictly from TOML.
//!
//! A [`Scenario`] is checked as a whole: every name resolves, every flow has a way in both
//! directions, and every number is plausible. Errors name file, line and key, and suggest the
//! nearest known word. `docs/scenarios.md` explains the keys.

mod changes;
mod check;
mod document;
mod metric;
mod model;
mod schema;
#[cfg(test)]
mod tests;
mod variant;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use pathmark_cc::{Algorithm, Duration};
use pathmark_link::keys::LinkSpec;
use pathmark_protocols::forged;
use pathmark_shim::Kind;
use pathmark_transport::streams::Dir;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub use changes::{Axis, BadChange, Change, Point, Repeat, Settings};
use document::Document;
pub use document::{BUILT_IN, BuiltIn, ScenarioError};
pub use metric::{Metric, Plot, Quantity, Reference, Shown};
pub use model::Model;
pub use variant::Variant;

/// A checked scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// A headline.
    pub name: String,
    /// Maximum simulated time of the run.
    pub duration: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Largest IP packet, bytes.
    pub packet: u16,
    /// Measuring windows: start and end.
    pub measure: Vec<(Duration, Duration)>,
    /// Time between the points of time series.
    pub sample: Duration,
    /// Nodes by name.
    pub nodes: Vec<String>,
    /// Media shared by links, by name.
    pub media: Vec<String>,
    /// Links, each in one direction.
    pub links: Vec<LinkSetup>,
    /// Flows, each with one sender.
    pub flows: Vec<FlowSetup>,
    /// Stalls of nodes, in order for each node.
    pub stalls: Vec<Stall>,
    /// Sets of changes to run it with, one after the other; empty: it is run unchanged.
    pub variants: Vec<Variant>,
    /// Values to run it with, in all combinations.
    pub sweeps: Vec<Axis>,
    /// Number of seeds that its figures are averaged over.
    pub repeat: Repeat,
    /// A paper's statements about it.
    pub paper: Vec<Reference>,
    /// Plots of its runs; empty: a default selection.
    pub plots: Vec<Plot>,
    /// The meaning of its results, and explanations of differences from a paper.
    pub note: Option<String>,
    document: Document,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkSetup {
    /// Its name; the other direction of a duplex link is called `NAME.reverse`.
    pub name: String,
    /// Index of the node that sends into it.
    pub from: usize,
    /// Index of the node that receives from it.
    pub to: usize,
    /// Rate, delay, queue, …
    pub spec: LinkSpec,
    /// Index of its shared medium, on which only one link transmits at a time.
    pub medium: Option<usize>,
    /// True if packets that leave it are passed to observers, such as
    /// [`Outputs`](crate::Outputs), which records them.
    pub capture: bool,
    /// Longest propagation round trip of the flows that cross it, in either direction, which
    /// defines `1bdp`.
    pub rtt: Option<Duration>,
}

/// A stall of a node, whose router or host gets no processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Index of the node.
    pub node: usize,
    /// Its start.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowSetup {
    /// Its name.
    pub name: String,
    /// Index of the sender's node.
    pub from: usize,
    /// Index of the receiver's node.
    pub to: usize,
    /// What sends.
    pub sender: Sender,
    /// Application bytes to transfer. `None`: as many as possible until `stop`, or the end.
    pub bytes: Option<u64>,
    /// When its application has something to send. `None`: always.
    pub source: Option<Pattern>,
    /// The shim in front of each packet of `udp`.
    pub forge: Option<Forge>,
    /// When it connects.
    pub start: Duration,
    /// When it stops, even if bytes are left.
    pub stop: Option<Duration>,
    /// Numbers of bytes in ascending order, whose arrival times are part of the result.
    pub milestones: Vec<u64>,
    /// Bytes that the receiver accepts beyond those that its application has read. `None`: as
    /// many as the path needs.
    pub receive_window: Option<u64>,
    /// Maximum number of packet number ranges in its receiver's acknowledgements, which keep the
    /// newest. `None`: no limit besides the transport's.
    pub max_ack_ranges: Option<u32>,
    /// The rate that both ends remember from an earlier connection, in bytes of IP packets per
    /// second. The sender requests it before the handshake is complete. `None`: there was no
    /// earlier connection.
    pub known_rate: Option<u64>,
    /// The application protocol around the data.
    pub app: App,
    /// Which end connects.
    pub connects: Connects,
    /// The source of the receiver's estimates for hops after the last XCP router, if it has
    /// virtual routers for these hops (XCP-i). `None`: it has none.
    pub receiver_estimate: Option<ReceiverEstimate>,
    /// Its largest IP packet in bytes; by default, the scenario's.
    pub packet: u16,
    /// Indices of the links from sender to receiver, and back.
    pub path: [Vec<usize>; 2],
}

/// Packets without a connection or a law.
const UDP: &str = "udp";

/// What sends the packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A connection of this library with this control law.
    Law(Algorithm),
    /// A TCP of the papers' time: Reno without selective acknowledgements, with the timer of ns-2.
    Tcp(TcpLaw),
    /// Packets at fixed times, without a connection.
    Udp,
}

impl Sender {
    /// Returns true for [`Udp`](Self::Udp), whose rate doesn't depend on the path.
    pub const fn is_udp(&self) -> bool {
        matches!(self, Self::Udp)
    }
}

/// What determines the window of a TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLaw {
    /// Its name in scenarios.
    pub name: &'static str,
    /// The shim by which routers change the window, while losses and timeouts lower it as in Reno.
    /// `None`: Reno alone (RFC 5681).
    pub shim: Option<Kind>,
}

impl TcpLaw {
    /// Returns the TCP with this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let (name, shim) = forged::TCPS.into_iter().find(|(known, _)| *known == name)?;
        Some(Self { name, shim })
    }
}

/// The application protocol of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum App {
    /// Only the data, on one stream, from the moment at which the connection exists.
    #[default]
    Bulk,
    /// HTTP/3. Both ends start with control streams. The data follow a header. They are the
    /// response to a request, or an upload if the sender connects.
    Http,
}

impl App {
    /// The kind of stream for the data.
    pub(crate) const fn direction(self) -> Dir {
        match self {
            Self::Bulk => Dir::Uni,
            Self::Http => Dir::Bi,
        }
    }
}

/// The end of a flow that connects to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connects {
    /// The sender: an upload.
    #[default]
    Sender,
    /// The receiver: a download, which starts once the handshake is complete.
    Receiver,
}

/// The source of a receiver's estimate of the unused capacity after the last XCP router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverEstimate {
    /// The emulator, which knows all links.
    Exact,
    /// The receiver, which measures with packets that it requests from the last router.
    Real,
}

impl FlowSetup {
    /// The law's name with options, or that of a TCP, or `udp`.
    pub fn algorithm_name(&self) -> String {
        match &self.sender {
            Sender::Law(law) => law.to_string(),
            Sender::Udp => UDP.to_owned(),
            Sender::Tcp(tcp) => tcp.name.to_owned(),
        }
    }
}

/// Shims in front of packets that obey no law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forge {
    /// The kind of shim.
    pub shim: ForgedShim,
    /// The round trip that it claims.
    pub rtt: Duration,
    /// Time after which packets claim to belong to another flow.
    pub ports: Option<Duration>,
    /// Index of the node whose router XCP's headers claim to have passed last.
    pub names: Option<usize>,
}

/// The kind of shim in front of forged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgedShim(pub Kind);

impl<'de> Deserialize<'de> for ForgedShim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::unknown_variant(&name, forged::NAMES);
        forged::kind(&name).map(Self).ok_or_else(unknown)
    }
}

/// When an application has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Bytes per second while it is on: IP bytes for `udp`, application bytes otherwise.
    pub rate: u64,
    /// Gaps between packets are exponential instead of constant, with the mean that gives the rate.
    pub poisson: bool,
    /// Alternating on and off times, starting with on.
    pub on_off: Option<OnOff>,
}

/// Times on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Duration of on times, or its mean.
    pub on: Duration,
    /// Duration of off times, or its mean.
    pub off: Duration,
    /// True if both are exponential with these means.
    pub random: bool,
}

impl Scenario {
    /// Reads the built-in scenario with this name, or otherwise the file at this path.
    ///
    /// # Errors
    /// [`ScenarioError`] with the place of the error.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        Self::of(&Document::load(name_or_path)?)
    }

    /// Parses and checks `text`; `path` only appears in messages.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        Self::of(&Document::new(path, text))
    }

    /// Checks a document.
    fn of(document: &Document) -> Result<Self, ScenarioError> {
        let checked = match document.file() {
            Ok(file) => check::scenario(document, file),
            Err(error) => Err(document.source().syntax(&error)),
        };
        checked.map_err(|fault| match document.changed() {
            None => fault.into(),
            // The changed text has no file with line numbers, so the error is attributed to the
            // changed key.
            Some((key, value)) => ScenarioError::Set {
                key: key.clone(),
                value: value.clone(),
                message: fault.message,
            },
        })
    }

    /// Changes one key and checks everything again. Keys have forms like `duration`,
    /// `link.NAME.rate`, `flow.NAME.algorithm`, `link.NAME.queue.limit`; `*` instead of a name
    /// means every name. Values have the same form as in the file, but quotes around text can be
    /// omitted.
    ///
    /// # Errors
    /// [`ScenarioError`]; the scenario is then unchanged.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        *self = Self::of(&self.document.with(key, value)?)?;
        Ok(())
    }

    /// The text of its file, including all changes.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// The name of the built-in scenario or of the file, without its directory and extension.
    pub fn id(&self) -> &str {
        self.document.id()
    }
}

/// The links from one node to another, by least propagation delay, then fewest links, then the
/// order in the file. `None`: there is no way.
pub(crate) fn route(
    nodes: usize,
    links: &[LinkSetup],
    from: usize,
    to: usize,
) -> Option<Vec<usize>> {
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate() {
        leaving.get_mut(link.from)?.push(index);
    }
    // Cost, and the last link on the best way to a node.
    let mut best: Vec<Option<(Cost, Option<usize>)>> = vec![None; nodes];
    *best.get_mut(from)? = Some((Cost::default(), None));
    let mut open = BinaryHeap::from([Reverse((Cost::default(), from))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        if best.get(node)?.is_some_and(|(least, _)| least < cost) {
            continue;
        }
        for &index in leaving.get(node)? {
            let link = links.get(index)?;
            let next = Cost {
                delay: cost.delay.saturating_add(link.spec.delay.0),
                hops: cost.hops + 1,
            };
            let known = best.get_mut(link.to)?;
            if known.is_none_or(|(least, _)| next < least) {
                *known = Some((next, Some(index)));
                open.push(Reverse((next, link.to)));
            }
        }
    }
    let mut way = Vec::new();
    let mut node = to;
    while node != from {
        let (_, by) = (*best.get(node)?)?;
        let index = by?;
        way.push(index);
        node = links.get(index)?.from;
    }
    way.reverse();
    Some(way)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    delay: Duration,
    hops: u32,
}
