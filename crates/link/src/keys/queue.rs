//! The queue of a link, as described in files.

use std::str::FromStr;

use pathmark_cc::units::{Round, Units};
use serde::{Deserialize, Deserializer, de};

use super::units::{ByteCount, Chance, Span};
use crate::queue::{Limit, RedConfig};

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
    /// Its room; absent: one bandwidth-delay product, or 1000 packets for a link without a rate.
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
    /// CoDel: acceptable standing delay.
    pub target: Option<Span>,
    /// CoDel: time for which the delay may stay above it.
    pub interval: Option<Span>,
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
            QueueKind::DropTail | QueueKind::CoDel => None,
        }
    }

    /// Returns an error if there is a key of another kind of queue.
    fn misplaced(&self) -> Option<String> {
        let red = [
            ("min", self.min.is_some()),
            ("max", self.max.is_some()),
            ("p", self.p.is_some()),
            ("gentle", self.gentle.is_some()),
            ("weight", self.weight.is_some()),
            ("bytes", self.bytes.is_some()),
            ("mean_packet", self.mean_packet.is_some()),
        ];
        let codel = [
            ("target", self.target.is_some()),
            ("interval", self.interval.is_some()),
        ];
        let foreign = |keys: &[(&'static str, bool)]| {
            keys.iter().find_map(|(name, given)| given.then_some(*name))
        };
        let found = |owner, key| {
            let own = match self.kind {
                QueueKind::DropTail => "droptail",
                QueueKind::Red => "red",
                QueueKind::CoDel => "codel",
            };
            format!(
                "`{key}` belongs to kind = \"{owner}\": write that instead of \"{own}\", or leave \
                 `{key}` out"
            )
        };
        let red = foreign(&red).filter(|_| self.kind != QueueKind::Red);
        let codel = foreign(&codel).filter(|_| self.kind != QueueKind::CoDel);
        red.map(|key| found("red", key))
            .or(codel.map(|key| found("codel", key)))
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
