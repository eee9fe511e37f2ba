//! XCP's parameters, with units and sources. "FALK" is draft-falk-xcp-spec-03. Shares are integers
//! in 10^-6.

use crate::base::Duration;
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
    pub clouds: Option<super::clouds::CloudParams>,
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
            police: false,
            whole: false,
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
