//! Senders' laws of the caller's own, under names of their own.

use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::base::Instant;
use crate::law::Controller;
use crate::signals::Explicit;

type Build = dyn Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync;

/// All that this process registered.
static LAWS: RwLock<Vec<OwnLaw>> = RwLock::new(Vec::new());

/// A law that was registered. No two have the same name.
#[derive(Clone)]
pub(super) struct OwnLaw {
    pub(super) name: &'static str,
    /// Whose answers it listens to.
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

impl fmt::Debug for OwnLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnLaw").field(&self.name).finish()
    }
}

impl PartialEq for OwnLaw {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnLaw {}

/// False if there is a law of its name.
pub(super) fn add(law: OwnLaw) -> bool {
    let mut laws = LAWS.write().unwrap_or_else(PoisonError::into_inner);
    let is_new = laws.iter().all(|other| other.name != law.name);
    if is_new {
        laws.push(law);
    }
    is_new
}

/// The law of this name.
pub(super) fn find(name: &str) -> Option<OwnLaw> {
    let laws = LAWS.read().unwrap_or_else(PoisonError::into_inner);
    laws.iter().find(|law| law.name == name).cloned()
}

/// All names.
pub(super) fn names() -> Vec<&'static str> {
    let laws = LAWS.read().unwrap_or_else(PoisonError::into_inner);
    laws.iter().map(|law| law.name).collect()
}
