//! What is to be emulated: nodes, links, flows. Read from TOML, strictly.
//!
//! A [`Scenario`] is checked as a whole: every name resolves, every flow has a way there and back,
//! every number makes sense. Errors name file, line and key, and the nearest known word.
//! `docs/scenarios.md` explains the keys.

mod builtin;
mod changes;
mod check;
mod document;
mod error;
mod metric;
mod model;
mod paper;
mod plot;
pub(crate) mod route;
mod schema;
#[cfg(test)]
mod tests;
mod variant;

use std::path::Path;

use pathmark_cc::{Algorithm, Duration};
use pathmark_link::keys::LinkSpec;
use pathmark_protocols::forged;
use pathmark_shim::Kind;
use pathmark_transport::streams::Dir;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use document::Document;

pub use builtin::{BUILT_IN, BuiltIn};
pub use changes::{Axis, BadChange, Change, Point, Repeat, Settings};
pub use error::ScenarioError;
pub use metric::Metric;
pub use model::Model;
pub use paper::Reference;
pub use plot::{Plot, Quantity, Shown};
pub use variant::Variant;

/// A checked scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows, for headlines.
    pub name: String,
    /// Simulated time after which the run ends at the latest.
    pub duration: Duration,
    /// Seed of everything random.
    pub seed: u64,
    /// Largest IP packet, bytes.
    pub packet: u16,
    /// Measuring windows: begin and end.
    pub measure: Vec<(Duration, Duration)>,
    /// Time between the points of time series.
    pub sample: Duration,
    /// Nodes by name.
    pub nodes: Vec<String>,
    /// Media that links share, by name.
    pub media: Vec<String>,
    /// Links, each one direction.
    pub links: Vec<LinkSetup>,
    /// Flows, each one sender.
    pub flows: Vec<FlowSetup>,
    /// Times in which nodes do nothing, those of one node in order.
    pub stalls: Vec<Stall>,
    /// Sets of changes that it is run with, one after the other; empty: it is run as it is.
    pub variants: Vec<Variant>,
    /// Values that it is run with, in all combinations.
    pub sweeps: Vec<Axis>,
    /// Number of seeds over which its figures are means.
    pub repeat: Repeat,
    /// A paper's statements about it.
    pub paper: Vec<Reference>,
    /// Pictures of its runs; empty: whatever fits.
    pub plots: Vec<Plot>,
    /// What its results show, and why they differ from a paper's where they do.
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
    /// Index of the node that it leads to.
    pub to: usize,
    /// Rate, delay, queue, …
    pub spec: LinkSpec,
    /// Index of the medium that it shares with others, of which one transmits at a time.
    pub medium: Option<usize>,
    /// Packets that come out of it are shown to observers, such as [`Outputs`](crate::Outputs),
    /// which write them down.
    pub capture: bool,
    /// Longest propagation round trip of the flows that cross it, in either role: what `1bdp`
    /// means.
    pub rtt: Option<Duration>,
}

/// A time in which a node does nothing: its router or host gets no processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Index of the node.
    pub node: usize,
    /// When it stops.
    pub from: Duration,
    /// When it goes on.
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
    /// The sender's control law. `None`: `udp`, packets without a connection.
    pub algorithm: Option<Algorithm>,
    /// Application bytes to move. `None`: as many as go until `stop`, or the end.
    pub bytes: Option<u64>,
    /// When its application has something to send. `None`: always.
    pub source: Option<Pattern>,
    /// The shim in front of each packet of `udp`.
    pub forge: Option<Forge>,
    /// When it connects.
    pub start: Duration,
    /// When it stops, whatever is left.
    pub stop: Option<Duration>,
    /// Numbers of bytes, each more than the one before. Results have the times of their arrival.
    pub milestones: Vec<u64>,
    /// Bytes that the receiver takes beyond what its application has read. `None`: as many as the
    /// path needs.
    pub receive_window: Option<u64>,
    /// Ranges of packet numbers that its receiver's acknowledgements have at most, the newest.
    /// `None`: as many as there is reason for.
    pub max_ack_ranges: Option<u32>,
    /// The rate that both ends know the path by, in bytes of IP packets per second: they have met
    /// before, and the sender asks for it before the handshake is complete. `None`: they have not.
    pub known_rate: Option<u64>,
    /// What its applications send around the data.
    pub app: App,
    /// Which end connects.
    pub connects: Connects,
    /// The receiver has virtual routers for hops behind the last XCP router (XCP-i). This is the
    /// source of their estimate of what these hops leave. `None`: it has no virtual routers.
    pub receiver_estimate: Option<ReceiverEstimate>,
    /// Its largest IP packet, bytes: the scenario's unless it has one of its own.
    pub packet: u16,
    /// Indices of the links from sender to receiver, and back.
    pub path: [Vec<usize>; 2],
}

