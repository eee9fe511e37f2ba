//! Acknowledgement processing and loss detection in one packet number space (RFC 9002 §6.1).

use core::ops::RangeInclusive;

use super::holes::Holes;
use super::reordering::{Cause, Losses, Reordering};
use super::{AckError, Newly, NewlyLost, PathNumber, Probe, RttEstimator, SentPacket, SentPackets};
use crate::{Duration, Instant};

/// One packet number space: its packets in flight, and the decision which packets are lost.
///
/// Because packets are sent in order of their numbers, those that reach a threshold are always
/// the oldest holes, so a queue replaces a scan over all packets in flight. A retransmission is
/// an ordinary packet and its loss is detected just as early.
///
/// Questions for a starting rate have a separate queue because routers may also queue them
/// separately. A question is therefore declared lost only by time, and its acknowledgement is
/// not evidence that other packets are lost.
#[derive(Debug)]
pub struct LossDetector<F> {
    sent: SentPackets<F>,
    largest_acked: Option<u64>,
    overtaking: Overtaking,
    /// Unacknowledged packets below the largest acknowledged one that are not lost yet.
    pending: Holes<()>,
    /// The same for questions for a starting rate.
    questions: Holes<()>,
    losses: Losses,
    reordering: Reordering,
    run: Run,
    loss_time: Option<Instant>,
    last_ack_eliciting: Option<Instant>,
}

impl<F> Default for LossDetector<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> LossDetector<F> {
    /// Creates an empty space.
    pub fn new() -> Self {
        Self {
            sent: SentPackets::new(),
            largest_acked: None,
            overtaking: Overtaking::default(),
            pending: Holes::new(),
            questions: Holes::new(),
            losses: Losses::new(),
            reordering: Reordering::new(),
            run: Run::default(),
            loss_time: None,
            last_ack_eliciting: None,
        }
    }

    /// Records that packet `number` was sent. Returns false, and records nothing, if a later
    /// number was recorded before.
    pub fn on_sent(&mut self, number: u64, packet: SentPacket<F>) -> bool {
        let eliciting_at = packet.ack_eliciting.then_some(packet.sent_at);
        let recorded = self.sent.insert(number, packet);
        if recorded && eliciting_at.is_some() {
            self.last_ack_eliciting = eliciting_at;
        }
        recorded
    }

    /// Processes the descending ranges of an ACK frame. Each newly acknowledged packet goes to
    /// `sink` once, also in descending order. After an error, some may already have been passed
    /// on; this is harmless because the connection closes.
    ///
    /// Ranges are read only while unresolved packets are left below them, so callers must not
    /// rely on the iterator being exhausted.
    ///
    /// # Errors
    /// [`AckError`] if no honest peer could have sent the frame.
    pub fn on_ack(
        &mut self,
        ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
        mut sink: impl FnMut(u64, SentPacket<F>),
    ) -> Result<Newly, AckError> {
        let mut newly = Newly::default();
        let old_largest = self.largest_acked;
        let fresh_from = old_largest.map_or(0, |largest| largest + 1);
        let overtook = self.overtaking.largest().unwrap_or(0);
        let last_sent = self.sent.next_number().saturating_sub(1);
        let mut pending = self.pending.sweep();
        let mut questions = self.questions.sweep();
        let mut losses = self.losses.sweep();
        let old = (self.pending.len(), self.questions.len());
        // Smallest number of the previous range; `None` for the first range.
        let mut above: Option<u64> = None;

        for range in ranges {
            let (first, last) = (*range.start(), *range.end());
            if first > last || above.is_some_and(|a| last >= a) {
                return Err(AckError::Disordered);
            }
            if self.sent.never_sent(first, last) {
                return Err(AckError::NeverSent(last));
            }
            match above {
                None => {
                    self.largest_acked = Some(last.max(old_largest.unwrap_or(0)));
                    newly.advanced = last >= fresh_from;
                    let packet = self.sent.get(last);
                    if newly.advanced && packet.is_none_or(|p| p.probe != Probe::Question) {
                        self.overtaking.raise(last);
                    }
                    if let Some(packet) = packet.filter(|p| self.sent.is_on_path(p)) {
                        newly.largest_sent_at = Some(packet.sent_at);
                    }
                }
                Some(above) => self.add_holes(last + 1, above, fresh_from, true),
            }
            above = Some(first);
            for number in (first.max(fresh_from).max(self.sent.base())..=last).rev() {
                if let Some(packet) = self.sent.remove(number) {
                    newly.count(number, &packet);
                    self.overtaking.on_acked(number, &packet);
                    sink(number, packet);
                }
            }
            if first < fresh_from {
                let (sent, overtaking) = (&mut self.sent, &mut self.overtaking);
                self.pending.take(&mut pending, first, last, |number, ()| {
                    if let Some(packet) = sent.remove(number) {
                        newly.count(number, &packet);
                        overtaking.on_acked(number, &packet);
                        sink(number, packet);
                    }
                });
                let (reordering, run) = (&mut self.reordering, &mut self.run);
                let sent = &mut self.sent;
                self.questions
                    .take(&mut questions, first, last, |number, ()| {
                        if let Some(packet) = sent.remove(number) {
                            newly.count(number, &packet);
                            run.interrupt();
                            sink(number, packet);
                        }
                    });
                self.losses.take(&mut losses, range, |number, cause| {
                    newly.spurious += 1;
                    run.interrupt();
                    reordering.on_spurious(cause, number, overtook, last_sent);
                });
                if pending.done() && questions.done() && losses.done() {
                    break;
                }
            }
        }
        if let Some(above) = above {
            self.add_holes(fresh_from, above, fresh_from, old_largest.is_some());
        }
        self.pending.reverse_from(old.0);
        self.pending.close(&pending);
        self.questions.reverse_from(old.1);
        self.questions.close(&questions);
        newly.event_undone = self.losses.close(&losses);
        Ok(newly)
    }

