//! Options of XCP senders and ports.

use super::common::{
    FALLBACK, INITIAL_WINDOW, PACE, START, asks_start, fallback, initial_window, show_asks_start,
    show_fallback, show_initial_window,
};
use super::error::ParseError;
use super::knob::{self, Knob, Knobs};
use super::value::{
    decimal, duration, ppm, rate, show_decimal, show_duration, show_ppm, show_rate, show_switch,
    switch,
};
use crate::base::Duration;
use crate::signals::XcpForm;
use crate::supervise::FallbackLaw;
use crate::xcp::{CloudParams, ExactEstimate, XcpCapacity, XcpLinkParams, XcpLoss, XcpParams};

pub(super) const SENDER: &[Knob<XcpParams>] = &[
    Knob {
        key: "paper",
        expects: "nothing: `paper` selects the papers' sender, without any rule of this library's; \
            options after it may still differ",
        set: |params, text| {
            if switch(text)? {
                params.as_published();
            }
            Some(())
        },
        show: |params| show_switch(params.published),
    },
    Knob {
        key: "sack",
        expects: "after `paper`: `yes` (the timeout of a TCP with SACK) or `no` (of one without)",
        set: |params, text| {
            if !params.published {
                return None;
            }
            params.sack = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.sack),
    },
    Knob {
        key: "iw",
        expects: INITIAL_WINDOW,
        set: |params, text| {
            params.initial_window = initial_window(text)?;
            Some(())
        },
        show: |params| show_initial_window(params.initial_window),
    },
    Knob {
        key: "fallback",
        expects: FALLBACK,
        set: |params, text| {
            params.fallback = fallback(text)?;
            Some(())
        },
        show: |params| show_fallback(params.fallback),
    },
    Knob {
        key: "loss",
        expects: "`hybrid`, `ignore` or `fallback`",
        set: |params, text| {
            params.loss = match text {
                "hybrid" => XcpLoss::Hybrid,
                "ignore" => XcpLoss::Ignore,
                "fallback" => XcpLoss::Fallback,
                _ => return None,
            };
            Some(())
        },
        show: |params| {
            match params.loss {
                XcpLoss::Hybrid => "hybrid",
                XcpLoss::Ignore => "ignore",
                XcpLoss::Fallback => "fallback",
            }
            .to_owned()
        },
    },
    Knob {
        key: "naive",
        expects: "`yes` (tell routers the window although something else bounds the sender) or \
            `no`",
        set: |params, text| {
            params.naive = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.naive),
    },
    Knob {
        key: "every",
        expects: "a number of packets from 1 to 64: one of them carries a header",
        set: |params, text| {
            let every = u16::try_from(decimal(text, 0)?).ok()?;
            if !(1..=64).contains(&every) {
                return None;
            }
            params.every = every;
            Some(())
        },
        show: |params| show_decimal(u64::from(params.every), 0),
    },
    Knob {
        key: "form",
        expects: "`full` or `compact`",
        set: |params, text| {
            params.form = match text {
                "full" => XcpForm::Full,
                "compact" => XcpForm::Compact,
                _ => return None,
            };
            Some(())
        },
        show: |params| {
            match params.form {
                XcpForm::Full => "full",
                XcpForm::Compact => "compact",
            }
            .to_owned()
        },
    },
    Knob {
        key: "start",
        expects: START,
        set: |params, text| {
            params.asks_start = asks_start(text)?;
            Some(())
        },
        show: |params| show_asks_start(params.asks_start),
    },
    Knob {
        key: "desired",
        expects: "the rate that is asked for at most, such as 100Mbit",
        set: |params, text| {
            params.desired = rate(text)?;
            Some(())
        },
        show: |params| show_rate(params.desired),
    },
    Knob {
        key: "pace",
        expects: PACE,
        set: |params, text| {
            params.paced = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.paced),
    },
];

