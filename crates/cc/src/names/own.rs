//! Laws registered by this process, which have their own names.

use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::base::Instant;
use crate::law::{Controller, LinkController};
use crate::signals::Explicit;

type Build = dyn Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync;
type BuildPort = dyn Fn(Instant, u64, u64) -> Box<dyn LinkController> + Send + Sync;

pub(super) static SENDERS: Registry<OwnLaw> = Registry::new();
pub(super) static PORTS: Registry<OwnPort> = Registry::new();

pub(super) trait Named: Clone {
    fn name(&self) -> &'static str;
}

pub(super) struct Registry<T>(RwLock<Vec<T>>);

impl<T: Named> Registry<T> {
    const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Adds a law. Returns false if there is already one with its name.
    pub(super) fn add(&self, law: T) -> bool {
        let mut laws = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = laws.iter().all(|other| other.name() != law.name());
        if is_new {
            laws.push(law);
        }
        is_new
    }

    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let laws = self.0.read().unwrap_or_else(PoisonError::into_inner);
        laws.iter().find(|law| wanted(law)).cloned()
    }

    pub(super) fn named(&self, name: &str) -> Option<T> {
        self.find(|law| law.name() == name)
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        let laws = self.0.read().unwrap_or_else(PoisonError::into_inner);
        laws.iter().map(Named::name).collect()
    }
}

#[derive(Clone)]
pub(super) struct OwnLaw {
    pub(super) name: &'static str,
    /// The signal that it reads.
    pub(super) hears: Option<Explicit>,
    build: Arc<Build>,
}

impl OwnLaw {
    pub(super) fn new(
        name: &'static str,
        hears: Option<Explicit>,
        build: impl Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            hears,
            build: Arc::new(build),
        }
    }

    pub(super) fn controller(&self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        (self.build)(now, mtu)
    }
}

#[derive(Clone)]
pub(super) struct OwnPort {
    pub(super) name: &'static str,
    /// Number of the protocol that it answers, from 3 to 7.
    pub(super) kind: u8,
    build: Arc<BuildPort>,
}

impl OwnPort {
    pub(super) fn new(
        name: &'static str,
        kind: u8,
        build: impl Fn(Instant, u64, u64) -> Box<dyn LinkController> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            kind,
            build: Arc::new(build),
        }
    }

    pub(super) fn controller(&self, now: Instant, rate: u64, seed: u64) -> Box<dyn LinkController> {
        (self.build)(now, rate, seed)
    }
}

impl Named for OwnLaw {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Named for OwnPort {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for OwnLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnLaw").field(&self.name).finish()
    }
}

impl fmt::Debug for OwnPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPort").field(&self.name).finish()
    }
}

impl PartialEq for OwnLaw {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnLaw {}

impl PartialEq for OwnPort {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnPort {}
