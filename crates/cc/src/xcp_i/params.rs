//! Parameters of the part of a port that looks for clouds. Shares are integers in 10^-6.

use crate::Duration;

/// Upstream routers that a port keeps at most. Each whose cloud is known takes some 100 kB.
pub(crate) const MOST_UPSTREAMS: usize = 32;
/// Those of one IPv6 prefix of 64 bits at most whose cloud is not known: a host has all addresses
/// of such a prefix.
pub(crate) const MOST_OF_PREFIX: usize = 8;
/// An upstream router from which no packet came for so long is forgotten.
pub(crate) const INACTIVE: Duration = Duration::from_secs(10);
/// One whose cloud is not known after so long makes room for others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Flows of which one was refused more within so long want more.
pub(crate) const WANTS: Duration = Duration::from_millis(500);
/// A header stands for at most this many packets.
pub(crate) const MOST_COVERS: u16 = 64;
/// Time over which it is seen how many packets come without a header.
pub(crate) const COVERED_WINDOW: Duration = Duration::from_secs(1);

/// The part of a cloud's capacity that a virtual router takes per interval on top of its estimate …
pub(crate) const SHARED_GIVEN_PPM: u64 = 19_000;
/// … and the part of its own flows' rate that it leaves: see [`table`](super::table).
pub(crate) const SHARED_TAKEN_PPM: u64 = 20_000;

/// How clouds are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloudParams {
    /// The exact estimate of an emulator, which knows all links; `None`: there is none.
    pub exact: Option<ExactEstimate>,
    /// Clouds are measured, with packets through them.
    pub measured: bool,
    /// The paper's virtual router: its equation 1 as it stands, with the bandwidth of the latest
    /// estimate and the port's own queue, and no rule for clouds that others share or fill.
    pub published: bool,
}

/// An exact estimate: for the XCP-i paper's experiments (its section IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactEstimate {
    /// It is wrong by up to this share of what the cloud leaves to XCP, either way, in 10^-6.
    pub error_ppm: u64,
    /// Time between two estimates.
    pub every: Duration,
    /// Time for which it is wrong by the same share.
    pub hold: Duration,
}

impl Default for ExactEstimate {
    fn default() -> Self {
        Self {
            error_ppm: 0,
            every: Duration::from_millis(50),
            hold: Duration::from_secs(1),
        }
    }
}
