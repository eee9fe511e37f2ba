//! A link's keys: TOML, read strictly.
//!
//! [`LinkKeys`] declares the keys once, for both the ports of a router and the links of a
//! scenario. [`WithLink`] reads them along with other keys of a table, and [`LinkCheck`] turns
//! them into a [`LinkSpec`], from which [`build_link`] creates a link. A [`Fault`] names file,
//! line and key, and suggests the nearest known word.

mod build;
mod check;
mod file;
mod link;
mod loss;
#[cfg(test)]
mod tests;
mod units;

use std::fmt;
use std::marker::PhantomData;

use pathmark_cc::LinkAlgorithm;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, de, forward_to_deserialize_any};
use toml::Spanned;

pub use build::{LinkContext, build_link, build_schedule, build_wire};
pub use check::{LinkCheck, Pace, Reader};
pub use file::{Fault, Source, nearest, open_regular, read_regular};
pub use link::{ChangeSpec, JitterSpec, LimitSpec, LinkSpec, QueueKind, QueueSpec};
pub use loss::{AntennasText, Decibel, FecSpec, LossSpec, MeanBurst, MeanStay};
pub use units::{ByteCount, Chance, Percent, RateValue, Span, UnitError};

/// The keys of one direction of a link. `R` is the type of its rate in files, `C` that of its
/// capacity.
#[derive(Clone, Debug)]
pub struct LinkKeys<R = RateValue, C = RateValue> {
    /// Rate; absent: unlimited.
    pub rate: Option<Spanned<R>>,
    /// The capacity for the control law, if it is below the rate or there is no rate.
    pub capacity: Option<Spanned<C>>,
    /// Propagation delay, one way.
    pub delay: Option<Span>,
    /// Queue.
    pub queue: Option<Spanned<QueueSpec>>,
    /// Control law.
    pub controller: Option<Spanned<Law>>,
    /// Whether the control law grants starting rates.
    pub grant: Option<Spanned<bool>>,
    /// Loss by corruption that the port declares.
    pub corruption: Option<Spanned<Percent>>,
    /// Bytes that the link adds to each packet.
    pub frame_overhead: Option<u32>,
    /// Random loss.
    pub loss: Option<LossSpec>,
    /// Random extra delay.
    pub jitter: Option<JitterSpec>,
    /// Changes over time.
    pub at: Vec<Spanned<ChangeSpec>>,
}

impl<R, C> Default for LinkKeys<R, C> {
    fn default() -> Self {
        Self {
            rate: None,
            capacity: None,
            delay: None,
            queue: None,
            controller: None,
            grant: None,
            corruption: None,
            frame_overhead: None,
            loss: None,
            jitter: None,
            at: Vec::new(),
        }
    }
}

impl LinkKeys {
    /// The names of all keys.
    pub const NAMES: [&str; 11] = [
        "rate",
        "capacity",
        "delay",
        "queue",
        "controller",
        "grant",
        "corruption",
        "frame_overhead",
        "loss",
        "jitter",
        "at",
    ];
}

impl<'de, R: Deserialize<'de>, C: Deserialize<'de>> LinkKeys<R, C> {
    /// Reads the value of the key with this name.
    fn read<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "rate" => self.rate = map.next_value().map(Some)?,
            "capacity" => self.capacity = map.next_value().map(Some)?,
            "delay" => self.delay = map.next_value().map(Some)?,
            "queue" => self.queue = map.next_value().map(Some)?,
            "controller" => self.controller = map.next_value().map(Some)?,
            "grant" => self.grant = map.next_value().map(Some)?,
            "corruption" => self.corruption = map.next_value().map(Some)?,
            "frame_overhead" => self.frame_overhead = map.next_value().map(Some)?,
            "loss" => self.loss = map.next_value().map(Some)?,
            "jitter" => self.jitter = map.next_value().map(Some)?,
            "at" => self.at = map.next_value()?,
            _ => return Err(de::Error::custom(format!("`{name}` is no key of a link"))),
        }
        Ok(())
    }
}

/// A control law by name; `none` means no law.
#[derive(Clone, Debug)]
pub struct Law(pub Option<LinkAlgorithm>);

impl<'de> Deserialize<'de> for Law {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let law: LinkAlgorithm = text.parse().map_err(de::Error::custom)?;
        Ok(Self((law.name() != "none").then_some(law)))
    }
}

/// A table with the keys of a link and keys of its own. `T` reads the latter and denies unknown
/// ones.
///
/// Serde's `flatten` loses the places of values and allows unknown keys. This type keeps places,
/// and its error for an unknown key lists all names.
#[derive(Clone, Debug)]
pub struct WithLink<T, R = RateValue, C = RateValue> {
    /// The table's own keys.
    pub own: T,
    /// The link's.
    pub link: LinkKeys<R, C>,
}

impl<T: Default, R, C> Default for WithLink<T, R, C> {
    fn default() -> Self {
        Self {
            own: T::default(),
            link: LinkKeys::default(),
        }
    }
}

impl<'de, T, R, C> Deserialize<'de> for WithLink<T, R, C>
where
    T: Deserialize<'de>,
    R: Deserialize<'de>,
    C: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Table(PhantomData))
    }
}

struct Table<T, R, C>(PhantomData<(T, R, C)>);

impl<'de, T, R, C> Visitor<'de> for Table<T, R, C>
where
    T: Deserialize<'de>,
    R: Deserialize<'de>,
    C: Deserialize<'de>,
{
    type Value = WithLink<T, R, C>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut link = LinkKeys::default();
        let own = T::deserialize(Own {
            map,
            link: &mut link,
            names: &[],
        })?;
        Ok(WithLink { own, link })
    }
}

/// A deserializer for the table's own keys that reads the link's keys on the way.
struct Own<'a, A, R, C> {
    map: A,
    link: &'a mut LinkKeys<R, C>,
    /// The table's own keys.
    names: &'static [&'static str],
}

impl<'de, A, R, C> Deserializer<'de> for Own<'_, A, R, C>
where
    A: MapAccess<'de>,
    R: Deserialize<'de>,
    C: Deserialize<'de>,
{
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.names = names;
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A, R, C> MapAccess<'de> for Own<'_, A, R, C>
where
    A: MapAccess<'de>,
    R: Deserialize<'de>,
    C: Deserialize<'de>,
{
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key_seed(Name(self.names))? {
            match key {
                Key::Link(name) => self.link.read(name, &mut self.map)?,
                Key::Own(name) => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The owner of a key.
enum Key {
    Link(&'static str),
    Own(&'static str),
}

/// Reads a key that belongs to the link or to this list.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, given: &str) -> Result<Key, E> {
        let known = |names: &[&'static str]| names.iter().find(|name| **name == given).copied();
        let own = known(self.0).map(Key::Own);
        own.or_else(|| known(&LinkKeys::NAMES).map(Key::Link))
            .ok_or_else(|| {
                let all = self.0.iter().chain(&LinkKeys::NAMES);
                let all: Vec<String> = all.map(|name| format!("`{name}`")).collect();
                // In serde's format, so that `Source::syntax` can parse both.
                let all = all.join(", ");
                E::custom(format!("unknown field `{given}`, expected one of {all}"))
            })
    }
}
