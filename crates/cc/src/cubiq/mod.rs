//! CUBIQ: CUBIC that starts with a rate which routers granted.
//!
//! Welzl, Abfalterer, Gjessing, "XCP vs. CUBIC with Quick-Start", section II. After the granted
//! flight slow start goes on; the paper found Limited Slow-Start (RFC 3742, `limited`) no better.
//! `hystart` lets HyStart++ end it before the queue overflows, which the paper does not do.

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
    /// The rate to ask for, in bytes of IP packets per second; what can be used if `None`.
    pub(crate) rate: Option<u64>,
    /// HyStart++ ends slow start.
    pub(crate) hystart: bool,
    /// Slow start is limited beyond this many packets.
    pub(crate) limited: Option<u32>,
    /// What follows the granted flight.
    pub(crate) after: AfterGrant,
    /// What a cut leaves of the window, in 10^-6.
    pub(crate) beta_ppm: u64,
    /// Spread a window over its round trip. The granted flight is paced in any case.
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
    /// CUBIQ over datagrams of `mtu` bytes.
    pub(crate) fn cubiq(mtu: u16, params: &CubiqParams) -> Self {
        let start = Limited::new(Ending::new(params.hystart), params.limited);
        let rule = Cubic::with_beta(params.beta_ppm);
        let law = LossBased::new(mtu, params.initial_window, rule, start).with_pace(params.paced);
        Self::new(Some("cubiq"), mtu, params.rate, params.after, law).asking_once()
    }
}