    /// Adds the unacknowledged packets `first.max(from)..end` as holes, in descending order.
    fn add_holes(&mut self, first: u64, end: u64, from: u64, after_ack: bool) {
        let mut found = false;
        for number in (first.max(from).max(self.sent.base())..end).rev() {
            match self.sent.get(number) {
                None => continue,
                // Neither the window nor a retransmission depends on it.
                Some(packet) if self.sent.is_forgettable(packet) => {
                    self.sent.remove(number);
                    continue;
                }
                Some(packet) if packet.probe == Probe::Question => {
                    self.questions.push(number, ());
                    continue;
                }
                Some(_) => {}
            }
            self.pending.push(number, ());
            found = true;
        }
        if found && after_ack {
            self.pending.mark_last();
        }
    }

    /// Declares packets lost, oldest first, as of `now` and the largest acknowledged packet,
    /// and sets [`loss_time`](Self::loss_time). `max_ack_delay` is the peer's, for persistent
    /// congestion.
    pub fn detect(
        &mut self,
        now: Instant,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
        mut sink: impl FnMut(u64, SentPacket<F>),
    ) -> NewlyLost {
        let mut lost = NewlyLost::default();
        self.loss_time = None;
        self.losses
            .forget(now, rtt.pto_base() * PERSISTENT_THRESHOLD);
        if self.largest_acked.is_none() {
            return lost;
        }
        self.lose_questions(
            now,
            self.reordering.question_time(rtt),
            &mut lost,
            &mut sink,
        );
        let delay = self.reordering.time(rtt);
        let last_sent = self.sent.next_number().saturating_sub(1);
        let mut event = false;
        while let Some((number, follows_ack, ())) = self.pending.front() {
            // Only questions have overtaken this packet and later packets.
            if self
                .overtaking
                .largest()
                .is_none_or(|largest| largest < number)
            {
                break;
            }
            let Some((sent_at, shim)) = self.sent.get(number).map(|p| (p.sent_at, p.shim)) else {
                self.pending.pop();
                continue;
            };
            // A packet in another queue can overtake this one without a loss, so allow twice
            // the time.
            let after = self.overtaking.against(shim);
            let after = after.and_then(|after| after.checked_sub(number));
            let delay = if after.is_some() { delay } else { 2 * delay };
            let cause = if after.is_some_and(|after| after >= self.reordering.packets()) {
                Cause::Packets
            } else if sent_at + delay <= now {
                Cause::Time
            } else {
                self.loss_due(sent_at + delay);
                break;
            };
            self.pending.pop();
            let Some(packet) = self.sent.remove(number) else {
                continue;
            };
            lost.packets += 1;
            if follows_ack {
                self.run.interrupt();
            }
            if !packet.is_off_path() && packet.probe == Probe::Nothing {
                event |= self.losses.push(now, number, cause, last_sent);
                let congested = (rtt.pto_base_at(sent_at) + max_ack_delay) * PERSISTENT_THRESHOLD;
                // [9002 7.6.2 eliciting-ends]
                lost.persistent_congestion |= packet.ack_eliciting
                    && self.run.on_lost(sent_at, rtt.first_sample_at(), congested);
                if packet.in_flight {
                    lost.counted += 1;
                    lost.bytes += u64::from(packet.size);
                    let before = lost.largest.map(|(before, ..)| before);
                    if before.is_none() {
                        lost.first_state = packet.state;
                    }
                    lost.ranges += u64::from(before.is_none_or(|before| before + 1 < number));
                    lost.largest = Some((number, sent_at, packet.state));
                }
            }
            sink(number, packet);
        }
        if event {
            self.reordering.on_loss_event();
        }
        lost
    }

