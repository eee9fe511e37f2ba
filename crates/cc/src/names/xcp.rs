//! Options of XCP senders and ports.

use super::knob::{
    Count, FALLBACK, INITIAL_WINDOW, Knob, Options, PACE, PAPERS_PORT, PAPERS_SENDER, Ppm, Rate,
    SACK, START, Switch, Values, Words, knob,
};
use super::{ParseError, knob};
use crate::signals::XcpForm;
use crate::supervise::FallbackLaw;
use crate::xcp::{CloudParams, ExactEstimate, XcpCapacity, XcpLinkParams, XcpLoss, XcpParams};

impl Options for XcpParams {
    const TABLE: &'static [Knob<Self>] = SENDER;
}

pub(super) const SENDER: &[Knob<XcpParams>] = &[
    Knob {
        key: "paper",
        expects: PAPERS_SENDER,
        set: |params, text| {
            if Switch.read(text)? {
                params.as_published();
            }
            Some(())
        },
        show: |params| Switch.show(&params.published),
    },
    Knob {
        key: "sack",
        expects: SACK,
        set: |params, text| {
            params.sack = params.published.then(|| Switch.read(text))??;
            Some(())
        },
        show: |params| Switch.show(&params.sack),
    },
    knob! { initial_window: INITIAL_WINDOW },
    knob! { fallback: FALLBACK },
    knob! { loss: "loss", LOSS, "`hybrid`, `ignore` or `fallback`" },
    knob! { naive: "naive", Switch,
        "`yes` (tell routers the window although something else bounds the sender) or `no`"
    },
    knob! { every: "every", Count(1..=64),
        "a number of packets from 1 to 64: one of them carries a header"
    },
    knob! { form: "form", Words(&[("full", XcpForm::Full), ("compact", XcpForm::Compact)]),
        "`full` or `compact`"
    },
    knob! { asks_start: START },
    knob! { paced: PACE },
];

const LOSS: Words<XcpLoss> = Words(&[
    ("hybrid", XcpLoss::Hybrid),
    ("ignore", XcpLoss::Ignore),
    ("fallback", XcpLoss::Fallback),
]);

/// Parses a sender's parameters.
///
/// # Errors
/// Returns errors of the options, or a conflict if options of this library's rules are combined
/// with `paper`, or `fallback=bbr` with `pace=no`.
pub(super) fn sender(name: &'static str, options: Option<&str>) -> Result<XcpParams, ParseError> {
    let params = knob::apply(name, XcpParams::default(), options)?;
    let modelled = params.fallback != FallbackLaw::Cubic;
    let ours = params.loss != XcpLoss::default() || params.naive || params.asks_start || modelled;
    if params.published && ours {
        return Err(ParseError::Conflict {
            why: "`paper` is the papers' sender: leave `fallback`, `loss`, `naive` and `start` out",
        });
    }
    if modelled && !params.paced {
        return Err(ParseError::Conflict {
            why: "BBR controls its pace: leave `pace` out with `fallback=bbr`",
        });
    }
    Ok(params)
}

impl Options for XcpLinkParams {
    const TABLE: &'static [Knob<Self>] = LINK;

    fn further(&self) -> &'static [&'static [Knob<Self>]] {
        match self.clouds {
            Some(_) => &[CLOUDS],
            None => &[],
        }
    }

    fn defaults(&self) -> Self {
        Self {
            clouds: self.clouds.map(|_| CloudParams::default()),
            ..Self::default()
        }
    }
}

pub(super) const fn link_name(params: &XcpLinkParams) -> &'static str {
    match params.clouds {
        Some(_) => "xcp-i",
        None => "xcp",
    }
}

pub(super) const LINK: &[Knob<XcpLinkParams>] = &[
    Knob {
        key: "paper",
        expects: PAPERS_PORT,
        set: |params, text| {
            if Switch.read(text)? {
                params.guard = false;
                params.police = false;
                if let Some(clouds) = &mut params.clouds {
                    clouds.published = true;
                }
            }
            Some(())
        },
        show: |params| Switch.show(&params.clouds.is_some_and(|clouds| clouds.published)),
    },
    knob! { capacity: "capacity", Capacity, "`port`, `auto`, or a rate such as 10Mbit" },
    knob! { overhead: "overhead", Count(0..=1000),
        "bytes that the link adds to each packet, from 0 to 1000"
    },
    knob! { alpha_ppm: "alpha", Ppm(10_000..=555_000),
        "the share of the spare bandwidth given per interval, from 0.01 to 0.555, such as 0.4"
    },
    knob! { beta_ppm: "beta", Ppm(0..=1_000_000),
        "the share of the queue taken back per interval, from 0 to 1, such as 0.226"
    },
    knob! { guard: "guard", Switch,
        "`yes` (nothing is given that the buffer could not take) or `no`"
    },
    knob! { whole: "whole", Switch,
        "`yes` (tell window changes in whole packets, for comparison) or `no`"
    },
    knob! { police: "police", Switch,
        "`yes` (drop packets beyond a flow's stated or granted rate) or `no`"
    },
];

/// `port`, `auto`, or a rate.
struct Capacity;

impl Values<XcpCapacity> for Capacity {
    fn read(&self, text: &str) -> Option<XcpCapacity> {
        match text {
            "port" => Some(XcpCapacity::Port),
            "auto" => Some(XcpCapacity::Auto),
            _ => Rate.read(text).map(XcpCapacity::Fixed),
        }
    }

    fn show(&self, capacity: &XcpCapacity) -> String {
        match capacity {
            XcpCapacity::Port => "port".to_owned(),
            XcpCapacity::Auto => "auto".to_owned(),
            XcpCapacity::Fixed(fixed) => Rate.show(fixed),
        }
    }
}

const ERROR: Ppm = Ppm(0..=900_000);

pub(super) const CLOUDS: &[Knob<XcpLinkParams>] = &[
    Knob {
        key: "estimate",
        expects: "`none`, `real` (measured with packets), or, in the emulator, `exact`",
        set: |params, text| {
            let clouds = params.clouds.as_mut()?;
            (clouds.exact, clouds.measured) = match text {
                "none" => (None, false),
                "real" => (None, true),
                "exact" => (Some(ExactEstimate::default()), false),
                _ => return None,
            };
            Some(())
        },
        show: |params| match params.clouds {
            Some(CloudParams { exact: Some(_), .. }) => "exact".to_owned(),
            Some(CloudParams { measured: true, .. }) => "real".to_owned(),
            _ => "none".to_owned(),
        },
    },
    Knob {
        key: "error",
        expects: "after `estimate=exact`: the share by which it may err, up to 0.9, such as 0.2",
        set: |params, text| {
            params.clouds.as_mut()?.exact.as_mut()?.error_ppm = ERROR.read(text)?;
            Some(())
        },
        show: |params| {
            let exact = params.clouds.and_then(|clouds| clouds.exact);
            ERROR.show(&exact.unwrap_or_default().error_ppm)
        },
    },
];
