//! XCP's parameters, with units and sources. "FALK" is draft-falk-xcp-spec-03. Shares are integers
//! in 10^-6.

use crate::base::Duration;
use crate::base::arith::{nanos, saturate};
use crate::signals::XcpCarried;
use crate::supervise::FallbackLaw;

/// The shortest control interval (FALK, section 4.2: 5 to 10 ms).
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest control interval, equal to the longest RTT that the compact header can state. FALK's
/// 1 s would be too short for RTTs of that length.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_millis(65_535);
/// The shortest time for which the queue is watched before its minimum length counts as persistent
/// (FALK's ALLOWED_QUEUE).
pub(crate) const LEAST_QUEUE_INTERVAL: Duration = Duration::from_millis(2);
/// After this number of intervals without a packet, earlier measurements no longer apply.
pub(crate) const IDLE_INTERVALS: u32 = 2;
/// The first control interval of a port without measurements (the authors' simulator: 50 ms).
pub(crate) const INITIAL_INTERVAL: Duration = Duration::from_millis(50);
/// Largest factor by which d can rise from one interval to the next.
pub(crate) const RISE: u64 = 2;
/// Largest ratio of the mean RTT over flows to the RTT that the bytes show, which is their mean or,
/// below half of the capacity, the shortest RTT. A ratio of two would cut the mean of honest flows
/// whose queue makes their RTTs differ (the XCP-i paper, figure 10: 2.6).
pub(crate) const RTT_SLACK: u64 = 3;
/// During a longer interval, the port checks the traffic each time this period has passed, and ends
/// the interval as soon as the packets show shorter RTTs.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// An RTT counts as at most this multiple of the level that nearly all bytes stay below.
pub(crate) const RTT_SPREAD: u64 = 4;
/// The same limit for X per byte in measurements.
pub(crate) const X_SPREAD: u64 = 8;
/// The same limit for a header with an implausible RTT, relative to the mean of all other headers.
/// Its flow can still grow to half of their rate.
pub(crate) const IMPLAUSIBLE_SPREAD: u64 = 2;
/// The same limit for X per byte in grants. It is higher because new flows on a fast link state a
/// much larger X, and because the pools bound grants as well.
pub(crate) const GRANT_SPREAD: u64 = 16;
/// A header can account for at most this multiple of the average number of packets per header,
/// because senders put a header on every third to eighth packet.
pub(crate) const COVERS_SPREAD: u16 = 4;

/// The smallest share of the traffic that is shuffled per interval, in 10^-6 (XCP-Linux,
/// section II-E.2).
pub(crate) const SHUFFLE_PPM: u64 = 100_000;

/// An XCP port's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XcpLinkParams {
    /// α: the share of the spare bandwidth that is given per interval, in 10^-6. The control is
    /// stable below π/(4·√2) = 0.555.
    pub alpha_ppm: u64,
    /// β: the share of the persistent queue that is taken back per interval, in 10^-6; equals
    /// α²·√2.
    pub beta_ppm: u64,
    /// Bytes that the link adds to each packet without the port counting them.
    pub overhead: u32,
    /// Source of the capacity.
    pub capacity: Capacity,
    /// Limits positive feedback to the amount that the buffer can absorb, limits header fields to
    /// the levels of all headers, and grants bandwidth to the first packet after idleness. Off: as
    /// published.
    pub guard: bool,
    /// Polices flows that send more than they state or that ignore negative feedback.
    pub police: bool,
    /// Rounds feedback to whole packets of window, as a router must if its header has no room for
    /// fractions (the XCP Linux paper, section II-E.2).
    pub whole: bool,
    /// Looks for hops that are not XCP routers (XCP-i).
    pub clouds: Option<CloudParams>,
}

/// Where an XCP port's capacity comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// The port's own rate.
    #[default]
    Port,
    /// A fixed capacity, in bytes per second.
    Fixed(u64),
    /// Measured while packets wait. Until then, and as an upper bound, the port's own rate applies.
    Auto,
}

impl Default for XcpLinkParams {
    fn default() -> Self {
        Self {
            alpha_ppm: 400_000,
            beta_ppm: 226_000,
            overhead: 0,
            capacity: Capacity::Port,
            guard: true,
            whole: false,
            police: false,
            clouds: None,
        }
    }
}

/// How an XCP sender interprets losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XcpLoss {
    /// Ignored as long as routers announce congestion. They count as congestion once other signs
    /// appear: packets that no router stamped, or losses that a trial or long delays attribute to a
    /// queue.
    #[default]
    Hybrid,
    /// Ignored (the XCP Linux paper, section IV-C).
    Ignore,
    /// Treated as congestion (FALK, section 4.1.3.2).
    Fallback,
}

/// An XCP sender's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XcpParams {
    /// Initial window in packets; RFC 9002's if `None`.
    pub initial_window: Option<u32>,
    /// The law that controls the window if no router answers.
    pub fallback: FallbackLaw,
    /// How losses are interpreted.
    pub loss: XcpLoss,
    /// Always states the congestion window to routers, whatever else limits the sender, and never
    /// ages it. This is the XCP Linux paper's sender, whose window grows without bound (section
    /// IV-A).
    pub naive: bool,
    /// Every n-th packet carries a header that routers read.
    pub every: u16,
    /// The form of the headers on the wire.
    pub form: crate::signals::XcpForm,
    /// Requests a starting rate from routers (Quick-Start, RFC 4782).
    pub asks_start: bool,
    /// Spreads a window over its round trip. If off, for comparisons, everything that the window
    /// allows leaves immediately, as with the papers' senders.
    pub paced: bool,
    /// Runs the papers' sender without this library's additional rules: `loss`, `naive` and
    /// `asks_start` do not apply.
    pub published: bool,
    /// The papers' sender runs over a TCP with SACK (the XCP Linux paper, section II-C.4). If off,
    /// over a TCP without SACK, as in the simulator of the two other papers.
    pub sack: bool,
}