/// Parses a sender's parameters.
///
/// # Errors
/// Returns errors of the options, or a conflict if options of this library's rules are combined
/// with `paper`, or `fallback=bbr` with `pace=no`.
pub(super) fn sender(name: &'static str, options: Option<&str>) -> Result<XcpParams, ParseError> {
    let mut params = XcpParams::default();
    knob::apply(name, &[SENDER], &mut params, options)?;
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

pub(super) const LINK: &[Knob<XcpLinkParams>] = &[
    Knob {
        key: "paper",
        expects: "nothing: `paper` selects the papers' own rules; options after it may still \
            differ",
        set: |params, text| {
            if switch(text)? {
                params.guard = false;
                params.police = false;
                if let Some(clouds) = &mut params.clouds {
                    clouds.published = true;
                }
            }
            Some(())
        },
        show: |params| show_switch(params.clouds.is_some_and(|clouds| clouds.published)),
    },
    Knob {
        key: "capacity",
        expects: "`port`, `auto`, or a rate such as 10Mbit",
        set: |params, text| {
            params.capacity = match text {
                "port" => XcpCapacity::Port,
                "auto" => XcpCapacity::Auto,
                _ => XcpCapacity::Fixed(rate(text)?),
            };
            Some(())
        },
        show: |params| match params.capacity {
            XcpCapacity::Port => "port".to_owned(),
            XcpCapacity::Auto => "auto".to_owned(),
            XcpCapacity::Fixed(fixed) => show_rate(fixed),
        },
    },
    Knob {
        key: "overhead",
        expects: "bytes that the link adds to each packet, from 0 to 1000",
        set: |params, text| {
            let bytes = u32::try_from(decimal(text, 0)?).ok()?;
            if bytes > 1000 {
                return None;
            }
            params.overhead = bytes;
            Some(())
        },
        show: |params| show_decimal(u64::from(params.overhead), 0),
    },
    Knob {
        key: "alpha",
        expects: "the share of the spare bandwidth given per interval, from 0.01 to 0.555, such as \
            0.4",
        set: |params, text| {
            params.alpha_ppm = ppm(text, 10_000, 555_000)?;
            Some(())
        },
        show: |params| show_ppm(params.alpha_ppm),
    },
    Knob {
        key: "beta",
        expects: "the share of the queue taken back per interval, from 0 to 1, such as 0.226",
        set: |params, text| {
            params.beta_ppm = ppm(text, 0, 1_000_000)?;
            Some(())
        },
        show: |params| show_ppm(params.beta_ppm),
    },
    Knob {
        key: "shuffle",
        expects: "the share of the traffic shuffled per interval, from 0 to 0.5, such as 0.1",
        set: |params, text| {
            params.shuffle_ppm = ppm(text, 0, 500_000)?;
            Some(())
        },
        show: |params| show_ppm(params.shuffle_ppm),
    },
    Knob {
        key: "guard",
        expects: "`yes` (nothing is given that the buffer could not take) or `no`",
        set: |params, text| {
            params.guard = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.guard),
    },
    Knob {
        key: "whole",
        expects: "`yes` (tell window changes in whole packets, for comparison) or `no`",
        set: |params, text| {
            params.whole = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.whole),
    },
    Knob {
        key: "police",
        expects: "`yes` (drop packets beyond a flow's stated or granted rate) or `no`",
        set: |params, text| {
            params.police = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.police),
    },
];

pub(super) const fn link_name(params: &XcpLinkParams) -> &'static str {
    match params.clouds {
        Some(_) => "xcp-i",
        None => "xcp",
    }
}

pub(super) const fn link_knobs(params: &XcpLinkParams) -> Knobs<'static, XcpLinkParams> {
    match params.clouds {
        Some(_) => &[LINK, CLOUDS],
        None => &[LINK],
    }
}

fn exact(params: &mut XcpLinkParams) -> Option<&mut ExactEstimate> {
    params.clouds.as_mut()?.exact.as_mut()
}

fn show_exact(params: &XcpLinkParams, show: impl FnOnce(&ExactEstimate) -> String) -> String {
    let clouds = params.clouds.as_ref();
    let exact = clouds.and_then(|clouds| clouds.exact.as_ref());
    show(exact.unwrap_or(&ExactEstimate::default()))
}

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
        expects: "after `estimate=exact`: by what share it may be wrong, from 0 to 0.9, such as \
            0.2",
        set: |params, text| {
            exact(params)?.error_ppm = ppm(text, 0, 900_000)?;
            Some(())
        },
        show: |params| show_exact(params, |exact| show_ppm(exact.error_ppm)),
    },
    Knob {
        key: "refresh",
        expects: "after `estimate=exact`: time between two estimates from 1ms to 10s, such as 50ms",
        set: |params, text| {
            let every = duration(text)?;
            if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&every) {
                return None;
            }
            exact(params)?.every = every;
            Some(())
        },
        show: |params| show_exact(params, |exact| show_duration(exact.every)),
    },
    Knob {
        key: "hold",
        expects: "after `estimate=exact`: for how long the error stays the same, up to 1000s, such \
            as 1s",
        set: |params, text| {
            let hold = duration(text)?;
            if !(Duration::from_millis(1)..=Duration::from_secs(1000)).contains(&hold) {
                return None;
            }
            exact(params)?.hold = hold;
            Some(())
        },
        show: |params| show_exact(params, |exact| show_duration(exact.hold)),
    },
];
