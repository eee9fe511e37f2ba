//! The load factor ρ = (λ + κ·q̃) / (γ·C·t_ρ), kept as a fraction so that all decisions are exact.

use core::fmt;

use super::params::{HIGH_LOAD, QueueFilter, VcpLinkParams};
use crate::base::arith::{MAX_BYTES, PPM, micros, saturate};
use crate::base::{Duration, Instant};
use crate::signals::{VcpCarried, VcpCode};

/// Maximum number of late queue samples taken at once.
const MAX_LATE_SAMPLES: u64 = 1 << 10;

/// The load of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// (λ·10^6 + κ_ppm·q̃)·10^6.
    a: u128,
    /// γ_ppm·∫C dt, in byte·µs/s.
    b: u128,
}

impl Load {
    /// Computes the load if `lambda` bytes arrived in `interval` and the persistent queue was
    /// `queue` bytes, at a port of `capacity` bytes per second: [VCP-ext eq. 1].
    pub fn new(
        lambda: u64,
        queue: u64,
        kappa_ppm: u64,
        gamma_ppm: u64,
        capacity: u64,
        interval: Duration,
    ) -> Self {
        let offered = u128::from(capacity.max(1)) * u128::from(micros(interval).max(1));
        Self::over(lambda, queue, kappa_ppm, gamma_ppm, offered)
    }

    /// The same for a capacity that changed during the interval: `offered` is its integral over the
    /// interval, in bytes per second times µs.
    pub fn over(lambda: u64, queue: u64, kappa_ppm: u64, gamma_ppm: u64, offered: u128) -> Self {
        let million = u128::from(PPM);
        let lambda = u128::from(lambda.min(MAX_BYTES));
        let queue = u128::from(queue.min(MAX_BYTES));
        let a = (lambda * million + u128::from(kappa_ppm.min(PPM)) * queue) * million;
        let b = u128::from(gamma_ppm.clamp(1, PPM)).saturating_mul(offered.max(1));
        Self { a, b }
    }

    /// The load if `bytes` of the counted bytes had not arrived.
    pub fn without(&self, bytes: u64) -> Self {
        let million = u128::from(PPM);
        let less = u128::from(bytes.min(MAX_BYTES)) * million * million;
        Self {
            a: self.a.saturating_sub(less),
            ..*self
        }
    }

    /// True if ρ ≥ num / den, for small fractions.
    pub const fn reaches(&self, num: u64, den: u64) -> bool {
        self.a.saturating_mul(den as u128) >= self.b.saturating_mul(num as u128)
    }

    /// [VCP-ext table I]: LOW below 0.8, HIGH below 1, otherwise OVER.
    pub const fn code(&self) -> VcpCode {
        if self.reaches(1, 1) {
            VcpCode::Over
        } else if self.reaches(HIGH_LOAD.0, HIGH_LOAD.1) {
            VcpCode::High
        } else {
            VcpCode::Low
        }
    }

    /// ρ in 10^-9, rounded down.
    pub fn ppb(&self) -> u64 {
        saturate(self.a.saturating_mul(1_000_000_000) / self.b)
    }

    /// ρ in 10^-9, rounded up, for laws that give less at a higher load.
    pub fn ppb_ceil(&self) -> u64 {
        saturate(self.a.saturating_mul(1_000_000_000).div_ceil(self.b))
    }

    /// ρ in 1/128, rounded down, and limited to 255.
    pub fn in_128ths(&self) -> u8 {
        u8::try_from(self.a.saturating_mul(128) / self.b).unwrap_or(u8::MAX)
    }
}

/// Counts arrivals and samples the queue in consecutive intervals.
#[derive(Clone, Debug)]
pub(crate) struct LoadMeter {
    filter: QueueFilter,
    t_q: Duration,
    started: Instant,
    lambda: u64,
    sample_sum: u128,
    samples: u64,
    sample_min: u64,
    next_sample: Instant,
    persistent: u64,
}