    /// Declares questions lost that were sent `delay` ago or earlier. Their loss is not a sign
    /// of congestion, because a hop may drop packets that it does not recognize.
    fn lose_questions(
        &mut self,
        now: Instant,
        delay: Duration,
        lost: &mut NewlyLost,
        sink: &mut impl FnMut(u64, SentPacket<F>),
    ) {
        while let Some((number, _, ())) = self.questions.front() {
            let due = self.sent.get(number).map(|packet| packet.sent_at + delay);
            if let Some(due) = due.filter(|due| *due > now) {
                self.loss_due(due);
                return;
            }
            self.questions.pop();
            if let Some(packet) = self.sent.remove(number) {
                lost.packets += 1;
                if !packet.is_off_path() {
                    lost.question = Some(number);
                }
                sink(number, packet);
            }
        }
    }

    /// Makes sure that losses are checked again at `at`.
    fn loss_due(&mut self, at: Instant) {
        self.loss_time = Some(self.loss_time.map_or(at, |before| before.min(at)));
    }

    /// Returns when [`detect`](Self::detect) must run even without an ACK.
    pub const fn loss_time(&self) -> Option<Instant> {
        self.loss_time
    }

    /// Returns when the last ack-eliciting packet was sent, while any is unresolved.
    pub fn last_ack_eliciting(&self) -> Option<Instant> {
        self.last_ack_eliciting
            .filter(|_| self.sent.ack_eliciting() > 0)
    }

    /// Returns the largest packet number that the peer acknowledged.
    pub const fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// Returns the unresolved packets.
    pub const fn sent(&self) -> &SentPackets<F> {
        &self.sent
    }

    /// Returns the current reordering thresholds.
    pub const fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// Returns the number of losses that are remembered, for memory accounting.
    pub fn remembered(&self) -> usize {
        self.losses.len()
    }

    /// Changes to `path` as [`SentPackets::change_path`] does, and resets the reordering
    /// thresholds.
    pub fn change_path(&mut self, path: PathNumber, keep: bool) {
        self.sent.change_path(path, keep);
        self.losses.clear();
        self.reordering = Reordering::new();
        self.run = Run::default();
    }

    /// See [`SentPackets::forget_left`].
    pub fn forget_left(&mut self) {
        self.sent.forget_left();
    }

    /// Removes all unresolved packets, oldest first, as neither acknowledged nor lost, because
    /// the space's keys were discarded (RFC 9002 §6.4), a Retry arrived, or 0-RTT was rejected.
    pub fn drain(&mut self, sink: impl FnMut(u64, SentPacket<F>)) {
        self.sent.drain(sink);
        self.pending.clear();
        self.questions.clear();
        self.losses.clear();
        self.run = Run::default();
        self.loss_time = None;
        self.last_ack_eliciting = None;
    }
}

/// After this many consecutive ack-eliciting packets without a shim, shims are considered rare.
const FEW_SHIMS: u32 = 16;

