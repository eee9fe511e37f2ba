//! Options shared by several laws.

use super::knob::Shared;
use super::value::{Auto, Count, Ppm, Rate, Switch, Time, Words};
use crate::base::Duration;
use crate::supervise::FallbackLaw;

pub(super) const PAPERS_SENDER: &str = "nothing: `paper` selects the papers' sender, without any \
    rule of this library's; options after it may still differ";

pub(super) const PAPERS_PORT: &str = "nothing: `paper` selects the papers' own rules; options \
    after it may still differ";

pub(super) const SACK: &str =
    "after `paper`: `yes` (the timeout of a TCP with SACK) or `no` (of one without)";

pub(super) const YES_NO: &str = "`yes` or `no`";

/// The times that a VCP port may measure over.
pub(super) const INTERVAL: Time = Time(Duration::from_millis(1)..=Duration::from_millis(65_535));

pub(super) const INITIAL_WINDOW: Shared<Auto<Count<u32>>> = Shared {
    key: "iw",
    values: Auto(Count(1..=10_000)),
    expects: "a number of packets from 1 to 10000, or `auto`",
};

pub(super) const HYSTART: Shared<Switch> = Shared {
    key: "hystart",
    values: Switch,
    expects: "`yes` (HyStart++ ends slow start before the queue overflows) or `no`",
};

pub(super) const BETA: Shared<Ppm> = Shared {
    key: "beta",
    values: Ppm(100_000..=999_999),
    expects: "what a cut leaves of the window, from 0.1 to 0.999999 (RFC 9438: 0.7; CUBIC of \
        2008: 0.8)",
};

pub(super) const PACE: Shared<Switch> = Shared {
    key: "pace",
    values: Switch,
    expects: "`yes`, or `no` (what the window lets go leaves at once, as in the papers' \
        simulations)",
};

pub(super) const RATE: Shared<Auto<Rate>> = Shared {
    key: "rate",
    values: Auto(Rate),
    expects: "the rate that is asked for, such as 1Gbit, or `auto`: as much as can be used",
};

pub(super) const START: Shared<Words<bool>> = Shared {
    key: "start",
    values: Words(&[("law", false), ("quick-start", true)]),
    expects: "`law` (as the law itself starts) or `quick-start` (with a rate that routers are \
        asked for)",
};

pub(super) const FALLBACK: Shared<Words<FallbackLaw>> = Shared {
    key: "fallback",
    values: Words(&[("cubic", FallbackLaw::Cubic), ("bbr", FallbackLaw::Bbr)]),
    expects: "`cubic` or `bbr`: the law where no router answers",
};
