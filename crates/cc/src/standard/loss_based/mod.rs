//! Congestion control based on losses (RFC 9002 §7): a window rule combined with a start rule.
//!
//! [`LossBased`] contains everything that these laws share: the window, the slow-start threshold,
//! recovery periods with one cut each, persistent congestion, and the recovery from a spurious
//! loss. The *window rule* ([`Avoidance`]) determines how the window grows in congestion avoidance,
//! and how far it is cut. The *start rule* ([`StartRule`]) determines how it grows before the first
//! cut, and when to stop without a cut. `cubic` is `LossBased<Cubic, HyStart>`, and `newreno` is
//! `LossBased<Reno, SlowStart>`.

#[cfg(test)]
mod tests;

use core::fmt;

use crate::base::arith::{MAX_BYTES, rate};
use crate::base::{Duration, Instant, arith};
use crate::law::{Acked, Controller, Lost, PacketState, Sent, UNPACED};
use crate::metrics::{Metrics, Phase};

/// The slow-start threshold before the first loss.
const UNSET: u64 = u64::MAX;

/// A recovery period, in which only one cut is made. It lasts until a packet sent after its start
/// is acknowledged (RFC 9002 §7.3.2). News of packets sent before its start causes no further cut,
/// even if it arrives after its end.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    started: Instant,
    last_sent: u64,
    over: bool,
}

/// The state to restore if the last loss event turns out to be spurious (RFC 9438 §4.9).
#[derive(Clone, Debug)]
struct Undo<W> {
    window: u64,
    ssthresh: u64,
    avoidance: W,
}

/// A loss-based controller with window rule `W` and start rule `S`. It is in slow start while its
/// window is below the threshold, and otherwise in congestion avoidance. Losses and marks begin a
/// recovery period, which ends with an acknowledgement.
#[derive(Clone, Debug)]
pub struct LossBased<W, S> {
    mtu: u64,
    window: u64,
    ssthresh: u64,
    srtt: Option<Duration>,
    last_sent: u64,
    recovery: Option<Recovery>,
    undo: Option<Undo<W>>,
    avoidance: W,
    start: S,
    paced: bool,
}

impl<W: Avoidance, S: StartRule> LossBased<W, S> {
    /// Creates a controller for datagrams of `mtu` bytes, with an initial window of `initial`
    /// packets, or the initial window of RFC 9002 §7.2.
    pub fn new(mtu: u16, initial: Option<u32>, avoidance: W, start: S) -> Self {
        let mtu = u64::from(mtu.max(1));
        Self {
            mtu,
            window: arith::initial(mtu, initial),
            ssthresh: UNSET,
            srtt: None,
            last_sent: 0,
            recovery: None,
            undo: None,
            avoidance,
            start,
            paced: true,
        }
    }

    /// Turns pacing on or off. Without pacing, for comparisons, everything that the window allows
    /// leaves immediately.
    #[must_use]
    pub fn with_pace(self, paced: bool) -> Self {
        Self { paced, ..self }
    }

    fn floor(&self) -> u64 {
        arith::loss_based_floor(self.mtu)
    }

    /// True in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// True from a cut until a packet sent after it is acknowledged.
    pub fn in_recovery(&self) -> bool {
        self.recovery.is_some_and(|recovery| !recovery.over)
    }

    /// Takes over from another law with `window` bytes, in congestion avoidance.
    pub fn take_over(&mut self, window: u64) {
        self.window = window.clamp(self.floor(), MAX_BYTES);
        self.ssthresh = self.window;
        self.avoidance.on_collapse();
        self.undo = None;
    }

    /// Takes over with `window` bytes, in slow start up to `ssthresh` bytes, which the path is
    /// known to carry. `window` already accounts for losses and marks of earlier packets.
    pub(crate) fn take_over_below(&mut self, now: Instant, window: u64, ssthresh: u64) {
        self.begin_at(window, ssthresh);
        self.recovery = Some(Recovery {
            started: now,
            last_sent: self.last_sent,
            over: true,
        });
    }

    /// Continues with `window` bytes, in slow start up to `ssthresh` bytes, which the path is known
    /// to carry.
    pub(crate) fn begin_at(&mut self, window: u64, ssthresh: u64) {
        self.take_over(window);
        self.ssthresh = ssthresh.max(self.window);
    }

    /// Starts again with `window` bytes in slow start, as on a new path.
    pub fn start_over(&mut self, window: u64) {
        self.window = window.clamp(self.floor(), MAX_BYTES);
        self.ssthresh = UNSET;
        self.avoidance.on_collapse();
        self.undo = None;
    }

    /// Raises the window to `window` bytes if that is more, and remains in the current phase.
    pub(crate) fn raise(&mut self, window: u64) {
        self.window = self.window.max(window).min(MAX_BYTES);
    }

    /// Lowers the window to `window` bytes if that is less, and enters congestion avoidance.
    pub(crate) fn cap(&mut self, window: u64) {
        if window < self.window {
            self.take_over(window);
        }
    }

    /// Starts over with `window` bytes in slow start up to `threshold`, in a recovery period that
    /// lasts until a packet after `last_sent` is acknowledged.
    pub(crate) fn fall_back(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.window = window.min(self.window).max(self.floor());
        self.ssthresh = threshold.max(self.floor());
        self.avoidance.on_collapse();
        self.undo = None;
        self.recovery = Some(Recovery {
            started: now,
            last_sent,
            over: false,
        });
    }

    /// Allows slow start to continue up to `threshold` bytes, if it has not resumed yet after
    /// [`fall_back`](Self::fall_back).
    pub(crate) fn allow(&mut self, threshold: u64) {
        if self.in_recovery() {
            self.ssthresh = self.ssthresh.max(threshold);
        }
    }