/// Decides which acknowledged packets are evidence that an earlier packet is lost.
///
/// Ports that process shims may keep packets with a shim in a separate queue, where packets
/// without a shim, such as pure ACKs, overtake them. Therefore, while most packets carry a shim,
/// only their acknowledgements are evidence that another packet is lost. If most packets don't
/// carry a shim, the flow itself overtakes, and waiting for a shim would delay the recovery of
/// everything lost after it.
///
/// A question for a starting rate may be in a third queue, so it is not evidence of any loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overtaking {
    largest: Option<u64>,
    largest_shim: Option<u64>,
    /// Ack-eliciting packets without a shim acknowledged since the last one with a shim.
    bare: u32,
}

impl Overtaking {
    /// Returns the largest acknowledged packet, except questions.
    pub(super) const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Records that `number`, which is not a question, was acknowledged.
    pub(super) fn raise(&mut self, number: u64) {
        self.largest = self.largest.max(Some(number));
    }

    pub(super) fn on_acked<F>(&mut self, number: u64, packet: &SentPacket<F>) {
        if packet.probe == Probe::Question {
            return;
        }
        self.raise(number);
        if packet.shim {
            self.largest_shim = self.largest_shim.max(Some(number));
            self.bare = 0;
        } else if packet.ack_eliciting {
            self.bare = self.bare.saturating_add(1);
        }
    }

    /// Returns the largest acknowledged packet that is evidence against an earlier one with or
    /// without a `shim`.
    pub(super) fn against(&self, shim: bool) -> Option<u64> {
        if shim && self.bare < FEW_SHIMS {
            self.largest_shim
        } else {
            self.largest
        }
    }
}

/// RFC 9002 §7.6.1: kPersistentCongestionThreshold.
pub(super) const PERSISTENT_THRESHOLD: u32 = 3;

/// A run of losses without an acknowledged packet in between.
///
/// Losses are reported in ascending order, so the send time of the first packet represents the
/// run. A run can extend over several ACK frames within one packet number space.
#[derive(Debug, Default)]
pub(super) struct Run {
    since: Option<Instant>,
}

impl Run {
    /// Records that a packet between losses was acknowledged.
    pub(super) const fn interrupt(&mut self) {
        self.since = None;
    }

    /// Records the loss of the ack-eliciting packet sent at `sent_at`. Returns true if the run
    /// now spans more than `duration`. Packets sent before the first RTT sample are ignored,
    /// because their timeouts were guesses.
    pub(super) fn on_lost(
        &mut self,
        sent_at: Instant,
        first_sample_at: Option<Instant>,
        duration: Duration,
    ) -> bool {
        if first_sample_at.is_none_or(|first| sent_at < first) {
            return false;
        }
        let since = *self.since.get_or_insert(sent_at);
        let established = sent_at - since > duration;
        if established {
            self.since = Some(sent_at);
        }
        established
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9002 §7.6.3: three probe timeouts of one second, losses from t = 1 to
    /// t = 8.
    #[test]
    fn example_of_the_rfc() {
        let three = Duration::from_secs(3);
        let at = |s: u64| Instant::from_millis(s * 1000);
        let mut run = Run::default();
        let found = [1, 2, 8].map(|t| run.on_lost(at(t), Some(at(0)), three));
        assert_eq!(found, [false, false, true]);
        run.interrupt();
        assert!(!run.on_lost(at(20), Some(at(0)), three));
        assert!(!run.on_lost(at(23), Some(at(0)), three));
        assert!(run.on_lost(at(24), Some(at(0)), three));
        // Each established run begins the next one, and the time of the first sample counts.
        let mut run = Run::default();
        let found = [2, 5, 6, 7, 9, 10].map(|t| run.on_lost(at(t), Some(at(2)), three));
        assert_eq!(found, [false, false, true, false, false, true]);
        let mut unmeasured = Run::default();
        assert!(!unmeasured.on_lost(at(1), None, three));
        assert!(!unmeasured.on_lost(at(1), Some(at(2)), three));
        assert!(!unmeasured.on_lost(at(9), Some(at(2)), three));
    }
}
