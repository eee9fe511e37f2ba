//! VCP's parameters, with units and sources. "VCP" is Xia et al., "One More Bit Is Enough" (SIGCOMM
//! 2005), as the VCP extensions paper (Ikeda et al.) restates it; times and shares are integers.

use crate::base::Duration;
use crate::base::arith::PPM;
use crate::signals::Carrier;
use crate::supervise::FallbackLaw;

/// Load from which a port sends HIGH, as a share of its usable capacity: 0.8 (VCP, table I).
pub(crate) const HIGH_LOAD: (u64, u64) = (4, 5);

/// BISE's ε (VCP extensions paper, table III).
pub(crate) const EPSILON_PPM: u64 = 10_000_000;

/// MI with a small ε may use the gain of at most this many intervals in one round trip, in 10^-6
/// (the authors' simulator).
pub(crate) const MAX_INTERVALS_PPM: u64 = 2_500_000;

/// MI with ε above 1 only that of one: else an interval shorter than the RTT would mean ×400 per
/// round trip.
pub(crate) const MAX_INTERVALS_STEEP_PPM: u64 = PPM;

/// RTTs beyond this multiple of the base scale AI linearly, not by the square (the authors'
/// simulator).
pub(crate) const AI_CLAMP: u64 = 5;

/// What RTTs are compared with when AI is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AiBase {
    /// The measuring interval t_ρ (VCP extensions paper, eq. 5).
    TRho,
    /// A fixed round trip (the authors' simulator: 100 ms).
    Fixed(Duration),
}

/// How AI develops while no OVER comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AiGrowth {
    /// α stays what it is (the paper).
    Constant,
    /// α doubles after each `intervals` intervals without OVER, and starts over with it. All flows
    /// of a bottleneck see the same OVERs, so they keep adding equal amounts, and the time to
    /// refill a cut grows with the logarithm of the window only.
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
    /// β of MD, in 10^-6: what a cut leaves.
    pub beta_ppm: u64,
    /// What a further cut leaves if the overload outlasts the one before, in 10^-6.
    pub beta_again_ppm: u64,
    /// Measuring interval assumed where routers do not advertise theirs (the ECN field cannot).
    pub t_rho: Duration,
    /// What RTTs are compared with when AI is scaled.
    pub ai_base: AiBase,
    /// Scale AI linearly beyond [five bases](AiBase), not by the square.
    pub ai_clamp: bool,
    /// Use the gain of 2.5 intervals at most in one round trip, with ε above 1 of one. The paper's
    /// equation 6 has no such bound.
    pub mi_cap: bool,
    /// How AI develops while no OVER comes.
    pub ai_growth: AiGrowth,
    /// For experiments: ignore every code, not only OVER, while a cut works its way round.
    pub freeze_all: bool,
    /// Where the code travels.
    pub carrier: Carrier,
    /// The law that rules where no router answers.
    pub fallback: FallbackLaw,
    /// BISE's ε in 10^-6, if the sender follows it where all routers run it.
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
            ai_base: AiBase::TRho,
            ai_clamp: true,
            mi_cap: true,
            ai_growth: AiGrowth::Doubling { intervals: 1 },
            freeze_all: false,
            carrier: Carrier::Shim,
            fallback: FallbackLaw::Cubic,
            bise_epsilon_ppm: None,
        }
    }
}

impl VcpParams {
    /// With BISE's ε (VCP extensions paper, table III), and a first cut half as deep: mixing up to
    /// the ceiling keeps the load steady enough for it.
    pub fn with_bise() -> Self {
        Self {
            beta_ppm: 937_500,
            bise_epsilon_ppm: Some(EPSILON_PPM),
            ..Self::default()
        }
    }

    /// The same with the papers' own rules wherever the defaults depart from them.
    pub fn as_published(&mut self) {
        self.ai_growth = AiGrowth::Constant;
        self.ai_clamp = false;
        self.mi_cap = false;
        self.beta_ppm = 875_000;
        self.beta_again_ppm = 875_000;
        self.initial_window = Some(2);
    }
}

/// How a port turns queue samples into its persistent queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueFilter {
    /// A quarter of the interval's mean, three quarters of what was before.
    LowPass,
    /// The interval's mean.
    Mean,
    /// The interval's least sample.
    Min,
}

/// How long a port measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// A fixed time.
    Fixed(Duration),
    /// Two and a half times the 90th percentile of its flows' least RTTs, never longer than this.
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
    /// Begin an interval with the first packet after idleness, and close it as soon as it is OVER
    /// for certain.
    pub restart: bool,
    /// While MI grows as fast as it can, lower r within the interval for this share of what has
    /// come, in 10^-6; 0: never.
    pub foresee_ppm: u64,
    /// Where r travels in the shim, send a larger one to flows with less than the mean, and a
    /// smaller one to those with more.
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
    /// Longest automatic interval by default.
    pub const AUTO_CEILING: Duration = Duration::from_secs(10);

    /// For a port with BISE: it has to measure over more than the RTTs it serves, and its steady
    /// load leaves room for γ = 0.99.
    pub fn with_bise() -> Self {
        Self {
            t_rho: Interval::Auto {
                ceiling: Self::AUTO_CEILING,
            },
            gamma_ppm: 990_000,
            ..Self::default()
        }
    }

    /// The same with the papers' own rules wherever the defaults depart from them.
    pub fn as_published(&mut self) {
        self.restart = false;
        self.foresee_ppm = 0;
        self.equalize = false;
        self.gamma_ppm = 980_000;
    }
}
