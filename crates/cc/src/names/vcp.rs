//! Options of VCP senders and ports.

use super::knob::{
    Count, FALLBACK, INITIAL_WINDOW, INTERVAL, Knob, Options, PAPERS_PORT, PAPERS_SENDER, Ppm,
    SACK, START, Switch, Time, Values, Words, YES_NO, knob,
};
use crate::base::Duration;
use crate::signals::Carrier;
use crate::vcp::{
    AiGrowth, BiseParams, Draw, Interval, Marking, QueueFilter, VcpLinkParams, VcpParams, Wlte,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VcpConfig {
    pub(super) params: VcpParams,
    /// True if `wlte` is the law's loss rule.
    pub(super) has_wlte: bool,
    pub(super) wlte: Wlte,
    pub(super) asks_start: bool,
    /// True for the papers' sender, without any of this library's rules.
    pub(super) published: bool,
    /// True if this sender uses a TCP with SACK.
    pub(super) sack: bool,
}

impl VcpConfig {
    pub(super) fn new(bise: bool, has_wlte: bool) -> Self {
        Self {
            params: if bise {
                VcpParams::with_bise()
            } else {
                VcpParams::default()
            },
            has_wlte,
            ..Self::default()
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match (self.params.bise_epsilon_ppm, self.has_wlte) {
            (None, false) => "vcp",
            (Some(_), false) => "vcp+bise",
            (None, true) => "vcp+wlte",
            (Some(_), true) => "vcp+bise+wlte",
        }
    }
}

impl Options for VcpConfig {
    const TABLE: &'static [Knob<Self>] = COMMON;

    fn further(&self) -> &'static [&'static [Knob<Self>]] {
        match (self.params.bise_epsilon_ppm, self.has_wlte) {
            (None, false) => &[],
            (Some(_), false) => &[BISE],
            (None, true) => &[WLTE],
            (Some(_), true) => &[BISE, WLTE],
        }
    }

    fn defaults(&self) -> Self {
        Self::new(self.params.bise_epsilon_ppm.is_some(), self.has_wlte)
    }
}

/// ε, either of them.
const EPSILON: Ppm = Ppm(1..=100_000_000);

pub(super) const COMMON: &[Knob<VcpConfig>] = &[
    Knob {
        key: "paper",
        expects: PAPERS_SENDER,
        set: |config, text| {
            if Switch.read(text)? {
                config.params.as_published();
                config.published = true;
            }
            Some(())
        },
        show: |config| Switch.show(&config.published),
    },
    Knob {
        key: "sack",
        expects: SACK,
        set: |config, text| {
            config.sack = config.published.then(|| Switch.read(text))??;
            Some(())
        },
        show: |config| Switch.show(&config.sack),
    },
    knob! { params.initial_window: INITIAL_WINDOW },
    knob! { params.fallback: FALLBACK },
    knob! { asks_start: START },
    knob! { params.epsilon_ppm: "epsilon", EPSILON,
        "ε of MI from 0.000001 to 100, such as 0.0625"
    },
    knob! { params.alpha_ppm: "alpha", Ppm(1..=1_000_000_000),
        "packets per round trip from 0.000001 to 1000, such as 1"
    },
    knob! { params.beta_ppm: "beta", Ppm(100_000..=999_999),
        "the share that a cut leaves, from 0.1 to 0.999999, such as 0.875"
    },
    knob! { params.beta_again_ppm: "beta_again", Ppm(100_000..=999_999),
        "the share that a further cut leaves while overload goes on, from 0.1 to 0.999999, such \
            as 0.875"
    },
    knob! { params.t_rho: "t_rho", INTERVAL,
        "a time from 1ms to 65.535s, such as 200ms (used where routers do not tell theirs)"
    },
    knob! { params.ai_growth: "ai", Growth,
        "`constant`, or the number of intervals from 1 to 1000 after which α doubles"
    },
    knob! { params.ai_clamp: "ai_clamp", Switch, YES_NO },
    knob! { params.mi_cap: "mi_cap", Switch, YES_NO },
    knob! { params.carrier: "carrier", Words(&[("shim", Carrier::Shim), ("ecn", Carrier::Ecn)]),
        "`shim` or `ecn`"
    },
];

/// `constant`, or the number of intervals after which α doubles.
struct Growth;

impl Values<AiGrowth> for Growth {
    fn read(&self, text: &str) -> Option<AiGrowth> {
        match text {
            "constant" => Some(AiGrowth::Constant),
            _ => Count(1..=1000)
                .read(text)
                .map(|intervals| AiGrowth::Doubling { intervals }),
        }
    }

    fn show(&self, growth: &AiGrowth) -> String {
        match growth {
            AiGrowth::Constant => "constant".to_owned(),
            AiGrowth::Doubling { intervals } => intervals.to_string(),
        }
    }
}

pub(super) const BISE: &[Knob<VcpConfig>] = &[Knob {
    key: "bise_epsilon",
    expects: "ε under BISE from 0.000001 to 100, such as 10",
    set: |config, text| {
        config.params.bise_epsilon_ppm = Some(EPSILON.read(text)?);
        Some(())
    },
    show: |config| {
        let epsilon = config.params.bise_epsilon_ppm.as_ref();
        epsilon.map_or_else(String::new, |ppm| EPSILON.show(ppm))
    },
}];

pub(super) const WLTE: &[Knob<VcpConfig>] = &[knob! { wlte.pure: "pure", Switch, YES_NO }];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VcpLinkConfig {
    pub(super) params: VcpLinkParams,
    /// True if the port runs BISE.
    pub(super) has_bise: bool,
    pub(super) bise: BiseParams,
}

impl VcpLinkConfig {
    pub(super) fn new(has_bise: bool) -> Self {
        Self {
            params: if has_bise {
                VcpLinkParams::with_bise()
            } else {
                VcpLinkParams::default()
            },
            has_bise,
            bise: BiseParams::default(),
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        if self.has_bise { "vcp+bise" } else { "vcp" }
    }
}

impl Options for VcpLinkConfig {
    const TABLE: &'static [Knob<Self>] = PORT;

    fn further(&self) -> &'static [&'static [Knob<Self>]] {
        if self.has_bise { &[BISE_PORT] } else { &[] }
    }

    fn defaults(&self) -> Self {
        Self::new(self.has_bise)
    }
}

/// Longest automatic interval unless changed by `t_rho_max`.
const AUTO_CEILING: Duration = VcpLinkParams::AUTO_CEILING;

pub(super) const PORT: &[Knob<VcpLinkConfig>] = &[
    Knob {
        key: "paper",
        expects: PAPERS_PORT,
        set: |config, text| {
            if Switch.read(text)? {
                config.params.as_published();
                config.bise.as_published();
            }
            Some(())
        },
        show: |_| String::new(),
    },
    Knob {
        key: "t_rho",
        expects: "`auto`, or a time from 1ms to 65.535s, such as 200ms",
        set: |config, text| {
            config.params.t_rho = match text {
                "auto" => Interval::Auto {
                    ceiling: AUTO_CEILING,
                },
                _ => Interval::Fixed(INTERVAL.read(text)?),
            };
            Some(())
        },
        show: |config| match &config.params.t_rho {
            Interval::Auto { .. } => "auto".to_owned(),
            Interval::Fixed(fixed) => INTERVAL.show(fixed),
        },
    },
    Knob {
        key: "t_rho_max",
        expects: "a time from 1ms to 65.535s after `t_rho=auto`, such as 10s",
        set: |config, text| {
            let Interval::Auto { ceiling } = &mut config.params.t_rho else {
                return None;
            };
            *ceiling = INTERVAL.read(text)?;
            Some(())
        },
        show: |config| match &config.params.t_rho {
            Interval::Auto { ceiling } => INTERVAL.show(ceiling),
            Interval::Fixed(_) => INTERVAL.show(&AUTO_CEILING),
        },
    },
    knob! { params.t_q: "t_q", Time(Duration::from_micros(100)..=Duration::from_secs(1)),
        "a time from 100us to 1s, such as 10ms"
    },
    knob! { params.kappa_ppm: "kappa", Ppm(0..=1_000_000),
        "the weight of the queue from 0 to 1, such as 0.5"
    },
    knob! { params.gamma_ppm: "gamma", Ppm(500_000..=1_000_000),
        "the usable share of the capacity from 0.5 to 1, such as 0.98"
    },
    knob! { params.queue: "queue", FILTER, "`lowpass`, `mean` or `min`" },
    knob! { params.restart: "restart", Switch, YES_NO },
];

const FILTER: Words<QueueFilter> = Words(&[
    ("lowpass", QueueFilter::LowPass),
    ("mean", QueueFilter::Mean),
    ("min", QueueFilter::Min),
]);

pub(super) const BISE_PORT: &[Knob<VcpLinkConfig>] = &[
    knob! { params.foresee_ppm: "foresee", Ppm(0..=1_000_000),
        "a share of the running interval's load from 0 to 1, such as 0.5"
    },
    knob! { params.equalize: "equalize", Switch, YES_NO },
    knob! { bise.epsilon_ppm: "epsilon", EPSILON,
        "the senders' ε from 0.000001 to 100, such as 10"
    },
    knob! { bise.k_ppm: "k", Ppm(10_000..=990_000),
        "the share of the gap closed per interval, from 0.01 to 0.99, such as 0.33"
    },
    knob! { bise.target_ppm: "target", Ppm(500_000..=1_000_000),
        "the load aimed at from 0.5 to 1, such as 1"
    },
    knob! { bise.x_ref_ppm: "x_ref", Ppm(10_000..=1_000_000),
        "an RTT as a share of the interval from 0.01 to 1, such as 1"
    },
    knob! { bise.ceiling_ppm: "ceiling", Ppm(500_000..=1_000_000),
        "the load up to which MI and AI are mixed, from 0.5 to 1, such as 0.98"
    },
    knob! { bise.marking: "marking", MARKING,
        "`carried`, `lottery`, `lottery-random` or `lottery-diffusion`"
    },
];

const MARKING: Words<Marking> = Words(&[
    ("carried", Marking::Carried),
    ("lottery", Marking::Lottery(Draw::Weyl)),
    ("lottery-random", Marking::Lottery(Draw::Random)),
    ("lottery-diffusion", Marking::Lottery(Draw::Diffusion)),
]);
