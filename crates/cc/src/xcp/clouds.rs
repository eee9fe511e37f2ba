//! How an XCP port detects and measures clouds (XCP-i). Shares are integers in 10^-6.

use crate::base::Duration;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactEstimate {
    /// Largest error in either direction, as a share in 10^-6 of the capacity left to XCP.
    pub error_ppm: u64,
    /// Time between two estimates.
    pub every: Duration,
    /// Time for which the relative error remains the same.
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