/// What the applications of a flow send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum App {
    /// The data alone, on one stream, from the moment at which the connection exists.
    #[default]
    Bulk,
    /// HTTP/3: both ends begin with control streams. The data are the response to a request, or an
    /// upload where the sender connects, and follow a header.
    Http,
}

impl App {
    /// The kind of stream that the data are on.
    pub(crate) const fn direction(self) -> Dir {
        match self {
            Self::Bulk => Dir::Uni,
            Self::Http => Dir::Bi,
        }
    }
}

/// Which end of a flow connects to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connects {
    /// The sender: an upload.
    #[default]
    Sender,
    /// The receiver: a download, which begins once the handshake is complete.
    Receiver,
}

/// Source of a receiver's estimate of what hops behind the last XCP router leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverEstimate {
    /// The emulator, which knows all links.
    Exact,
    /// The receiver, which measures it with packets that it requests from the last router.
    Real,
}

impl FlowSetup {
    /// The law's name with its options, or `udp`.
    #[must_use]
    pub fn algorithm_name(&self) -> String {
        let law = self.algorithm.as_ref();
        law.map_or_else(|| "udp".to_owned(), ToString::to_string)
    }
}

/// Shims in front of packets that obey no law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forge {
    /// Whose.
    pub shim: ForgedShim,
    /// The round trip that it states.
    pub rtt: Duration,
    /// Time after which packets claim to be of another flow.
    pub ports: Option<Duration>,
    /// XCP's headers claim to have come through this node's router last.
    pub names: Option<usize>,
}

/// Whose shim stands in front of forged packets.
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
    /// Times on and off by turns, beginning with on.
    pub on_off: Option<OnOff>,
}

/// Times on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// How long, or how long in the mean, it is on.
    pub on: Duration,
    /// The same for off.
    pub off: Duration,
    /// Both are exponential with these means.
    pub random: bool,
}

impl Scenario {
    /// Reads the built-in scenario of this name, or else the file at this path.
    ///
    /// # Errors
    /// [`ScenarioError`] says what is wrong, and where.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        Self::of(Document::load(name_or_path)?)
    }

    /// Checks `text`; `path` is for messages.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        Self::of(Document::new(path, text))
    }

    /// Checks a document.
    fn of(document: Document) -> Result<Self, ScenarioError> {
        let source = document.source();
        let checked = match document.file() {
            Ok(file) => check::scenario(&source, file, document.id()),
            Err(error) => Err(source.syntax(&error)),
        };
        match (checked, document.changed()) {
            (Ok(parts), _) => Ok(parts.into_scenario(document)),
            (Err(fault), None) => Err(fault.into()),
            // Lines of the changed text exist nowhere; the key that was changed is what is wrong.
            (Err(fault), Some((key, value))) => Err(ScenarioError::Set {
                key: key.clone(),
                value: value.clone(),
                message: fault.message,
            }),
        }
    }

    /// Changes one key and checks everything again. Keys are written as in `duration`,
    /// `link.NAME.rate`, `flow.NAME.algorithm`, `link.NAME.queue.limit`; `*` in place of a name
    /// stands for each. Values as in the file; quotes around text may be left out.
    ///
    /// # Errors
    /// [`ScenarioError`]; the scenario is then as it was.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        *self = Self::of(self.document.with(key, value)?)?;
        Ok(())
    }

    /// The text of its file, with all changes in it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// A link as the configuration of a router's port has it: lines of `key = value`, with `delay`
    /// in place of its own, and with `queue.rtt`, which defines a bandwidth-delay product. `None`
    /// if the file has no such link.
    #[must_use]
    pub fn port_lines(&self, link: &LinkSetup, delay: Duration) -> Option<String> {
        let micros = |time: Duration| toml::Value::from(format!("{}us", time.as_micros()));
        let mut port = self.document.port(&link.name)?;
        port.insert("delay".to_owned(), micros(delay));
        let queue = port
            .entry("queue")
            .or_insert_with(|| toml::Table::new().into());
        if let (Some(queue), Some(rtt)) = (queue.as_table_mut(), link.rtt)
            && !queue.contains_key("rtt")
        {
            queue.insert("rtt".to_owned(), micros(rtt));
        }
        let lines = port.iter().map(|(key, value)| format!("{key} = {value}\n"));
        Some(lines.collect())
    }

    /// The name of the file without its directory and ending, or of the built-in scenario.
    #[must_use]
    pub fn id(&self) -> &str {
        self.document.id()
    }
}
