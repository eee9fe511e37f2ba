//! The parts of a link and its queue, as described in files.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pathmark_cc::LinkAlgorithm;
use pathmark_cc::units::{Round, Units};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::loss::LossSpec;
use super::units::{ByteCount, Chance, Percent, RateValue, Span};
use crate::queue::{Limit, RedConfig};
use crate::trace::Trace;

/// `jitter = "2ms"`, or `{ max = "2ms", reorder = true }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitterSpec {
    /// Each packet gets an extra delay, uniform in 0…`max`.
    pub max: Span,
    /// Packets may overtake each other.
    pub reorder: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JitterTable {
    max: Span,
    #[serde(default)]
    reorder: bool,
}

impl<'de> Deserialize<'de> for JitterSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = JitterSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2ms\", or { max = \"2ms\", reorder = true }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<JitterSpec, E> {
                let max = text.parse().map_err(E::custom)?;
                Ok(JitterSpec {
                    max,
                    reorder: false,
                })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<JitterSpec, A::Error> {
                let table = JitterTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JitterSpec {
                    max: table.max,
                    reorder: table.reorder,
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One entry of `at = [ { t = "30s", rate = "5Mbit" } ]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSpec {
    /// The time from the start.
    pub t: Span,
    /// New rate; 0 is an outage.
    pub rate: Option<RateValue>,
    /// New propagation delay.
    pub delay: Option<Span>,
    /// New loss.
    pub loss: Option<LossSpec>,
    /// New control law.
    #[serde(default, deserialize_with = "law")]
    pub controller: Option<LinkAlgorithm>,
    /// The port's router stops, and runs again after this time. Queued packets and those
    /// arriving meanwhile are lost, and the law starts from its initial state.
    #[serde(default, deserialize_with = "restart")]
    pub restart: Option<Span>,
}

/// `true`, or the duration.
fn restart<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = Option<Span>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, or how long the restart takes, such as \"700ms\"")
        }
        fn visit_bool<E: de::Error>(self, restarts: bool) -> Result<Option<Span>, E> {
            Ok(restarts.then(Span::default))
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Span>, E> {
            text.parse().map(Some).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// A port's law by name.
fn law<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LinkAlgorithm>, D::Error> {
    let name = String::deserialize(deserializer)?;
    LinkAlgorithm::parse(&name)
        .map(Some)
        .map_err(de::Error::custom)
}

/// The description of one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// Rate, or a trace's mean; absent: unlimited.
    pub rate: Option<RateValue>,
    /// When packets can leave, if the rate is not constant.
    pub trace: Option<Arc<Trace>>,
    /// The capacity for the control law, if it is below the rate or there is no rate.
    pub capacity: Option<RateValue>,
    /// The control law gets a measurement of the recent capacity instead of the rate.
    pub follow: bool,
    /// Propagation delay, one way.
    pub delay: Span,
    /// Queue.
    pub queue: QueueSpec,
    /// Control law; absent: none.
    pub controller: Option<LinkAlgorithm>,
    /// Loss by corruption that the port declares for its link, to senders that use the control
    /// law's answers.
    pub corruption: Percent,
    /// Bytes that the link adds to each packet.
    pub frame_overhead: u32,
    /// Random loss.
    pub loss: Option<LossSpec>,
    /// Random extra delay.
    pub jitter: Option<JitterSpec>,
    /// Changes over time.
    pub at: Vec<ChangeSpec>,
}

impl LinkSpec {
    /// The maximum loss by corruption that a port may declare. Beyond this, a link cannot be
    /// distinguished from a broken one.
    pub const MOST_CORRUPTION: Percent = Percent { ppm: 300_000 };

    /// Enables or disables starting rates granted by its controller.
    ///
    /// # Errors
    /// There is no controller, or its law cannot grant.
    pub fn set_grants(&mut self, grants: bool) -> Result<(), &'static str> {
        let law = self.controller.take();
        let law = law.ok_or("only a port with a `controller` grants starting rates: add one")?;
        let law = law.with_grants(grants);
        let refused = grants && !law.grants();
        self.controller = Some(law);
        if refused {
            return Err("a port with this `controller` grants no starting rates: remove the key");
        }
        Ok(())
    }

    /// The error in the declared corruption, if any.
    pub fn bad_corruption(&self) -> Option<&'static str> {
        if self.corruption > Self::MOST_CORRUPTION {
            return Some(
                "a link that loses more than 30% by corruption is broken: declare at most 30%",
            );
        }
        if self.corruption.ppm > 0 && self.controller.is_none() {
            return Some("declared values travel with the answers of a law: add `controller`");
        }
        None
    }

    /// Returns true if its control law uses estimates of clouds that are measured by packets.
    pub fn measures_clouds(&self) -> bool {
        self.laws().any(LinkAlgorithm::measured_estimate)
    }

    /// Returns true if the port names its router in XCP headers.
    pub fn names_router(&self) -> bool {
        self.laws().any(|law| matches!(law.name(), "xcp" | "xcp-i"))
    }

    /// Its control law, and those of scheduled changes.
    pub fn laws(&self) -> impl Iterator<Item = &LinkAlgorithm> {
        let later = self
            .at
            .iter()
            .filter_map(|change| change.controller.as_ref());
        self.controller.iter().chain(later)
    }

    /// Returns true if packets are impaired individually, now or after a scheduled change.
    pub fn is_random(&self) -> bool {
        let lossy = |loss: &Option<LossSpec>| loss.is_some_and(|loss| loss != LossSpec::None);
        lossy(&self.loss)
            || self.jitter.is_some()
            || self.at.iter().any(|change| lossy(&change.loss))
    }
}

/// The queue discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// First in, first out, with a limit.
    #[default]
    DropTail,
    /// Random Early Detection.
    Red,
    /// Controlled delay (RFC 8289).
    CoDel,
    /// A queue of low latency next to a classic one (RFC 9332).
    DualPi2,
}

impl QueueKind {
    /// Its name in files.
    const fn name(self) -> &'static str {
        match self {
            Self::DropTail => "droptail",
            Self::Red => "red",
            Self::CoDel => "codel",
            Self::DualPi2 => "dualpi2",
        }
    }
}

/// A limit: `1bdp`, `100p` or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSpec {
    /// Thousandths of the bandwidth-delay product.
    MilliBdp(u64),
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
}

/// Bandwidth-delay products in thousandths.
const MILLI_BDP: Units = Units {
    round: Round::Down,
    free_zero: true,
    ..Units::bare(1_000)
};

impl FromStr for LimitSpec {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "cannot read `{text}` as a queue limit: write \"1bdp\", \"100p\" (packets) \
                 or \"64KiB\""
            )
        };
        if let Some(number) = text.strip_suffix("bdp") {
            let milli = MILLI_BDP.read(number);
            return milli.map(Self::MilliBdp).map_err(|_| bad());
        }
        if let Some(number) = text.strip_suffix('p') {
            let packets = number.trim().replace('_', "").parse();
            return packets.map(Self::Packets).map_err(|_| bad());
        }
        match text.parse() {
            Ok(ByteCount(bytes)) => Ok(Self::Bytes(bytes)),
            Err(_) => Err(bad()),
        }
    }
}

impl<'de> Deserialize<'de> for LimitSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// `queue = { kind = "droptail", limit = "1bdp" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// The discipline.
    #[serde(default)]
    pub kind: QueueKind,
    /// Its room; absent: one bandwidth-delay product (DualPI2: of 250 ms), or 1000 packets for a
    /// link without a rate.
    pub limit: Option<LimitSpec>,
    /// The round-trip time for `bdp`.
    pub rtt: Option<Span>,
    /// Separates packets with feedback from all others in two queues, each with a share of the
    /// link by its number of flows. Absent: as required by the port's controller.
    pub separate: Option<bool>,
    /// RED: lower threshold in packets.
    pub min: Option<u32>,
    /// RED: upper threshold in packets.
    pub max: Option<u32>,
    /// RED: drop probability at the upper threshold.
    pub p: Option<Chance>,
    /// RED: the probability rises to 1 at twice the upper threshold, instead of jumping.
    pub gentle: Option<bool>,
    /// RED: weight of the average.
    pub weight: Option<Chance>,
    /// RED: measures in bytes.
    pub bytes: Option<bool>,
    /// RED: mean packet in bytes.
    pub mean_packet: Option<u32>,
    /// CoDel: acceptable standing delay. DualPI2: the classic queue's delay.
    pub target: Option<Span>,
    /// CoDel: time for which the delay may stay above it.
    pub interval: Option<Span>,
    /// DualPI2: delay from which all packets of the low-latency queue are marked.
    pub step: Option<Span>,
}

impl QueueSpec {
    /// Returns an error in its keys that does not depend on the link: a key of another kind of
    /// queue, or impossible RED values.
    pub fn unfit(&self) -> Option<String> {
        if let Some(message) = self.misplaced() {
            return Some(message);
        }
        match self.kind {
            // RED's thresholds do not depend on the limit.
            QueueKind::Red => {
                let bad = self.red(Limit::Packets(1)).check().err()?;
                Some(format!("RED: {bad}"))
            }
            QueueKind::DropTail | QueueKind::CoDel | QueueKind::DualPi2 => None,
        }
    }

    /// Returns an error if there is a key of another kind of queue.
    fn misplaced(&self) -> Option<String> {
        use QueueKind::{CoDel, DualPi2, Red};
        let keys: [(&str, bool, &[QueueKind]); 10] = [
            ("min", self.min.is_some(), &[Red]),
            ("max", self.max.is_some(), &[Red]),
            ("p", self.p.is_some(), &[Red]),
            ("gentle", self.gentle.is_some(), &[Red]),
            ("weight", self.weight.is_some(), &[Red]),
            ("bytes", self.bytes.is_some(), &[Red]),
            ("mean_packet", self.mean_packet.is_some(), &[Red]),
            ("target", self.target.is_some(), &[CoDel, DualPi2]),
            ("interval", self.interval.is_some(), &[CoDel]),
            ("step", self.step.is_some(), &[DualPi2]),
        ];
        let (key, _, kinds) = keys
            .iter()
            .find(|(_, given, kinds)| *given && !kinds.contains(&self.kind))?;
        let (owner, own) = (kinds.first()?.name(), self.kind.name());
        Some(format!(
            "`{key}` belongs to kind = \"{owner}\": write that instead of \"{own}\", or leave \
             `{key}` out"
        ))
    }

    /// The parameters of a RED queue.
    pub(super) fn red(&self, limit: Limit) -> RedConfig {
        let q32 = |chance: Option<Chance>, default: u32| {
            chance.map_or(default, |chance| {
                u32::try_from(chance.probability().q32()).unwrap_or(u32::MAX)
            })
        };
        let usual = RedConfig::new(limit);
        RedConfig {
            weight_q32: q32(self.weight, usual.weight_q32),
            min_packets: self.min.unwrap_or(usual.min_packets),
            max_packets: self.max.unwrap_or(usual.max_packets),
            max_p_q32: q32(self.p, usual.max_p_q32),
            gentle: self.gentle.unwrap_or(usual.gentle),
            byte_mode: self.bytes.unwrap_or(usual.byte_mode),
            mean_packet: self.mean_packet.unwrap_or(usual.mean_packet),
            limit,
        }
    }
}