impl LoadMeter {
    pub(crate) fn new(now: Instant, params: &VcpLinkParams) -> Self {
        let mut meter = Self {
            filter: params.queue,
            t_q: params.t_q.max(Duration::from_micros(100)),
            started: now,
            lambda: 0,
            sample_sum: 0,
            samples: 0,
            sample_min: u64::MAX,
            next_sample: now,
            persistent: 0,
        };
        meter.begin(now);
        meter
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.started = now;
        self.lambda = 0;
        self.sample_sum = 0;
        self.samples = 0;
        self.sample_min = u64::MAX;
        self.next_sample = now + self.t_q;
    }

    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    pub(crate) const fn lambda(&self) -> u64 {
        self.lambda
    }

    pub(crate) const fn persistent_queue(&self) -> u64 {
        self.persistent
    }

    /// Counts `bytes` that arrived, whatever they carry and whether or not the queue accepts them.
    pub(crate) fn count(&mut self, bytes: u32) {
        self.lambda = self.lambda.saturating_add(u64::from(bytes));
    }

    /// Takes all samples that are due. `queue` is the length since the last event, so late samples
    /// are exact.
    pub(crate) fn sample(&mut self, now: Instant, queue: u64) {
        if now >= self.next_sample {
            self.sample_due(now, queue);
        }
    }

    #[cold]
    fn sample_due(&mut self, now: Instant, queue: u64) {
        let late =
            crate::base::arith::nanos(now - self.next_sample) / crate::base::arith::nanos(self.t_q);
        let count = late.saturating_add(1).min(MAX_LATE_SAMPLES);
        self.sample_sum += u128::from(queue.min(MAX_BYTES)) * u128::from(count);
        self.samples += count;
        self.sample_min = self.sample_min.min(queue);
        self.next_sample = if late < MAX_LATE_SAMPLES {
            self.next_sample + self.t_q * u32::try_from(count).unwrap_or(1)
        } else {
            now + self.t_q
        };
    }

    /// Updates the persistent queue with the interval's samples, or with `queue` if there are none.
    pub(crate) fn settle_queue(&mut self, queue: u64) {
        let mean = match self.samples {
            0 => queue,
            n => saturate(self.sample_sum.div_ceil(u128::from(n))),
        };
        self.persistent = match self.filter {
            // Rounded up, so that the load is never understated.
            QueueFilter::LowPass => {
                (3 * self.persistent.min(MAX_BYTES) + mean.min(MAX_BYTES)).div_ceil(4)
            }
            QueueFilter::Mean => mean,
            QueueFilter::Min => self.sample_min.min(mean),
        };
    }
}

// A port's mark at a given load: VCP's three codes, possibly combined with an extension.

/// The fields that a rule sets in a packet. Interval and load are set by the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The code.
    pub code: VcpCode,
    /// BISE's r in 2^-16, with 65 535 for 1. `None`: this port does not run BISE.
    pub r: Option<u16>,
}

/// A link rule, which computes marks from loads.
pub trait LinkRule: Clone + Send + fmt::Debug {
    /// Handles the end of an interval with this load.
    fn on_load(&mut self, load: &Load);

    /// Handles a load that is a lower bound for the load of the current interval.
    fn on_progress(&mut self, load: &Load) {
        let _ = load;
    }

    /// The load is unknown, because nothing has been measured since the port was idle.
    fn on_idle(&mut self);

    /// The mark for a packet for which VCP's own code would be `code`.
    fn mark(&mut self, code: VcpCode, carried: &VcpCarried) -> Mark;

    /// True if each flow gets its own r, which may differ between flows.
    fn tells_r(&self) -> bool {
        false
    }

    /// The ε in 10^-6 with which senders follow r. `None`: no BISE.
    fn epsilon_ppm(&self) -> Option<u64> {
        None
    }

    /// BISE's r in 2^-32, for reports.
    fn r_q32(&self) -> Option<u64> {
        None
    }
}

/// VCP without an extension.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl LinkRule for Plain {
    fn on_load(&mut self, _load: &Load) {}

    fn on_idle(&mut self) {}

    fn mark(&mut self, code: VcpCode, _carried: &VcpCarried) -> Mark {
        Mark { code, r: None }
    }
}
