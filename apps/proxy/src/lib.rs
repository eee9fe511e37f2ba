//! Carries any application's TCP and UDP over HTTP/3.
//!
//! ```text
//!   application ─► ingress ─► outbound: tunnel ══ HTTP/3 ══► proxy: access ─► target
//! ```
//!
//! An ingress accepts flows from applications, and an [`Outbound`](outbound::Outbound) carries
//! each flow to its [`Target`](target::Target).

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

/// Declares `Counters`, and `Counts` with their values.
macro_rules! counters {
    ($(#[$of:meta])* Counts { $($(#[$doc:meta])* $name:ident,)* }) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: std::sync::atomic::AtomicU64,)*
        }

        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}

pub mod classes;
pub mod flows;
pub mod ingress;
pub mod outbound;
mod payload;
pub mod policy;
pub mod server;
pub mod target;
pub mod tunnel;
pub mod uri;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use uri as token;

/// Bytes for [`set_unread_memory`](pathmark_driver::Endpoint::set_unread_memory) of endpoints
/// with flows, which is half of their memory. It suffices for flows to continue at the full rate
/// of a long path while the receivers of some others have stopped.
pub const UNREAD: u64 = 256 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
