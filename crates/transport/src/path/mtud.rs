//! Datagram size of one path: DPLPMTUD (RFC 8899, RFC 9000 §14.3).
//!
//! All sizes are bytes of UDP payload, including the shim.

use crate::{Duration, Instant};

/// Size that every QUIC path must carry (RFC 9000 §14).
pub const BASE_MTU: u16 = 1200;
/// Largest size over IPv4 on Ethernet, whose packets have up to 1500 bytes.
pub const ETHERNET_MTU: u16 = 1472;
/// Largest size over IPv4, whose packets have up to 65,535 bytes.
pub const LARGEST_MTU: u16 = 65_535 - 20 - 8;
/// Smallest base that is accepted, because a handshake must fit.
pub(crate) const LEAST_BASE: u16 = 400;
/// Number of lost probes of one size after which this size counts as too large (RFC 8899 §5.1.2).
const MAX_PROBES: u8 = 3;
/// The search ends when it could gain less than this.
const PRECISION: u16 = 12;
/// Time after which a finished search starts again (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
const RAISE: Duration = Duration::from_secs(600);
/// A black hole is suspected after this many rounds, losses, and smaller packets that got through.
const HOLE_ROUNDS: u32 = 3;
const HOLE_LOSSES: u32 = 6;
const HOLE_PASSED: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u64,
    size: u16,
}

/// Losses of packets larger than the base since one was last acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Suspicion {
    /// First lost packet.
    from: u64,
    losses: u32,
    /// Round trips with such losses. Each begins with a packet sent after the previous round was
    /// noticed.
    rounds: u32,
    round_noticed: Instant,
    /// Acknowledged packets no larger than the base that were sent after the first lost one.
    passed: u32,
}

/// The search for the largest datagram that a path carries.
///
/// This is a binary search, which tries the upper bound first because most paths are as wide as
/// their ends. Since probes are extra packets, a size that is too large only costs the probe
/// itself.
///
/// A black hole, which means that the path has become narrower, differs from random loss and
/// congestion: over three rounds, nothing larger than the base gets through, whereas smaller
/// packets do. A single large packet that is acknowledged clears the suspicion. To ensure that
/// there are smaller packets, repeated PTO probes are limited to
/// [`probe_limit`](Self::probe_limit).
#[derive(Clone, Debug)]
pub struct Mtud {
    /// Size that the path should carry.
    base: u16,
    /// Size to which the MTU falls in a black hole: the base, or [`BASE_MTU`] if a larger base was
    /// configured as the beginning of a search, because the path may not carry it.
    floor: u16,
    current: u16,
    /// The configured bound or the peer's `max_udp_payload_size`, whichever is less.
    ceiling: u16,
    /// Largest size that may still work. The search continues while it is well above `current`.
    high: u16,
    /// Whether the upper bound itself has been tried.
    tried_high: bool,
    failures: u8,
    probe: Option<Probe>,
    raise_at: Option<Instant>,
    suspicion: Option<Suspicion>,
    /// Largest number among acknowledged packets above the base.
    largest_acked: Option<u64>,
}

impl Mtud {
    /// Begins at [`BASE_MTU`]. The size never exceeds the configured `ceiling` if this is above the
    /// base.
    pub const fn new(ceiling: u16) -> Self {
        Self::with_base(BASE_MTU, ceiling)
    }

    /// Returns the size that the path should carry, in bytes of UDP payload.
    pub const fn base(&self) -> u16 {
        self.base
    }

    /// Begins at `base`, which the path should carry. The size never exceeds `ceiling` if this is
    /// above the base. A base above [`BASE_MTU`] is given up if the path doesn't carry it, unless
    /// it is at the ceiling: then there's nothing to discover and nothing to fall back to.
    pub const fn with_base(base: u16, ceiling: u16) -> Self {
        let base = if base < LEAST_BASE { LEAST_BASE } else { base };
        let base = if base > LARGEST_MTU {
            LARGEST_MTU
        } else {
            base
        };
        let ceiling = if ceiling > LARGEST_MTU {
            LARGEST_MTU
        } else {
            ceiling
        };
        let ceiling = if ceiling < base { base } else { ceiling };
        let floor = if base > BASE_MTU && ceiling > base {
            BASE_MTU
        } else {
            base
        };
        Self {
            base,
            floor,
            current: base,
            ceiling,
            high: ceiling,
            tried_high: false,
            failures: 0,
            probe: None,
            raise_at: None,
            suspicion: None,
            largest_acked: None,
        }
    }

    /// Limits the search to `limit` bytes, which the interface carries. You must call this before
    /// the search begins.
    pub fn set_ceiling(&mut self, limit: u16) {
        self.ceiling = limit.min(LARGEST_MTU).max(self.base);
        self.high = self.ceiling;
    }

    /// Limits the search to `limit` bytes, the peer's `max_udp_payload_size`.
    pub fn set_peer_limit(&mut self, limit: u64) {
        let limit = u16::try_from(limit).unwrap_or(u16::MAX).max(BASE_MTU);
        self.ceiling = self.ceiling.min(limit);
        self.base = self.base.min(self.ceiling);
        self.floor = self.floor.min(self.ceiling);
        self.high = self.high.min(self.ceiling);
        self.current = self.current.min(self.ceiling);
    }

    /// Returns the size of the largest datagram to send, in bytes of UDP payload including the
    /// shim.
    pub const fn mtu(&self) -> u16 {
        self.current
    }

