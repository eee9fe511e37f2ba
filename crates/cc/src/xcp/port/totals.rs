//! Measurements and grants of a port, for its start and for reports.

/// Measurements of the last interval, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) input: u64,
    pub(crate) spare: i128,
    pub(crate) aggregate: i64,
    /// The input in 1/128 of the capacity.
    pub(crate) load_128: u8,
}

/// Totals for reports, rates in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) given: u128,
    pub(crate) taken: u128,
    pub(crate) stamped: u64,
    pub(crate) intervals: u64,
}

impl Totals {
    #[inline]
    pub(crate) fn add(&mut self, delta: i64) {
        if delta > 0 {
            self.given += u128::from(delta.unsigned_abs());
        } else {
            self.taken += u128::from(delta.unsigned_abs());
        }
    }

    /// Total given minus total taken.
    pub(crate) fn net(&self) -> i128 {
        i128::try_from(self.given).unwrap_or(i128::MAX)
            - i128::try_from(self.taken).unwrap_or(i128::MAX)
    }
}
