//! The efficiency controller: by how much the total traffic should change.
//!
//! F = α·(C − y) − β·q/d (Katabi et al., eq. 1, in the rate form), with the arrival rate y, the
//! persistent queue q, and the mean RTT d. The table in the docs of `xcp` gives the bounds. If the
//! capacity varies, q is the part of the queue beyond the wanted queue.

use crate::base::arith::PPM;
use crate::xcp::fixed::{MOST_RATE_Q16, RATE_BITS, rate_q16};
use crate::xcp::params::XcpLinkParams;

/// [XCP-i II-A controller]: the aggregate feedback in 2^-16 bytes per second, from capacity and
/// input rate (2^-16 bytes per second), persistent and wanted queue (bytes), and mean RTT (µs).
pub(crate) fn aggregate(
    params: &XcpLinkParams,
    capacity_q16: u64,
    input_q16: u64,
    (queue, wanted): (u64, u64),
    mean_rtt_us: u64,
) -> i64 {
    let ppm = i128::from(PPM);
    let spare = i128::from(capacity_q16) - i128::from(input_q16);
    let given = (i128::from(params.alpha_ppm) * spare).div_euclid(ppm);
    let queue_q16 = (i128::from(queue) - i128::from(wanted)) << RATE_BITS;
    // The 10^-6 of β and the µs of the RTT cancel.
    let taken = i128::from(params.beta_ppm) * queue_q16 / i128::from(mean_rtt_us.max(1));
    let most = i128::from(MOST_RATE_Q16);
    i64::try_from((given - taken).clamp(-most, most)).unwrap_or(0)
}

/// The rate, in 2^-16 bytes per second, that fills a buffer of `bytes` in one mean RTT.
pub(crate) fn absorbed_q16(bytes: u64, mean_rtt_us: u64) -> u64 {
    rate_q16(bytes, mean_rtt_us.saturating_mul(1_000))
}
