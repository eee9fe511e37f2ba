//! VCP's parameters, with units and sources. "VCP" is Xia et al., "One More Bit Is Enough" (SIGCOMM
//! 2005), as restated by the VCP extensions paper (Ikeda et al.). Times and shares are integers.

use crate::base::Duration;
use crate::base::arith::PPM;
use crate::signals::Carrier;
use crate::supervise::FallbackLaw;

/// Load at which a port starts to send HIGH, as a share of its usable capacity: 0.8 (VCP, table I).
pub(crate) const HIGH_LOAD: (u64, u64) = (4, 5);

/// BISE's ε (VCP extensions paper, table III).
pub(crate) const EPSILON_PPM: u64 = 10_000_000;

/// With a small ε, MI may use the gain of at most this many intervals per round trip, in 10^-6 (the
/// authors' simulator).
pub(crate) const MAX_INTERVALS_PPM: u64 = 2_500_000;

/// With ε above 1, MI may use the gain of one interval only. Otherwise an interval shorter than the
/// RTT would multiply the window by 400 per round trip.
pub(crate) const MAX_INTERVALS_STEEP_PPM: u64 = PPM;

/// For RTTs beyond this multiple of t_ρ, AI scales linearly instead of quadratically (the
/// authors' simulator).
pub(crate) const AI_CLAMP: u64 = 5;

/// How AI develops while no OVER arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AiGrowth {
    /// α stays constant (the paper).
    Constant,
    /// α doubles after each `intervals` intervals without OVER, and starts again after an OVER.
    /// Because all flows of a bottleneck see the same OVERs, they keep adding equal amounts, and
    /// the time to recover from a cut grows only with the logarithm of the window.
    Doubling {
        /// Intervals per doubling.
        intervals: u32,
    },
}

/// A VCP sender's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpParams {
    /// Initial window in packets; RFC 9002's if `None`.
    pub initial_window: Option<u32>,
    /// ε of MI per interval, in 10^-6.
    pub epsilon_ppm: u64,
    /// α of AI per round trip, in 10^-6 packets.
    pub alpha_ppm: u64,
    /// β of MD, in 10^-6: the share of the window that a cut leaves.
    pub beta_ppm: u64,
    /// The share that a further cut leaves if the overload outlasts the previous cut, in 10^-6.
    pub beta_again_ppm: u64,
    /// Measuring interval that is assumed if routers do not advertise theirs (the ECN field
    /// cannot).
    pub t_rho: Duration,
    /// Scales AI linearly for RTTs beyond five intervals t_ρ, instead of quadratically.
    pub ai_clamp: bool,
    /// Limits the gain per round trip to that of 2.5 intervals, or of one interval if ε is above 1.
    /// Equation 6 of the paper has no such bound.
    pub mi_cap: bool,
    /// How AI develops while no OVER arrives.
    pub ai_growth: AiGrowth,
    /// The field that carries the code.
    pub carrier: Carrier,
    /// The law that controls the window if no router answers.
    pub fallback: FallbackLaw,
    /// BISE's ε in 10^-6, if the sender follows BISE where all routers run it.
    pub bise_epsilon_ppm: Option<u64>,
}

impl Default for VcpParams {
    fn default() -> Self {
        Self {
            initial_window: None,
            epsilon_ppm: 62_500,
            alpha_ppm: PPM,
            beta_ppm: 875_000,
            beta_again_ppm: 875_000,
            t_rho: Duration::from_millis(200),
            ai_clamp: true,
            mi_cap: true,
            ai_growth: AiGrowth::Doubling { intervals: 1 },
            carrier: Carrier::Shim,
            fallback: FallbackLaw::Cubic,
            bise_epsilon_ppm: None,
        }
    }
}

impl VcpParams {
    /// With BISE's ε (VCP extensions paper, table III), and a first cut half as deep, because
    /// mixing up to the ceiling keeps the load steady enough for it.
    pub fn with_bise() -> Self {
        Self {
            beta_ppm: 937_500,
            bise_epsilon_ppm: Some(EPSILON_PPM),
            ..Self::default()
        }
    }

    /// Selects the papers' rules where the defaults differ from them.
    pub fn as_published(&mut self) {
        self.ai_growth = AiGrowth::Constant;
        self.ai_clamp = false;
        self.mi_cap = false;
        self.beta_ppm = 875_000;
        self.beta_again_ppm = 875_000;
        self.initial_window = Some(2);
    }
}

/// How a port computes its persistent queue from queue samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFilter {
    /// A quarter of the interval's mean, plus three quarters of the previous value.
    LowPass,
    /// The interval's mean.
    Mean,
    /// The interval's smallest sample.
    Min,
}

/// The length of a port's measuring interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// A fixed length.
    Fixed(Duration),
    /// Two and a half times the 90th percentile of the flows' minimum RTTs, up to a ceiling.
    Auto {
        /// Longest interval.
        ceiling: Duration,
    },
}

/// A VCP port's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpLinkParams {
    /// Measuring interval t_ρ.
    pub t_rho: Interval,
    /// Time between queue samples t_q.
    pub t_q: Duration,
    /// Weight κ of the persistent queue, in 10^-6.
    pub kappa_ppm: u64,
    /// Usable share γ of the capacity, in 10^-6.
    pub gamma_ppm: u64,
    /// How queue samples become the persistent queue.
    pub queue: QueueFilter,
    /// Begins an interval with the first packet after idleness, and ends it as soon as it is
    /// certainly OVER.
    pub restart: bool,
    /// While MI grows as fast as possible, lowers r within the interval for this share of the
    /// arrivals, in 10^-6; 0: never.
    pub foresee_ppm: u64,
    /// If r is carried in the shim, sends a larger r to flows below the mean rate, and a smaller r
    /// to flows above it.
    pub equalize: bool,
}

impl Default for VcpLinkParams {
    fn default() -> Self {
        Self {
            t_rho: Interval::Fixed(Duration::from_millis(200)),
            t_q: Duration::from_millis(10),
            kappa_ppm: 500_000,
            gamma_ppm: 980_000,
            queue: QueueFilter::LowPass,
            restart: true,
            foresee_ppm: 500_000,
            equalize: true,
        }
    }
}

impl VcpLinkParams {
    /// Default of the longest automatic interval.
    pub const AUTO_CEILING: Duration = Duration::from_secs(10);

    /// For a port with BISE, which must measure over more than the RTTs that it serves, and whose
    /// steady load leaves room for γ = 0.99.
    pub fn with_bise() -> Self {
        Self {
            t_rho: Interval::Auto {
                ceiling: Self::AUTO_CEILING,
            },
            gamma_ppm: 990_000,
            ..Self::default()
        }
    }

    /// Selects the papers' rules where the defaults differ from them.
    pub fn as_published(&mut self) {
        self.restart = false;
        self.foresee_ppm = 0;
        self.equalize = false;
        self.gamma_ppm = 980_000;
    }
}
