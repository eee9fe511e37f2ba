//! Options shared by several laws.

use super::value;
use crate::supervise::FallbackLaw;

pub(super) const HYSTART: &str =
    "`yes` (HyStart++ ends slow start before the queue overflows) or `no`";

pub(super) const BETA: &str =
    "what a cut leaves of the window, from 0.1 to 0.999999 (RFC 9438: 0.7; CUBIC of 2008: 0.8)";

pub(super) const PACE: &str =
    "`yes`, or `no` (what the window lets go leaves at once, as in the papers' simulations)";

const MAX_INITIAL_WINDOW: u32 = 10_000;

pub(super) const INITIAL_WINDOW: &str = "a number of packets from 1 to 10000, or `auto`";

pub(super) const START: &str =
    "`law` (as the law itself starts) or `quick-start` (with a rate that routers are asked for)";

pub(super) const FALLBACK: &str = "`cubic` or `bbr`: the law where no router answers";

/// Parses a law that can replace the routers.
pub(super) fn fallback(text: &str) -> Option<FallbackLaw> {
    match text {
        "cubic" => Some(FallbackLaw::Cubic),
        "bbr" => Some(FallbackLaw::Bbr),
        _ => None,
    }
}

pub(super) fn show_fallback(law: FallbackLaw) -> String {
    match law {
        FallbackLaw::Cubic => "cubic",
        FallbackLaw::Bbr => "bbr",
    }
    .to_owned()
}

pub(super) fn asks_start(text: &str) -> Option<bool> {
    match text {
        "law" => Some(false),
        "quick-start" => Some(true),
        _ => None,
    }
}

pub(super) fn show_asks_start(asks: bool) -> String {
    if asks { "quick-start" } else { "law" }.to_owned()
}

/// Parses a number of packets, or `None` for `auto`.
pub(super) fn initial_window(text: &str) -> Option<Option<u32>> {
    if text == "auto" {
        return Some(None);
    }
    let packets = u32::try_from(value::decimal(text, 0)?).ok()?;
    (1..=MAX_INITIAL_WINDOW)
        .contains(&packets)
        .then_some(Some(packets))
}

pub(super) fn show_initial_window(packets: Option<u32>) -> String {
    packets.map_or_else(|| "auto".to_owned(), |packets| packets.to_string())
}
