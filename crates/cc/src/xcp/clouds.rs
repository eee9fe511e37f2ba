//! How an XCP port looks for clouds (XCP-i). Shares are integers in 10^-6.

use crate::base::Duration;

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
