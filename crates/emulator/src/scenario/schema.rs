//! The file's tables and keys.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use pathmark_link::keys::{ByteCount, LinkKeys, RateValue, Span, WithLink};
use serde::de::IntoDeserializer;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use toml::{Spanned, Table};

use super::changes::Repeat;
use super::metric::{Plot, Reference};
use super::model::Model;
use super::{App, Connects, ForgedShim, ReceiverEstimate};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    pub(super) duration: Spanned<Span>,
    pub(super) seed: Option<u64>,
    pub(super) packet: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) measure: Vec<Spanned<[Span; 2]>>,
    pub(super) sample: Option<Spanned<Span>>,
    #[serde(default)]
    pub(super) link: Vec<FileLink>,
    #[serde(default)]
    pub(super) flow: Vec<FileFlow>,
    #[serde(default)]
    pub(super) stall: Vec<FileStall>,
    #[serde(default)]
    pub(super) variant: Vec<FileVariant>,
    #[serde(default)]
    pub(super) sweep: Table,
    pub(super) note: Option<String>,
    pub(super) repeat: Option<Spanned<Repeat>>,
    #[serde(default)]
    pub(super) paper: Vec<Spanned<Reference>>,
    #[serde(default)]
    pub(super) plot: Vec<Plot>,
}

/// `[[stall]]`: a router or host that stalls for a while.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileStall {
    pub(super) node: Spanned<String>,
    pub(super) at: Spanned<Span>,
    pub(super) lasts: Spanned<Span>,
}

/// `[[variant]]`: a named set of changed keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileVariant {
    pub(super) name: Spanned<String>,
    pub(super) set: Table,
}

/// `[[link]]`: the keys of a link, and further ones for scenarios.
pub(super) type FileLink = WithLink<OwnKeys, RateSpec, CapacitySpec>;
/// The keys of one direction of a link.
pub(super) type Direction = LinkKeys<RateSpec, CapacitySpec>;

/// The keys of a link that only scenarios have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnKeys {
    pub(super) name: Spanned<String>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    #[serde(default)]
    pub(super) duplex: bool,
    pub(super) medium: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) capture: bool,
    pub(super) reverse: Option<Spanned<WithLink<OfReverse, RateSpec, CapacitySpec>>>,
}

/// Further keys for the other direction of a duplex link.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfReverse {
    #[serde(default)]
    pub(super) capture: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileFlow {
    pub(super) name: Spanned<String>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) algorithm: Option<Spanned<String>>,
    pub(super) count: Option<Spanned<u32>>,
    pub(super) bytes: Option<Spanned<Sizes>>,
    pub(super) start: Option<Spanned<Starts>>,
    pub(super) start_spread: Option<Spanned<Span>>,
    pub(super) start_gap: Option<Spanned<Span>>,
    pub(super) stop: Option<Spanned<Span>>,
    pub(super) milestones: Option<Spanned<Vec<ByteCount>>>,
    pub(super) receive_window: Option<Spanned<ByteCount>>,
    pub(super) max_ack_ranges: Option<Spanned<u32>>,
    pub(super) known_rate: Option<Spanned<RateValue>>,
    pub(super) app: Option<Spanned<App>>,
    pub(super) connects: Option<Spanned<Connects>>,
    pub(super) receiver_estimate: Option<ReceiverEstimate>,
    pub(super) packet: Option<Spanned<u32>>,
    pub(super) rate: Option<Spanned<RateValue>>,
    #[serde(default)]
    pub(super) poisson: bool,
    pub(super) on_off: Option<Spanned<OnOffSpec>>,
    pub(super) forge: Option<Spanned<ForgeSpec>>,
}

/// `forge = { shim = "xcp", rtt = "20ms", ports = "100ms", names = "R" }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgeSpec {
    pub(super) shim: ForgedShim,
    pub(super) rtt: Option<Span>,
    pub(super) ports: Option<Span>,
    pub(super) names: Option<Spanned<String>>,
}

/// `rate = "10Mbit"`, or `{ trace = "FILE" }`, or `{ model = "cellular", mean = "10Mbit" }`.
#[derive(Clone, Debug)]
pub(super) enum RateSpec {
    Value(RateValue),
    Trace(PathBuf),
    Model { model: Model, mean: RateValue },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceTable {
    trace: Option<PathBuf>,
    model: Option<Model>,
    mean: Option<RateValue>,
}

/// `capacity = "auto"`, or a rate.
#[derive(Clone, Copy, Debug)]
pub(super) enum CapacitySpec {
    /// The measured recent capacity.
    Auto,
    /// At most this rate.
    Fixed(RateValue),
}

impl<'de> Deserialize<'de> for CapacitySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Fixed).map_err(|error| {
                de::Error::custom(format!("{error}, or \"auto\" for what the link could send"))
            }),
        }
    }
}

impl<'de> Deserialize<'de> for RateSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RateSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a rate such as \"10Mbit\", or { trace = \"FILE\" }, \
                     or { model = \"cellular\", mean = \"10Mbit\" }",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RateSpec, E> {
                text.parse().map(RateSpec::Value).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, bits: i64) -> Result<RateSpec, E> {
                match u64::try_from(bits) {
                    Ok(bits) => Ok(RateSpec::Value(RateValue { bits })),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(bits), &self)),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RateSpec, A::Error> {
                let table = TraceTable::deserialize(MapAccessDeserializer::new(map))?;
                match (table.trace, table.model, table.mean) {
                    (Some(file), None, None) => Ok(RateSpec::Trace(file)),
                    (None, Some(model), Some(mean)) => Ok(RateSpec::Model { model, mean }),
                    _ => Err(de::Error::custom(
                        "write { trace = \"FILE\" }, or { model = \"cellular\", mean = \"10Mbit\" \
                         }",
                    )),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// `on_off = { on = "1s", off = "2s", random = true }`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnOffSpec {
    pub(super) on: Span,
    pub(super) off: Span,
    #[serde(default)]
    pub(super) random: bool,
}

/// `start = "5s"`, or a list with one for each flow of `count`.
pub(super) type Starts = OneOrList<Span>;

/// `bytes = 5_000_000`, or a list from which each flow of `count` draws one.
pub(super) type Sizes = OneOrList<ByteCount>;

/// A value for all flows, or a list of values.
#[derive(Debug)]
pub(super) enum OneOrList<T> {
    One(T),
    List(Vec<T>),
}

/// A type for [`OneOrList`], with its description in errors.
pub(super) trait Listed {
    const EXPECTED: &str;
}

impl Listed for Span {
    const EXPECTED: &str = "a time such as \"5s\", or a list of them";
}

impl Listed for ByteCount {
    const EXPECTED: &str = "a number of bytes such as 1500 or \"500kB\", or a list of them";
}

impl Sizes {
    /// The maximum bytes of a flow.
    pub(super) fn largest(&self) -> u64 {
        match self {
            Self::One(bytes) => bytes.0,
            Self::List(list) => list.iter().map(|bytes| bytes.0).max().unwrap_or(0),
        }
    }
}

impl<'de, T: Deserialize<'de> + Listed> Deserialize<'de> for OneOrList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Listed> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrList<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(text.into_deserializer()).map(OneOrList::One)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                T::deserialize(number.into_deserializer()).map(OneOrList::One)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrList::List)
            }
        }
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}
