//! CUBIQ: CUBIC that starts with a rate granted by routers.
//!
//! Welzl, Abfalterer, Gjessing, "XCP vs. CUBIC with Quick-Start", section II. After the granted
//! flight, slow start continues; the paper found that Limited Slow-Start (RFC 3742, `limited`) was
//! no better. With `hystart`, HyStart++ ends slow start before the queue overflows, unlike in the
//! paper.

use crate::quick_start::{AfterGrant, QuickStart};
use crate::standard::LossBased;
use crate::standard::cubic::{BETA_PPM, Cubic};
use crate::standard::slow_start::{Ending, Limited};

/// The controller `cubiq`.
pub(crate) type Cubiq = QuickStart<LossBased<Cubic, Limited>>;

/// Options of `cubiq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CubiqParams {
    /// Initial window in packets; RFC 9002's if `None`.
    pub(crate) initial_window: Option<u32>,
    /// The rate to request, in bytes of IP packets per second. If `None`, the rate that can be
    /// used.
    pub(crate) rate: Option<u64>,
    /// Lets HyStart++ end slow start.
    pub(crate) hystart: bool,
    /// Limits slow start beyond this number of packets.
    pub(crate) limited: Option<u32>,
    /// Behaviour after the granted flight.
    pub(crate) after: AfterGrant,
    /// The share of the window that a cut leaves, in 10^-6.
    pub(crate) beta_ppm: u64,
    /// Spreads a window over its round trip. The granted flight is always paced.
    pub(crate) paced: bool,
}

impl Default for CubiqParams {
    fn default() -> Self {
        Self {
            initial_window: None,
            rate: None,
            hystart: true,
            limited: None,
            after: AfterGrant::SlowStart,
            beta_ppm: BETA_PPM,
            paced: true,
        }
    }
}

impl Cubiq {
    /// CUBIQ for datagrams of `mtu` bytes.
    pub(crate) fn cubiq(mtu: u16, params: &CubiqParams) -> Self {
        let start = Limited::new(Ending::new(params.hystart), params.limited);
        let rule = Cubic::with_beta(params.beta_ppm);
        let law = LossBased::new(mtu, params.initial_window, rule, start).with_pace(params.paced);
        Self::new(Some("cubiq"), mtu, params.rate, params.after, law).asking_once()
    }
}