impl XcpParams {
    /// Selects the papers' sender: an initial window of two packets, and no pacing.
    pub const fn as_published(&mut self) {
        self.published = true;
        self.paced = false;
        self.initial_window = Some(2);
    }
}

/// The rate that a sender wants to reach at most: 1 TB/s.
pub(crate) const MOST_DESIRED: u64 = 1_000_000_000_000;

impl Default for XcpParams {
    fn default() -> Self {
        Self {
            initial_window: None,
            fallback: FallbackLaw::Cubic,
            loss: XcpLoss::Hybrid,
            naive: false,
            every: 1,
            form: crate::signals::XcpForm::Full,
            asks_start: false,
            paced: true,
            published: false,
            sack: false,
        }
    }
}

// How an XCP port detects and measures clouds (XCP-i). Shares are integers in 10^-6.

/// How a port handles clouds, the stretches of a path without XCP routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloudParams {
    /// Takes exact estimates from an emulator, which knows all links. `None`: no exact estimates.
    pub exact: Option<ExactEstimate>,
    /// Measures clouds by sending packets through them.
    pub measured: bool,
    /// Runs the paper's virtual router: its equation 1 unchanged, with the bandwidth of the latest
    /// estimate and the port's own queue, without rules for clouds that others share or fill.
    pub published: bool,
}

/// An exact estimate, for the experiments of the XCP-i paper (section IV).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExactEstimate {
    /// Largest error in either direction, as a share in 10^-6 of the capacity left to XCP.
    pub error_ppm: u64,
}

// The papers' window form: a header that carries the window and a window change instead of
// inter-packet time and rate change.
//
// Because a port computes in rates (see the docs of `xcp`), a header in the window form is
// converted to the rate form, and the answer is converted back: X = rtt · s / cwnd, Δrate = Δcwnd
// / rtt. Each conversion rounds to the less aggressive side.

/// Fraction bits of a window change in packets, from the smallest change in the compact form.
const FEEDBACK_BITS: u32 = 12;
/// Fraction bits of an inter-packet time in seconds.
const X_BITS: u32 = 40;
const MICROS: u128 = 1_000_000;
/// Largest absolute rate change, in 2^-16 bytes per second.
const MOST: i128 = 1 << 62;

/// A header in the window form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowForm {
    /// Smoothed RTT of the sender in µs; 0: unknown.
    pub rtt_us: u32,
    /// Window of the sender in packets; 0: unknown.
    pub window_packets: u32,
    /// Requested window change per packet, in 2^-12 packets.
    pub feedback_q12: i64,
}

impl WindowForm {
    /// Converts the header to the rate form, for a packet of `bytes` bytes (as both the window and
    /// routers count them).
    pub fn carried(&self, bytes: u32) -> XcpCarried {
        let window = u128::from(self.window_packets);
        let x = (u128::from(self.rtt_us) << X_BITS) / (MICROS * window.max(1));
        XcpCarried {
            rtt_us: self.rtt_us,
            x: if window == 0 { 0 } else { saturate(x) },
            delta: self.delta(bytes),
            covers: 1,
            cloud: None,
        }
    }

    /// The rate change in 2^-16 bytes per second, rounded down.
    pub fn delta(&self, bytes: u32) -> i64 {
        if self.rtt_us == 0 {
            return self.feedback_q12.min(0);
        }
        let bytes_q12 = i128::from(self.feedback_q12) * i128::from(bytes);
        let scaled = bytes_q12 * (1_000_000 << (RATE_BITS - FEEDBACK_BITS));
        let delta = scaled.div_euclid(i128::from(self.rtt_us));
        i64::try_from(delta.clamp(-MOST, MOST)).unwrap_or(0)
    }

    /// Converts a rate change `delta` in 2^-16 bytes per second to a window change in 2^-12
    /// packets, rounded down.
    pub fn feedback_q12(&self, delta: i64, bytes: u32) -> i64 {
        if self.rtt_us == 0 {
            return delta.min(0);
        }
        let scaled = i128::from(delta) * i128::from(self.rtt_us);
        let unit = (i128::from(bytes.max(1)) * 1_000_000) << (RATE_BITS - FEEDBACK_BITS);
        i64::try_from(scaled.div_euclid(unit)).unwrap_or(i64::MIN)
    }
}

// Conversions between rates, windows and XCP's fixed-point scales.

pub(crate) const RATE_BITS: u32 = 16;

/// Largest rate in 2^-16 bytes per second: sixty-four times the largest capacity.
pub(crate) const MOST_RATE_Q16: u64 = 1 << 62;

/// 2^-40 s per µs, rounded up. A header may state an inter-packet time of up to its RTT, which is
/// the value for a window of one packet.
pub(crate) const X_PER_MICRO: u64 = 1_099_512;

/// Converts bytes per second to 2^-16 bytes per second.
pub(crate) fn to_q16(bytes_per_second: u64) -> u64 {
    bytes_per_second
        .saturating_mul(1 << RATE_BITS)
        .min(MOST_RATE_Q16)
}

/// The rate of `bytes` in `nanos`, in 2^-16 bytes per second, rounded down.
pub(crate) fn rate_q16(bytes: u64, nanos: u64) -> u64 {
    let wide = (u128::from(bytes) << RATE_BITS) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(wide).map_or(MOST_RATE_Q16, |rate| rate.min(MOST_RATE_Q16))
}

/// Converts `time` to 2^-40 s, the unit of inter-packet times.
pub(crate) fn x_of(time: Duration) -> u64 {
    saturate((u128::from(nanos(time)) << 40) / 1_000_000_000)
}