    /// Returns the size of the largest datagram for a PTO probe. This is the floor from the second
    /// consecutive timeout on, or while a black hole is suspected.
    pub const fn probe_limit(&self, pto_count: u32) -> u16 {
        if pto_count >= 2 || self.suspicion.is_some() {
            self.floor
        } else {
            self.current
        }
    }

    /// Returns the size of the probe to send now, if one is wanted. The probe should consist of
    /// PING and PADDING, and must have exactly this size.
    pub fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        if self.probe.is_some() {
            return None;
        }
        if self.raise_at.is_some_and(|at| now >= at) {
            self.raise_at = None;
            self.high = self.ceiling;
            self.tried_high = false;
            self.failures = 0;
        }
        let room = self.high.saturating_sub(self.current);
        if room == 0 || (self.tried_high && room < PRECISION) {
            return None;
        }
        Some(
            if self.tried_high && self.current < ETHERNET_MTU && self.high > ETHERNET_MTU {
                // If the interface carries more than the path, the path is probably an Ethernet.
                ETHERNET_MTU
            } else if self.tried_high {
                self.current + room.div_ceil(2)
            } else {
                self.high
            },
        )
    }

    /// Records that packet `number` of `size` bytes was sent as a probe.
    pub const fn on_probe_sent(&mut self, number: u64, size: u16) {
        self.probe = Some(Probe { number, size });
    }

    /// Forgets the outstanding probe, if any, because its fate won't be reported.
    pub const fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// Returns when [`poll_probe`](Self::poll_probe) may return a probe without anything else
    /// happening.
    pub const fn deadline(&self) -> Option<Instant> {
        self.raise_at
    }

    /// Processes the acknowledgement of packet `number`, of `size` bytes. Returns true if this
    /// raised the MTU.
    pub fn on_acked(&mut self, now: Instant, number: u64, size: u16) -> bool {
        if size <= self.floor {
            if let Some(s) = &mut self.suspicion
                && number > s.from
            {
                s.passed += 1;
            }
            return false;
        }
        self.largest_acked = self.largest_acked.max(Some(number));
        if self.suspicion.is_some_and(|s| number > s.from) {
            self.suspicion = None;
        }
        match self.probe {
            Some(probe) if probe.number == number => {
                self.probe = None;
                self.failures = 0;
                self.tried_high |= probe.size == self.high;
                let raised = probe.size > self.current;
                self.current = self.current.max(probe.size);
                self.finish(now);
                raised
            }
            _ => false,
        }
    }

    /// Processes the loss of packet `number`, of `size` bytes and sent at `sent_at`. Call this
    /// after [`on_acked`](Self::on_acked) for the same ACK frame.
    pub fn on_lost(&mut self, now: Instant, number: u64, size: u16, sent_at: Instant) {
        if self.probe.is_some_and(|probe| probe.number == number) {
            self.on_probe_failed(now);
            return;
        }
        if size <= self.floor || self.largest_acked.is_some_and(|l| number < l) {
            return;
        }
        let s = self.suspicion.get_or_insert(Suspicion {
            from: number,
            ..Suspicion::default()
        });
        s.losses += 1;
        if s.rounds == 0 || sent_at >= s.round_noticed {
            s.rounds += 1;
            s.round_noticed = now;
        }
    }

    fn on_probe_failed(&mut self, now: Instant) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        self.failures += 1;
        if self.failures >= MAX_PROBES {
            self.too_large(now, probe.size);
        }
    }

    fn too_large(&mut self, now: Instant, size: u16) {
        self.failures = 0;
        self.tried_high = true;
        self.high = self.high.min(size - 1).max(self.current);
        self.finish(now);
    }

    /// Records that the system refused to send `size` bytes (EMSGSIZE). Returns true if this
    /// lowered the MTU.
    pub fn on_refused(&mut self, now: Instant, size: u16) -> bool {
        if size <= self.base.min(BASE_MTU) {
            return false;
        }
        if size <= self.base {
            // The base was configured too large: the path doesn't carry it.
            self.base = BASE_MTU;
            self.floor = BASE_MTU;
        }
        if self.probe.is_some_and(|probe| probe.size == size) {
            self.probe = None;
        }
        let lowered = size <= self.current;
        if lowered {
            self.current = self.base;
        }
        self.too_large(now, size);
        lowered
    }

    fn finish(&mut self, now: Instant) {
        if self.tried_high
            && self.high.saturating_sub(self.current) < PRECISION
            && self.current < self.ceiling
        {
            self.raise_at = Some(now + RAISE);
        }
    }

    /// Checks for a black hole. Call this after processing an ACK frame's acknowledgements and
    /// losses. Returns true if the path has become narrower: the MTU is then back at the base, and
    /// the search starts again below the size that no longer works.
    pub fn settle(&mut self) -> bool {
        let hole = self.suspicion.is_some_and(|s| {
            s.rounds >= HOLE_ROUNDS && s.losses >= HOLE_LOSSES && s.passed >= HOLE_PASSED
        });
        if !hole || self.current == self.floor {
            return false;
        }
        self.base = self.floor;
        self.suspicion = None;
        self.high = self.current - 1;
        self.current = self.base;
        self.tried_high = true;
        self.failures = 0;
        self.probe = None;
        self.raise_at = None;
        true
    }
}
