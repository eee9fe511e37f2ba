//! The counters of a receiver, and their interpretation by a sender.
//!
//! The receiver returns **totals since the path epoch began**, never increments. A lost, delayed
//! or skipped FEEDBACK frame therefore loses nothing, because the next difference includes it.
//!
//! | index | name | meaning |
//! |---|---|---|
//! | 0 | packets | that arrived with a header of the standard format |
//! | 1 | stamped | of these, by an XCP router |
//! | 2 | bytes | of UDP payload of the packets of index 0, including the shim |
//! | 3 | sum | of the stamped headers' changes of rate, in 2⁻¹⁶ bytes/s, modulo 2⁶² |
//! | 4 | xcp_ttl | of the latest of these packets |
//! | 5 | ttl | its IP TTL or hop limit plus 1; 0 if unknown |
//! | 6 | router | that it names as the one that bounds the flow |
//! | 7 | flags | of the latest of these packets, as below; omitted while 0 |
//!
//! Flags: bits 0 to 2 are the class of the loss by corruption that its routers declare, or those
//! of the latest earlier packet whose form has room for it; bit 3: the named router runs another
//! law; bit 4: a router found a cloud without an estimate.
//!
//! A header that no router has stamped only contains its sender's request, and is not added to the
//! sum. A packet whose IP ECN field is "congestion experienced" only adds negative changes. Each
//! header counts for at most 2⁵⁶ in either direction (1 TB/s), so that differences of up to 31
//! headers are exact even if all are wrong.

use pathmark_cc::{BadFeedback, Breach, Countable, XcpFeedback};
use pathmark_shim::corruption;

use crate::header::{Body, Format, Packet};

/// Number of counters, without an additional one if flags are set.
pub const LEN: usize = 7;

/// Maximum of totals (the largest QUIC varint), at which feedback ends. No flow gets this far.
const CEILING: u64 = (1 << 62) - 1;
const SUM_BITS: u32 = 62;
/// In the flags: the named router runs another law.
const FLAG_TRANSLATED: u8 = 1 << 3;
/// In the flags: a router found a cloud without knowing its capacity.
const FLAG_UNCOUNTED: u8 = 1 << 4;
/// Largest change that one header counts for, in 2⁻¹⁶ bytes per second.
pub const MOST: i64 = 1 << 56;
const COUNT: BadFeedback = BadFeedback::new(Breach::Form, "neither 7 nor 8 XCP counters");
const RANGE: BadFeedback = BadFeedback::new(Breach::Form, "XCP field out of range");
const BACKWARDS: BadFeedback = BadFeedback::new(Breach::Backwards, "XCP total ran backwards");
const MORE_THAN_SENT: BadFeedback =
    BadFeedback::new(Breach::Packets, "more XCP packets counted than sent");
const SUM: BadFeedback = BadFeedback::new(
    Breach::Sum,
    "XCP bytes or feedback do not fit their packets",
);

/// The totals of one path epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    packets: u64,
    stamped: u64,
    bytes: u64,
    /// Modulo 2⁶².
    sum: u64,
    latest: Latest,
}

/// Fields of the latest packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Latest {
    xcp_ttl: u8,
    ttl: Option<u8>,
    router: u16,
    /// Class of the declared loss by corruption, from the latest packet with room for it.
    corruption: u8,
    translated: bool,
    uncounted: bool,
}

/// The contribution of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    latest: Latest,
    /// True if its form has room for the routers' declarations.
    declares: bool,
    bytes: u64,
    /// In 2⁻¹⁶ bytes per second; `None`: no router has stamped the header.
    delta: Option<i64>,
    /// The largest change that the header counts for.
    most: i64,
}

impl Counted {
    /// Reads a packet. Returns `None` for a header of a format without a request.
    #[inline]
    pub(crate) fn read(
        header: &Packet<'_>,
        bytes: u64,
        ttl: Option<u8>,
        congested: bool,
    ) -> Option<Self> {
        if !header.format().asks() {
            return None;
        }
        let delta = || match header.repr().body {
            Body::Full(full) => full.delta,
            Body::Compact(compact) => compact.delta(u32::try_from(bytes).unwrap_or(u32::MAX)),
        };
        let mut latest = Latest {
            xcp_ttl: header.xcp_ttl(),
            ttl,
            router: header.router(),
            corruption: header.corruption(),
            translated: header.translated(),
            uncounted: false,
        };
        if header.format() == Format::Uncounted {
            latest.uncount();
        }
        Some(Self {
            latest,
            declares: header.declares(),
            bytes,
            delta: header.stamped().then(delta),
            most: if congested { 0 } else { MOST },
        })
    }

    /// Lowers the contribution of a packet that crossed a cloud after the last router. If the cloud
    /// is `known`, its virtual router grants `delta` of the request.
    #[cfg(feature = "transport")]
    pub(crate) const fn lower(&mut self, delta: i64, known: bool) {
        if !known {
            self.latest.uncount();
            return;
        }
        if let Some(given) = &mut self.delta
            && delta < *given
        {
            *given = delta;
        }
        // This cloud is accounted for, but an earlier cloud may not be, and must remain visible.
        if let Some(ttl) = self.latest.ttl
            && !self.latest.uncounted
        {
            self.latest.xcp_ttl = ttl;
        }
    }
}

