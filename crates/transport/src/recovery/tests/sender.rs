//! A sender whose packets all have the same size.

use super::*;

pub(super) struct Sender {
    pub(super) recovery: Recovery<()>,
    /// The next number of each space.
    pub(super) next: [u64; 3],
    /// The fates of packets.
    pub(super) out: Vec<(Fate, u64)>,
}

impl Sender {
    pub(super) fn new(is_client: bool) -> Self {
        Self {
            recovery: Recovery::new(is_client, at(0)),
            next: [0; 3],
            out: Vec::new(),
        }
    }

    /// A confirmed connection with one RTT sample of 100 ms, taken at 100 ms.
    pub(super) fn settled() -> Self {
        let mut s = Self::new(true);
        s.recovery.on_handshake_confirmed();
        s.send(0, SpaceId::Data);
        s.ack(100, SpaceId::Data, &[(0, 0)]);
        s
    }

    pub(super) fn send(&mut self, now: u64, space: SpaceId) -> u64 {
        self.send_as(space, packet(at(now), 1200, ()))
    }

    /// Sends a packet of data at each of these times.
    pub(super) fn send_at(&mut self, times: impl IntoIterator<Item = u64>) {
        for now in times {
            self.send(now, SpaceId::Data);
        }
    }

    pub(super) fn send_as(&mut self, space: SpaceId, sent: SentPacket<()>) -> u64 {
        let number = self.next[space.index()];
        self.next[space.index()] += 1;
        assert!(self.recovery.on_sent(space, number, sent));
        number
    }

    /// A packet of data with a shim, or an ACK without one.
    pub(super) fn send_shim(&mut self, now: u64, shim: bool) -> u64 {
        let mut sent = packet(at(now), 1200, ());
        (sent.shim, sent.ack_eliciting, sent.in_flight) = (shim, shim, shim);
        self.send_as(SpaceId::Data, sent)
    }

    /// A question for a starting rate with a packet of data.
    pub(super) fn ask(&mut self, now: u64) -> u64 {
        let mut question = packet(at(now), 1200, ());
        (question.shim, question.probe) = (true, Probe::Question);
        self.send_as(SpaceId::Data, question)
    }

    /// Packets reported as lost.
    pub(super) fn lost(&self) -> Vec<u64> {
        let lost = self.out.iter().filter(|(fate, _)| *fate == Fate::Lost);
        lost.map(|(_, number)| *number).collect()
    }

    pub(super) fn ack(&mut self, now: u64, space: SpaceId, ranges: &[(u64, u64)]) -> AckOutcome {
        self.try_ack(now, space, ranges).unwrap()
    }

    pub(super) fn try_ack(
        &mut self,
        now: u64,
        space: SpaceId,
        ranges: &[(u64, u64)],
    ) -> Result<AckOutcome, AckError> {
        let out = &mut self.out;
        self.recovery.on_ack(
            at(now),
            space,
            ranges.iter().map(|&(first, last)| first..=last),
            Duration::ZERO,
            |fate, number, _| out.push((fate, number)),
        )
    }

    pub(super) fn fire(&mut self, now: u64) -> Timeout {
        let out = &mut self.out;
        self.recovery
            .on_timeout(at(now), |fate, number, _| out.push((fate, number)))
    }
}
