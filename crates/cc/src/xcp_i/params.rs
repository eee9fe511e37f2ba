//! Parameters of the part of a port that detects and measures clouds. Shares are integers in 10^-6.

use crate::base::Duration;

/// Maximum number of upstream routers per port. Each router with a known cloud needs about 100 kB.
pub(crate) const MOST_UPSTREAMS: usize = 32;
/// Maximum number of upstream routers without a known cloud per IPv6 prefix of 64 bits, because a
/// host can use all addresses of such a prefix.
pub(crate) const MOST_OF_PREFIX: usize = 8;
/// An upstream router that has sent no packets for this time is forgotten.
pub(crate) const INACTIVE: Duration = Duration::from_secs(10);
/// An upstream router whose cloud is still unknown after this time can be replaced.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Flows want more if a request was refused within this time.
pub(crate) const WANTS: Duration = Duration::from_millis(500);
/// The largest number of packets that a header can stand for.
pub(crate) const MOST_COVERS: u16 = 64;
/// The period over which packets without a header are counted.
pub(crate) const COVERED_WINDOW: Duration = Duration::from_secs(1);

/// The part of a cloud's capacity that a virtual router takes per interval in addition to its
/// estimate.
pub(crate) const SHARED_GIVEN_PPM: u64 = 19_000;
/// The part of its own flows' rate that a virtual router leaves: see [`table`](super::table).
pub(crate) const SHARED_TAKEN_PPM: u64 = 20_000;
