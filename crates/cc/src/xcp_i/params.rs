//! Parameters of the part of a port that looks for clouds. Shares are integers in 10^-6.

use crate::base::Duration;

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
