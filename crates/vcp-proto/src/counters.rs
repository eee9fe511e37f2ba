//! The counters of a receiver, and their interpretation by a sender.
//!
//! The receiver returns **totals since the path epoch began**, never increments. A lost, delayed
//! or skipped FEEDBACK frame therefore loses nothing, because the next difference includes it.
//!
//! | index | name | meaning |
//! |---|---|---|
//! | 0, 1, 2 | n1, n2, n3 | packets that arrived as LOW, HIGH, OVER |
//! | 3 | n0 | packets without a signal: code 0, hop count 0, or an invalid shim |
//! | 4, 5, 6, 7 | b1, b2, b3, b0 | their bytes of UDP payload, including the shim |
//! | 8 | sum_r | Σ r over LOW packets in 2⁻¹⁶; 65 536 if r is not carried, or is 65 535 |
//! | 9 | t_rho | of the latest packet with a valid shim, in ms |
//! | 10 | hops | of that packet |
//! | 11 | flags | of that packet, as below |
//! | 12 | router | of that packet |
//! | 13 | load | of that packet, in 1/128 |
//! | 14 | ttl | its IP TTL or hop limit plus 1; 0 if unknown |
//!
//! Flags: bit 0 is BISE; bit 1: r is carried; bits 2 to 4 are the class of the declared loss by
//! corruption; bit 5: the named router runs another law.
//!
//! An unmarked LOW must not count. Because senders write LOW themselves, all packets on a path
//! without any VCP router would otherwise count as LOW. Therefore a code only counts with a hop
//! count of at least 1. The ECN carrier has no hop count, so its codes count as they are, and
//! indices 9…13 stay 0.

use core::time::Duration;

use pathmark_cc::{BadFeedback, Breach, Countable, VcpCode, VcpFeedback};
use pathmark_shim::corruption;

use crate::header::{Packet, R_ONE};

/// Number of counters.
pub const LEN: usize = 15;

/// Maximum of totals (the largest QUIC varint), at which feedback ends. No flow gets this far.
const CEILING: u64 = (1 << 62) - 1;
/// r = 1 in the sum.
const ONE: u64 = 1 << 16;
const FLAG_BISE: u64 = 1;
const FLAG_CARRIED_R: u64 = 2;
const CORRUPTION_SHIFT: u32 = 2;
const FLAG_TRANSLATED: u64 = 1 << 5;

const COUNT: BadFeedback = BadFeedback::new(Breach::Form, "not 15 VCP counters");
const RANGE: BadFeedback = BadFeedback::new(Breach::Form, "VCP field out of range");
const BACKWARDS: BadFeedback = BadFeedback::new(Breach::Backwards, "VCP total ran backwards");
const MORE_THAN_SENT: BadFeedback =
    BadFeedback::new(Breach::Packets, "more VCP packets counted than sent");
const SUM: BadFeedback = BadFeedback::new(Breach::Sum, "VCP bytes or r do not fit their packets");

/// The totals of one path epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets per code: none, LOW, HIGH, OVER.
    packets: [u64; 4],
    /// Bytes of UDP payload per code.
    bytes: [u64; 4],
    /// Σ r over LOW packets.
    sum_r: u64,
    latest: Latest,
}

/// Fields of the latest packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Latest {
    t_rho_ms: u16,
    hops: u8,
    bise: bool,
    carried_r: bool,
    translated: bool,
    /// Class of the declared loss by corruption, see [`corruption`].
    corruption: u8,
    router: u16,
    load_128: u8,
    ttl: Option<u8>,
}

impl Totals {
    /// Counts a packet by its shim. `None`: the shim was invalid, so the packet counts as a packet
    /// without a signal.
    #[inline]
    pub fn count_shim(&mut self, shim: Option<&Packet<'_>>, bytes: u64, ttl: Option<u8>) {
        let Some(shim) = shim else {
            self.count(VcpCode::None, bytes, 0);
            return;
        };
        self.latest = Latest {
            t_rho_ms: shim.t_rho_ms(),
            hops: shim.hops(),
            bise: shim.bise(),
            carried_r: shim.carries_r(),
            translated: shim.translated(),
            corruption: shim.corruption(),
            router: shim.router(),
            load_128: shim.load_128(),
            ttl,
        };
        let code = if shim.hops() == 0 {
            VcpCode::None
        } else {
            shim.code()
        };
        let r = if shim.carries_r() && shim.r() != R_ONE {
            u64::from(shim.r())
        } else {
            ONE
        };
        self.count(code, bytes, r);
    }

    /// Counts a packet by the code in its ECN field.
    #[inline]
    pub fn count_ecn(&mut self, code: VcpCode, bytes: u64, ttl: Option<u8>) {
        self.latest.ttl = ttl;
        self.count(code, bytes, ONE);
    }

    #[inline]
    fn count(&mut self, code: VcpCode, bytes: u64, r: u64) {
        let [none, low, high, over] = &mut self.packets;
        let [none_bytes, low_bytes, high_bytes, over_bytes] = &mut self.bytes;
        let (packets, total) = match code {
            VcpCode::None => (none, none_bytes),
            VcpCode::Low => {
                add(&mut self.sum_r, r);
                (low, low_bytes)
            }
            VcpCode::High => (high, high_bytes),
            VcpCode::Over => (over, over_bytes),
        };
        add(packets, 1);
        add(total, bytes);
    }

