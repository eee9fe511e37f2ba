//! Laws registered by this process, which have their own names.

use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{ParseError, knob};
use crate::base::Instant;
use crate::law::{Controller, LinkController};
use crate::signals::Explicit;

type Build = Arc<dyn Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync>;
type BuildPort = Arc<dyn Fn(Instant, u64, u64) -> Box<dyn LinkController> + Send + Sync>;

/// A sender's law. Its protocol is the signal that it reads.
pub(super) type OwnLaw = Own<Option<Explicit>, Build>;

/// A port's law. Its protocol is the number of the one that it answers, from 3 to 7.
pub(super) type OwnPort = Own<u8, BuildPort>;

pub(super) static SENDERS: Registry<OwnLaw> = Registry::new();
pub(super) static PORTS: Registry<OwnPort> = Registry::new();

/// A registered law, which is known by its name.
#[derive(Clone)]
pub(super) struct Own<P, B> {
    pub(super) name: &'static str,
    pub(super) protocol: P,
    pub(super) build: B,
}

impl<P, B> fmt::Debug for Own<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name).finish()
    }
}

impl<P, B> PartialEq for Own<P, B> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<P, B> Eq for Own<P, B> {}

pub(super) struct Registry<T>(RwLock<Vec<T>>);

impl<T> Registry<T> {
    const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }
}

impl<P: Clone, B: Clone> Registry<Own<P, B>> {
    /// Adds a law. Returns false if there is already one with its name.
    pub(super) fn add(&self, law: Own<P, B>) -> bool {
        let mut laws = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = !laws.contains(&law);
        if is_new {
            laws.push(law);
        }
        is_new
    }

    pub(super) fn find(&self, wanted: impl Fn(&Own<P, B>) -> bool) -> Option<Own<P, B>> {
        let laws = self.0.read().unwrap_or_else(PoisonError::into_inner);
        laws.iter().find(|law| wanted(law)).cloned()
    }

    /// Returns the law with a name that isn't one of `known`, those of this library. `usual` is
    /// suggested if there is none.
    pub(super) fn parse(
        &self,
        name: &str,
        options: Option<&str>,
        known: &'static [&'static str],
        usual: &'static str,
    ) -> Result<Own<P, B>, ParseError> {
        if let Some(own) = self.find(|law| law.name == name) {
            knob::apply(own.name, (), options)?;
            return Ok(own);
        }
        let laws = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let names = known.iter().copied().chain(laws.iter().map(|law| law.name));
        Err(ParseError::UnknownName {
            given: name.to_owned(),
            nearest: knob::nearest(name, names).unwrap_or(usual),
            known,
        })
    }
}
