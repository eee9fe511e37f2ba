//! XCP's parameters, with units and sources. "FALK" is draft-falk-xcp-spec-03; shares are integers
//! in 10^-6.

use crate::base::Duration;
use crate::supervise::FallbackLaw;

/// No control interval is shorter (FALK, section 4.2: 5 to 10 ms).
pub(crate) const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// … or longer: the longest RTT that the compact header can state. FALK's 1 s is too short for RTTs
/// of that length.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_millis(65_535);
/// The queue is watched for at least so long before its least length counts as persistent (FALK's
/// ALLOWED_QUEUE).
pub(crate) const LEAST_QUEUE_INTERVAL: Duration = Duration::from_millis(2);
/// Intervals without a packet after which earlier measurements no longer apply.
pub(crate) const IDLE_INTERVALS: u32 = 2;
/// The first control interval of a port that knows nothing (the authors' simulator: 50 ms).
pub(crate) const INITIAL_INTERVAL: Duration = Duration::from_millis(50);
/// Factor by which d rises at most from one interval to the next.
pub(crate) const RISE: u64 = 2;
/// The mean RTT over flows is at most this multiple of what the bytes need: the mean over bytes, or
/// the shortest RTT below half of the capacity. Twice cuts a mean of honest flows whose queue makes
/// RTTs differ (the XCP-i paper, figure 10: 2.6).
pub(crate) const RTT_SLACK: u64 = 3;
/// An interval that lasts longer is looked at each time so long: it ends once what came in it shows
/// shorter RTTs.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// An RTT counts as at most this multiple of the level that nearly all bytes keep to …
pub(crate) const RTT_SPREAD: u64 = 4;
/// … X per byte likewise, in what is measured …
pub(crate) const X_SPREAD: u64 = 8;
/// … for a header whose RTT is not plausible, of the mean of all others: its flow still grows to
/// half of their rate …
pub(crate) const IMPLAUSIBLE_SPREAD: u64 = 2;
/// … and in what is given: more, as new flows on a fast link state much more of it, and what is
/// given is bounded by pools besides.
pub(crate) const GRANT_SPREAD: u64 = 16;
/// A header settles for at most this multiple of the packets that headers stand for on the average:
/// senders put one on every third to eighth packet.
pub(crate) const COVERS_SPREAD: u16 = 4;

/// An XCP port's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XcpLinkParams {
    /// α: the share of the spare bandwidth that is given per interval, in 10^-6. Stable below
    /// π/(4·√2) = 0.555.
    pub alpha_ppm: u64,
    /// β: the share of the persistent queue that is taken back per interval, in 10^-6; α²·√2.
    pub beta_ppm: u64,
    /// The least share of the traffic that is shuffled per interval, in 10^-6.
    pub shuffle_ppm: u64,
    /// Bytes that the link adds to each packet and that the port does not count itself.
    pub overhead: u32,
    /// Where the capacity comes from.
    pub capacity: Capacity,
    /// Limit positive feedback to what the buffer can absorb, and header fields to the levels of
    /// all headers, and give to the first packet after idleness. Off: as published.
    pub guard: bool,
    /// Police flows that send more than they state or ignore negative feedback.
    pub police: bool,
    /// Round feedback to whole packets of window, as a router must whose header has no room for
    /// fractions (the XCP Linux paper, section II-E.2).
    pub whole: bool,
    /// Look for hops that are not XCP routers (XCP-i).
    pub clouds: Option<super::clouds::CloudParams>,
}

/// Where an XCP port's capacity comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// The port's own rate.
    #[default]
    Port,
    /// A fixed one, in bytes per second.
    Fixed(u64),
    /// Measured while packets wait; the port's own rate until then, and never more.
    Auto,
}

impl Default for XcpLinkParams {
    fn default() -> Self {
        Self {
            alpha_ppm: 400_000,
            beta_ppm: 226_000,
            shuffle_ppm: 100_000,
            overhead: 0,
            capacity: Capacity::Port,
            guard: true,
            police: false,
            whole: false,
            clouds: None,
        }
    }
}

/// What losses mean to an XCP sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XcpLoss {
    /// Nothing, as long as routers announce congestion; congestion once other signs show: packets
    /// that no router stamped, or losses that a trial or long delays attribute to a queue.
    #[default]
    Hybrid,
    /// Nothing (the XCP Linux paper, section IV-C).
    Ignore,
    /// Congestion (FALK, section 4.1.3.2).
    Fallback,
}

/// An XCP sender's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XcpParams {
    /// Initial window in packets; RFC 9002's if `None`.
    pub initial_window: Option<u32>,
    /// The law that rules where no router answers.
    pub fallback: FallbackLaw,
    /// What losses mean.
    pub loss: XcpLoss,
    /// State the congestion window to routers whatever else bounds the sender, and never age it:
    /// the XCP Linux paper's sender, whose window runs away (section IV-A).
    pub naive: bool,
    /// Every n-th packet carries a header that routers read.
    pub every: u16,
    /// How headers travel.
    pub form: crate::signals::XcpForm,
    /// The rate that the sender would like to have, in bytes per second.
    pub desired: u64,
    /// Asks routers for a rate to start with (Quick-Start, RFC 4782).
    pub asks_start: bool,
    /// Spread a window over its round trip. Off, for comparison: what the window lets go leaves at
    /// once, as the papers' senders do.
    pub paced: bool,
    /// The papers' sender, without any rule of this library's: `loss`, `naive` and `asks_start` do
    /// not apply.
    pub published: bool,
    /// The papers' sender runs on a TCP with SACK (the XCP Linux paper, section II-C.4), and not on
    /// one without, as in the simulator of the two other papers.
    pub sack: bool,
}

impl XcpParams {
    /// The papers' own sender: two packets at first, and no pacing.
    pub const fn as_published(&mut self) {
        self.published = true;
        self.paced = false;
        self.initial_window = Some(2);
    }
}

/// No rate above 1 TB/s.
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
            desired: MOST_DESIRED,
            asks_start: false,
            paced: true,
            published: false,
            sack: false,
        }
    }
}
