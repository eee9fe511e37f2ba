//! RCP, the Rate Control Protocol, as an example of adding your own protocol (Dukkipati, "Rate
//! Control Protocol (RCP): Congestion control to make flows complete quickly", PhD thesis, Stanford
//! University, 2007).
//!
//! A router offers one rate R to all flows of a port. Each packet carries a rate, which ports can
//! lower to theirs. The receiver returns this rate, and the sender sends at it.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | the shim: rate, round trip, router |
//! | `port.rs` | the port's law: equation 1 |
//! | `sender.rs` | the sender's law |
//! | `signal.rs` | counters of the receiver, and the signal of endpoints |
//!
//! After you call [`register`], `rcp` names a sender's law and a port's law like any other, in
//! scenarios, in `compare`, and in the configuration of `vcp-router`.
//!
//! ```text
//! cargo run --release -p pathmark-rcp -- emulate five-files \
//!     --set flow.ftp.algorithm=rcp --set link.bottleneck.controller=rcp
//! cargo run --release -p pathmark-rcp -- compare --algorithms rcp,xcp,cubic
//! ```
//!
//! **Limits.** The thesis doesn't define a response to loss, so this sender hands its window to
//! CUBIC for a round trip after each loss and each CE mark. Since the protocol cannot prove which
//! rate routers offered, a receiver can return any rate.

#![forbid(unsafe_code)]

mod header;
mod port;
mod sender;
mod signal;

use std::error::Error;
use std::sync::{Arc, OnceLock};

use pathmark_cc::{Algorithm, Explicit, LinkAlgorithm};
use pathmark_protocols::Protocol;
use pathmark_shim::Kind;
use pathmark_transport::Signal;

pub use header::{LEN, Repr};
pub use port::RcpLink;
pub use sender::RcpSender;
pub use signal::RcpSignal;

/// The kind number of RCP's shims.
pub const KIND: Kind = Kind::FIRST_FREE;

/// A rate above any that a port offers, in bytes per second. It marks a packet that no router has
/// answered.
pub const UNANSWERED: u64 = 1 << 48;

/// The name of both laws.
const NAME: &str = "rcp";

#[derive(Debug)]
struct Rcp;

impl Protocol for Rcp {
    fn kind(&self) -> Kind {
        KIND
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn read(&self, payload: &[u8]) -> Option<[u64; 3]> {
        let header = Repr::parse(payload)?;
        Some([header.rate, header.rtt_us.into(), 0])
    }

    fn write(&self, [rate, _, _]: [u64; 3], router: u16, payload: &mut [u8]) -> bool {
        let Some(mut header) = Repr::parse(payload) else {
            return false;
        };
        if rate < header.rate {
            header.rate = rate;
            header.router = router;
        }
        header.emit(payload)
    }

    fn merge(&self, inner: &mut [u8], outer: &[u8]) -> bool {
        Repr::parse(outer).is_some_and(|outer| self.write([outer.rate, 0, 0], outer.router, inner))
    }

    fn signal(&self) -> Arc<dyn Signal> {
        Arc::new(RcpSignal)
    }
}

/// Registers RCP's shim, its signal and both laws in this process, under the name `rcp`. Only the
/// first call has an effect; later calls return its result.
///
/// # Errors
/// If the name or the kind number of its shims is already taken.
pub fn register() -> Result<(), String> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| register_all().map_err(|error| error.to_string()))
        .clone()
}

fn register_all() -> Result<(), Box<dyn Error>> {
    let kind = KIND.number();
    pathmark_protocols::register(&Rcp)?;
    LinkAlgorithm::register(NAME, kind, |now, rate, _| Box::new(RcpLink::new(now, rate)))?;
    Algorithm::register(NAME, Some(Explicit::Own(kind)), |_, mtu| {
        Box::new(RcpSender::new(mtu))
    })?;
    Ok(())
}