    /// Returns true if nothing was counted yet.
    pub fn is_empty(&self) -> bool {
        self.packets == [0; 4]
    }

    /// The counters for a FEEDBACK frame, in the order of the table above.
    pub fn encode(&self) -> [u64; LEN] {
        let [n0, n1, n2, n3] = self.packets;
        let [b0, b1, b2, b3] = self.bytes;
        let latest = &self.latest;
        let mut flags = u64::from(latest.corruption & corruption::MASK) << CORRUPTION_SHIFT;
        if latest.bise {
            flags |= FLAG_BISE;
        }
        if latest.carried_r {
            flags |= FLAG_CARRIED_R;
        }
        if latest.translated {
            flags |= FLAG_TRANSLATED;
        }
        [
            n1,
            n2,
            n3,
            n0,
            b1,
            b2,
            b3,
            b0,
            self.sum_r,
            latest.t_rho_ms.into(),
            latest.hops.into(),
            flags,
            latest.router.into(),
            latest.load_128.into(),
            latest.ttl.map_or(0, |ttl| u64::from(ttl) + 1),
        ]
    }

    /// Reads counters from a FEEDBACK frame. Unknown flags are ignored.
    ///
    /// # Errors
    /// [`BadFeedback`]: there are too few or too many, or a field is out of its range.
    pub fn decode(counters: &[u64]) -> Result<Self, BadFeedback> {
        let &[
            n1,
            n2,
            n3,
            n0,
            b1,
            b2,
            b3,
            b0,
            sum_r,
            t_rho,
            hops,
            flags,
            router,
            load,
            ttl,
        ] = counters.as_array::<LEN>().ok_or(COUNT)?;
        let range = |_| RANGE;
        Ok(Self {
            packets: [n0, n1, n2, n3],
            bytes: [b0, b1, b2, b3],
            sum_r,
            latest: Latest {
                t_rho_ms: t_rho.try_into().map_err(range)?,
                hops: hops.try_into().map_err(range)?,
                bise: flags & FLAG_BISE != 0,
                carried_r: flags & FLAG_CARRIED_R != 0,
                translated: flags & FLAG_TRANSLATED != 0,
                corruption: (flags >> CORRUPTION_SHIFT).to_le_bytes()[0] & corruption::MASK,
                router: router.try_into().map_err(range)?,
                load_128: load.try_into().map_err(range)?,
                ttl: match ttl.checked_sub(1) {
                    None => None,
                    Some(ttl) => Some(ttl.try_into().map_err(range)?),
                },
            },
        })
    }

    /// Returns the difference between `self` and `older`. At most `most` can have been counted
    /// in the epoch so far. `sent_ttl` is the IP TTL that packets were sent with, if known.
    ///
    /// # Errors
    /// [`BadFeedback`]: the counters contradict `older`, `most` or each other.
    pub fn since(
        &self,
        older: &Self,
        most: &Countable,
        sent_ttl: Option<u8>,
    ) -> Result<VcpFeedback, BadFeedback> {
        let sum = |of: &[u64; 4]| of.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        if sum(&self.packets) > most.packets {
            return Err(MORE_THAN_SENT);
        }
        if sum(&self.bytes) > most.bytes {
            return Err(SUM);
        }
        let packets = fall_free(&self.packets, &older.packets)?;
        let bytes = fall_free(&self.bytes, &older.bytes)?;
        let [sum_r] = fall_free(&[self.sum_r], &[older.sum_r])?;
        for (&packets, &bytes) in packets.iter().zip(&bytes) {
            if bytes < packets || bytes > packets.saturating_mul(most.longest) {
                return Err(SUM);
            }
        }
        let [_, low, _, _] = packets;
        if sum_r > low.saturating_mul(ONE) {
            return Err(SUM);
        }
        let latest = &self.latest;
        Ok(VcpFeedback {
            packets,
            bytes,
            sum_r,
            t_rho: Duration::from_millis(latest.t_rho_ms.into()),
            hops: latest.hops,
            bise: latest.bise,
            carried_r: latest.carried_r,
            corruption_ppm: corruption::decode(latest.corruption),
            router: latest.router,
            load_128: latest.load_128,
            translated: latest.translated,
            unmarked_hop: match (sent_ttl, latest.ttl) {
                // If the TTL is higher than the packet was sent with, it must have been rewritten
                // on the way, so it is meaningless.
                (Some(sent), Some(arrived)) => sent
                    .checked_sub(arrived)
                    .map(|ip_hops| ip_hops > latest.hops),
                _ => None,
            },
        })
    }
}

#[inline]
fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more).min(CEILING);
}

fn fall_free<const N: usize>(newer: &[u64; N], older: &[u64; N]) -> Result<[u64; N], BadFeedback> {
    let mut differences = [0; N];
    for ((difference, newer), older) in differences.iter_mut().zip(newer).zip(older) {
        *difference = newer.checked_sub(*older).ok_or(BACKWARDS)?;
    }
    Ok(differences)
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
