//! RCP's shim.
//!
//! ```text
//!    0      1      2      3      4 … 9        10 … 13        14 … 15   16 17   18 19
//!   ┌──────┬──────┬─────────────┬────────────┬──────────────┬─────────┬───────┬───────┐
//!   │kind 3│v│len │ magic       │ rate, B/s  │ RTT, µs      │ router  │ 0     │ check │   big-endian
//!   └──────┴──────┴─────────────┴────────────┴──────────────┴─────────┴───────┴───────┘
//! ```

use pathmark_shim::frame;

use crate::{KIND, UNANSWERED};

/// Length of the shim in bytes.
pub const LEN: usize = 20;

/// The fields of a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The lowest rate that a port on the path offers, in bytes per second, below 2^48. On the
    /// wire, the largest value means [`UNANSWERED`].
    pub rate: u64,
    /// The sender's smoothed round trip in µs, or 0 if unknown.
    pub rtt_us: u32,
    /// Identity of the router that offers this rate, or 0 if no router does.
    pub router: u16,
}

impl Repr {
    /// Parses the shim in front of `payload`. Returns `None` unless it is a valid RCP shim.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let shim = frame::expect::<LEN>(KIND, payload).ok()?;
        let &[
            _,
            _,
            _,
            _,
            r0,
            r1,
            r2,
            r3,
            r4,
            r5,
            t0,
            t1,
            t2,
            t3,
            i0,
            i1,
            ..,
        ] = shim;
        let rate = u64::from_be_bytes([0, 0, r0, r1, r2, r3, r4, r5]);
        Some(Self {
            rate: if rate == UNANSWERED - 1 {
                UNANSWERED
            } else {
                rate
            },
            rtt_us: u32::from_be_bytes([t0, t1, t2, t3]),
            router: u16::from_be_bytes([i0, i1]),
        })
    }

    /// Writes the shim in front of `payload`. Returns false without writing anything if there is
    /// not enough room.
    pub fn emit(&self, payload: &mut [u8]) -> bool {
        let Some(room) = payload.first_chunk_mut::<LEN>() else {
            return false;
        };
        let [_, _, r0, r1, r2, r3, r4, r5] = self.rate.min(UNANSWERED - 1).to_be_bytes();
        let [t0, t1, t2, t3] = self.rtt_us.to_be_bytes();
        let [i0, i1] = self.router.to_be_bytes();
        *room = [
            0, 0, 0, 0, r0, r1, r2, r3, r4, r5, t0, t1, t2, t3, i0, i1, 0, 0, 0, 0,
        ];
        frame::seal(KIND, room);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back(rate in 0..=UNANSWERED, rtt_us: u32, router: u16) {
            prop_assume!(rate != UNANSWERED - 1);
            let header = Repr { rate, rtt_us, router };
            let mut payload = [7; 24];
            prop_assert!(header.emit(&mut payload));
            prop_assert_eq!(Repr::parse(&payload), Some(header));
            prop_assert_eq!(&payload[LEN..], &[7; 4]);
        }

        #[test]
        fn any_bytes_are_read_without_panic(payload: Vec<u8>) {
            let _ = Repr::parse(&payload);
        }
    }

    #[test]
    fn a_damaged_shim_is_none() {
        let mut payload = [0; LEN];
        let header = Repr {
            rate: 1,
            rtt_us: 2,
            router: 3,
        };
        assert!(header.emit(&mut payload));
        payload[9] ^= 1;
        assert_eq!(Repr::parse(&payload), None);
        assert!(!header.emit(&mut payload[1..]));
    }
}
