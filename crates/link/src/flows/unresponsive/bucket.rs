//! The token bucket for flows that are set aside.

use pathmark_cc::Instant;

/// The burst: the bytes of 50 ms, but at least a super-packet of `LEAST_BUCKET` bytes.
const BUCKET_NANOS: u64 = 50_000_000;
const LEAST_BUCKET: u64 = 1 << 16;

/// The bucket that all flows set aside share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    pub(super) bytes: u64,
    /// Bytes per second.
    pub(super) rate: u64,
    pub(super) since: Instant,
    /// Bytes that passed or could have passed in the current epoch.
    pub(super) brought: u64,
    /// Bytes that arrived in this epoch.
    pub(super) came: u64,
}

impl Bucket {
    pub(super) fn refill(&mut self, now: Instant) {
        let nanos = now.as_nanos().saturating_sub(self.since.as_nanos());
        let brought = u128::from(self.rate) * u128::from(nanos.min(1 << 32)) / 1_000_000_000;
        let brought = u64::try_from(brought).unwrap_or(u64::MAX);
        if brought > 0 {
            self.since = now;
            self.brought = self.brought.saturating_add(brought);
            let most = self.rate / (1_000_000_000 / BUCKET_NANOS);
            self.bytes = self
                .bytes
                .saturating_add(brought)
                .min(most.max(LEAST_BUCKET));
        }
    }
}