    fn cut(&mut self, now: Instant, cause: Cause, last_sent: u64) {
        let undo = Undo {
            window: self.window,
            ssthresh: self.ssthresh,
            avoidance: self.avoidance.clone(),
        };
        let target = self
            .avoidance
            .on_congestion(now, self.window, self.mtu, cause);
        self.window = target.min(self.window).max(self.floor());
        // [9002 7.3.1 leave-slow-start] [9002 7.3.2 halve]
        self.ssthresh = self.window;
        self.undo = (cause == Cause::Loss).then_some(undo);
        self.recovery = Some(Recovery {
            started: now,
            last_sent,
            over: false,
        });
    }

    fn grow(&mut self, now: Instant, acked: &Acked) {
        let added = if self.in_slow_start() {
            // The start rule applies to the first slow start only, because later slow starts know
            // where to stop.
            let growth = if self.ssthresh == UNSET {
                self.start.on_ack(acked, self.last_sent)
            } else {
                Growth::plain(acked.bytes)
            };
            if growth.leave {
                self.ssthresh = self.window;
            }
            // Bytes beyond the threshold belong to avoidance. They are ignored, which is the less
            // aggressive choice.
            let bytes = self.start.limited(growth.bytes, self.window, self.mtu);
            bytes.min(self.ssthresh.saturating_sub(self.window))
        } else {
            self.avoidance.on_ack(now, acked, self.window, self.mtu)
        };
        self.window = self.window.saturating_add(added).min(MAX_BYTES);
    }
}

impl<W: Avoidance, S: StartRule> Controller for LossBased<W, S> {
    fn on_sent(&mut self, _now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        PacketState::default()
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        if let Some(recovery) = &mut self.recovery
            && !recovery.over
        {
            if acked.largest <= recovery.last_sent {
                return;
            }
            recovery.over = true;
        }
        if acked.bytes == 0 {
            return;
        }
        if acked.window_limited {
            self.grow(now, acked);
        } else {
            self.avoidance.on_unused(now);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        let covered = self
            .recovery
            .is_some_and(|recovery| lost.largest <= recovery.last_sent);
        if !covered {
            self.cut(now, Cause::Loss, lost.last_sent);
        }
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        let covered = self
            .recovery
            .is_some_and(|recovery| sent_at <= recovery.started);
        if covered {
            // The cut is also for a mark, so it must remain even if its losses turn out to be
            // spurious.
            self.undo = None;
        } else {
            self.cut(now, Cause::Marked, last_sent);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        // The losses that established it have cut already; the rest is RFC 9002 §7.6.2.
        if !self.in_recovery() {
            self.cut(now, Cause::Loss, self.last_sent);
        }
        // [9002 7.6.2 minimum-window]
        self.window = self.floor();
        self.avoidance.on_collapse();
        self.recovery = None;
        self.undo = None;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some(undo) = self.undo.take()
            && undo.window > self.window
        {
            self.window = undo.window;
            self.ssthresh = undo.ssthresh;
            self.avoidance = undo.avoidance;
            self.recovery = None;
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.avoidance.on_unused(now - idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.window = self.window.max(self.floor());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        // Slow start doubles the window per round, so N = 1.25 would hold it back (RFC 9002 §7.7
        // leaves N open).
        let srtt = self.srtt?;
        if !self.paced {
            return Some(UNPACED);
        }
        let (num, den) = if self.in_slow_start() { (2, 1) } else { (5, 4) };
        Some(rate(self.window, srtt, num, den))
    }

    fn metrics(&self) -> Metrics {
        let phase = if self.in_recovery() {
            Phase::Recovery
        } else if self.in_slow_start() {
            Phase::Startup
        } else {
            Phase::Avoidance
        };
        Metrics {
            ssthresh: (self.ssthresh != UNSET).then_some(self.ssthresh),
            ..Metrics::new(W::NAME, phase, self.window)
        }
    }
}

// The two exchangeable parts of a loss-based controller.

/// Why the window is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets were lost.
    Loss,
    /// Packets came back with CE in the IP ECN field.
    Marked,
}

/// How an acknowledgement changes the window during slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes to add.
    pub bytes: u64,
    /// True if slow start ends now, without a loss.
    pub leave: bool,
}

impl Growth {
    /// RFC 9002 §7.3.1: grows by as much as was acknowledged.
    pub const fn plain(acked: u64) -> Self {
        Self {
            bytes: acked,
            leave: false,
        }
    }
}

/// A window rule: the growth in congestion avoidance, and the depth of a cut.
pub trait Avoidance: Clone + Send + fmt::Debug {
    /// The law's name in reports.
    const NAME: &'static str;

    /// Returns the bytes to add to `window`. Called only while the window limits the sender.
    fn on_ack(&mut self, now: Instant, acked: &Acked, window: u64, mtu: u64) -> u64;

    /// The window after a cut, before the lower limit is applied.
    fn on_congestion(&mut self, now: Instant, window: u64, mtu: u64, cause: Cause) -> u64;

    /// Forgets everything learned about the window, after persistent congestion or a change of law.
    fn on_collapse(&mut self) {}

    /// Records that the sender has not used its window since `since`, or since the last
    /// acknowledgement if that was later.
    fn on_unused(&mut self, since: Instant) {
        let _ = since;
    }
}

/// A start rule: the growth before the first loss.
pub trait StartRule: Clone + Send + fmt::Debug {
    /// Growth for an acknowledgement; `last_sent` is the largest packet number sent so far.
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth;

    /// Limits how much slow start adds to a window of `window` bytes, which would be `bytes`
    /// without a limit. Also applies to later slow starts, which end at a threshold.
    fn limited(&mut self, bytes: u64, window: u64, mtu: u64) -> u64 {
        let _ = (window, mtu);
        bytes
    }
}