impl Latest {
    /// Reports a cloud without an estimate to the sender like one that was not found.
    const fn uncount(&mut self) {
        self.uncounted = true;
        if let Some(ttl) = self.ttl
            && self.xcp_ttl <= ttl
        {
            self.xcp_ttl = ttl.saturating_add(1);
        }
    }
}

impl Totals {
    /// Counts a packet with a header and `bytes` of UDP payload, including the shim.
    /// `congested`: its ECN field signals congestion.
    #[inline]
    pub fn count(&mut self, header: &Packet<'_>, bytes: u64, ttl: Option<u8>, congested: bool) {
        if let Some(counted) = Counted::read(header, bytes, ttl, congested) {
            self.add(&counted);
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, counted: &Counted) {
        let declared = self.latest.corruption;
        self.latest = counted.latest;
        if !counted.declares {
            self.latest.corruption = declared;
        }
        add(&mut self.packets, 1);
        add(&mut self.bytes, counted.bytes);
        let Some(delta) = counted.delta else {
            return;
        };
        add(&mut self.stamped, 1);
        let sum = self
            .sum
            .wrapping_add_signed(delta.clamp(-MOST, counted.most));
        self.sum = sum & CEILING;
    }

    /// Returns true if nothing was counted yet.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The counters for a FEEDBACK frame, in the order of the table above.
    pub fn encode(&self) -> impl Iterator<Item = u64> + use<> {
        let latest = &self.latest;
        let mut flags = latest.corruption & corruption::MASK;
        if latest.translated {
            flags |= FLAG_TRANSLATED;
        }
        if latest.uncounted {
            flags |= FLAG_UNCOUNTED;
        }
        let flags = (flags > 0).then_some(u64::from(flags));
        let all: [u64; LEN] = [
            self.packets,
            self.stamped,
            self.bytes,
            self.sum,
            latest.xcp_ttl.into(),
            latest.ttl.map_or(0, |ttl| u64::from(ttl) + 1),
            latest.router.into(),
        ];
        all.into_iter().chain(flags)
    }

    /// Reads counters from a FEEDBACK frame.
    ///
    /// # Errors
    /// [`BadFeedback`]: there are too few or too many, or a field is out of its range.
    pub fn decode(counters: &[u64]) -> Result<Self, BadFeedback> {
        let (all, more) = counters.split_first_chunk::<LEN>().ok_or(COUNT)?;
        let &[packets, stamped, bytes, sum, xcp_ttl, ttl, router] = all;
        let range = |_| RANGE;
        let flags = match *more {
            [] => 0,
            [flags] => u8::try_from(flags).map_err(range)?,
            _ => return Err(COUNT),
        };
        if sum > CEILING || flags > corruption::MASK | FLAG_TRANSLATED | FLAG_UNCOUNTED {
            return Err(RANGE);
        }
        Ok(Self {
            packets,
            stamped,
            bytes,
            sum,
            latest: Latest {
                xcp_ttl: xcp_ttl.try_into().map_err(range)?,
                ttl: match ttl.checked_sub(1) {
                    None => None,
                    Some(ttl) => Some(ttl.try_into().map_err(range)?),
                },
                router: router.try_into().map_err(range)?,
                corruption: flags & corruption::MASK,
                translated: flags & FLAG_TRANSLATED != 0,
                uncounted: flags & FLAG_UNCOUNTED != 0,
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
    ) -> Result<XcpFeedback, BadFeedback> {
        if self.packets > most.packets || self.stamped > self.packets {
            return Err(MORE_THAN_SENT);
        }
        if self.bytes > most.bytes {
            return Err(SUM);
        }
        let less = |newer: u64, older: u64| newer.checked_sub(older).ok_or(BACKWARDS);
        let packets = less(self.packets, older.packets)?;
        let stamped = less(self.stamped, older.stamped)?;
        let bytes = less(self.bytes, older.bytes)?;
        if stamped > packets {
            return Err(MORE_THAN_SENT);
        }
        if bytes < packets || bytes > packets.saturating_mul(most.longest) {
            return Err(SUM);
        }
        // The difference modulo 2⁶², interpreted as a signed number.
        let unused = u64::BITS - SUM_BITS;
        let delta = (self.sum.wrapping_sub(older.sum) << unused).cast_signed() >> unused;
        if u128::from(delta.unsigned_abs()) > u128::from(stamped) * u128::from(MOST.unsigned_abs())
        {
            return Err(SUM);
        }
        let latest = &self.latest;
        Ok(XcpFeedback {
            delta,
            packets,
            stamped,
            bytes,
            hops: sent_ttl.map_or(0, |sent| sent.saturating_sub(latest.xcp_ttl)),
            unmarked_hop: latest.ttl.and_then(|ttl| {
                // If the IP TTL is above the XCP TTL, it must have been rewritten on the way, so it
                // is meaningless.
                (ttl <= latest.xcp_ttl).then_some(ttl < latest.xcp_ttl)
            }),
            uncounted: latest.uncounted,
            ttl_rewritten: latest.ttl.is_some_and(|ttl| ttl > latest.xcp_ttl),
            router: latest.router,
            translated: latest.translated,
            corruption_ppm: corruption::decode(latest.corruption),
        })
    }
}

#[inline]
fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more).min(CEILING);
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
