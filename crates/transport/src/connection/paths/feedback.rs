//! Explicit feedback on one connection: what goes in front of our datagrams and what comes back,
//! what arrives in front of the peer's and what we return.
//!
//! ```text
//!   outgoing   request ──fill──► shim ─ ─ ─ routers ─ ─ ─► peer's meter
//!              controller ◄──difference── FEEDBACK ◄───────────┘
//!   incoming   shim ──► our meter ──counters──► FEEDBACK ──► peer
//! ```

use std::sync::Arc;

use pathmark_cc::{Explicit, Feedback as Difference, Request};

use super::prefix::{ShimPrefix, ShimUse};
use crate::path::{Counting, Disbelieved, Returned};
use crate::wire::Writer;
use crate::wire::frame::{Feedback as Frame, feedback};
use crate::{Arrived, Ecn, Instant, Signal};

/// The signal in front of our data, and what the peer returned of it.
#[derive(Debug)]
struct Outgoing {
    signal: Arc<dyn Signal>,
    returned: Returned,
}

impl Outgoing {
    /// A signal that goes in front of our data from packet `next` on.
    fn new(signal: Arc<dyn Signal>, next: u64) -> Self {
        let mut returned = Returned::new();
        returned.on_path_change(next);
        Self { signal, returned }
    }
}

/// A signal that the peer's data carries.
#[derive(Debug)]
struct Incoming {
    signal: Arc<dyn Signal>,
    counting: Counting,
}

/// Both directions.
#[derive(Debug, Default)]
pub(in crate::connection) struct Feedback {
    own: Vec<Arc<dyn Signal>>,
    /// Kinds that the peer reads and fills.
    peer: Vec<u8>,
    /// Signals that are or were in front of our data. Each stays, because the peer goes on counting
    /// where it was when its turn comes again.
    outgoing: Vec<Outgoing>,
    /// Which of them is in use. `None`: nothing goes in front but questions.
    used: Option<usize>,
    /// The signal that asks for a starting rate.
    asking: Option<Outgoing>,
    /// One per kind of ours that the peer uses.
    incoming: Vec<Incoming>,
}

impl Feedback {
    pub(in crate::connection) fn new(own: &[Arc<dyn Signal>]) -> Self {
        Self {
            own: own.to_vec(),
            ..Self::default()
        }
    }

    /// True if this side offered to read any: it then accepts shims even before it read the peer's
    /// offer.
    #[inline]
    pub(in crate::connection) fn offered(&self) -> bool {
        !self.own.is_empty()
    }

    /// The peer reads and fills `kinds`: the first of ours among them goes in front of our data,
    /// and the first that asks once in front of what asks. If the one that this side prefers asks
    /// once, nothing goes in front of the rest. What the peer may send without a shim (in the ECN
    /// field) is metered from now on.
    pub(in crate::connection) fn negotiate(&mut self, kinds: &[u8]) {
        kinds.clone_into(&mut self.peer);
        let first = |asks_once: bool| {
            let fits =
                |s: &&Arc<dyn Signal>| s.asks_once() == asks_once && kinds.contains(&s.kind());
            self.own.iter().find(fits).map(|signal| Outgoing {
                signal: Arc::clone(signal),
                returned: Returned::new(),
            })
        };
        let alone = self.own.first().is_some_and(|s| s.asks_once());
        let asking = first(true);
        // What has asked already goes on counting.
        let kind = |outgoing: &Option<Outgoing>| outgoing.as_ref().map(|o| o.signal.kind());
        if kind(&self.asking) != kind(&asking) {
            self.asking = asking;
        }
        self.outgoing = first(false).filter(|_| !alone).into_iter().collect();
        self.used = (!self.outgoing.is_empty()).then_some(0);
        for signal in self.own.clone() {
            if signal.shim_len() == 0 && kinds.contains(&signal.kind()) {
                self.counting(signal.kind());
            }
        }
    }

    /// Client: the peer advertised `kinds` the last time, so the question may go in front of early
    /// data. `None`: early data was refused, and nothing of it counts.
    pub(in crate::connection) fn remember(&mut self, kinds: Option<&[u8]>) {
        let kinds = kinds.unwrap_or(&[]);
        let asks = |s: &&Arc<dyn Signal>| s.asks_once() && kinds.contains(&s.kind());
        self.asking = self.own.iter().find(asks).map(|signal| Outgoing {
            signal: Arc::clone(signal),
            returned: Returned::new(),
        });
    }

    /// From packet `next` on `signal` goes in front of our data, of what asks alone if it asks
    /// once. False, and nothing changed, unless both sides named its kind.
    pub(in crate::connection) fn set_signal(&mut self, signal: Arc<dyn Signal>, next: u64) -> bool {
        let kind = signal.kind();
        if !self.peer.contains(&kind) || !self.own.iter().any(|own| own.kind() == kind) {
            return false;
        }
        if signal.asks_once() {
            match &mut self.asking {
                Some(known) if known.signal.kind() == kind => known.signal = signal,
                other => *other = Some(Outgoing::new(signal, next)),
            }
            self.used = None;
            return true;
        }
        let at = self.outgoing.iter().position(|o| o.signal.kind() == kind);
        self.used = Some(at.unwrap_or(self.outgoing.len()));
        match at.and_then(|at| self.outgoing.get_mut(at)) {
            Some(known) => known.signal = signal,
            None => self.outgoing.push(Outgoing::new(signal, next)),
        }
        true
    }

    /// From packet `next` on, a signal for `wanted` goes in front of our data, if both
    /// sides named one.
    #[inline]
    pub(in crate::connection) fn choose(&mut self, wanted: Explicit, next: u64) {
        if self.signal().is_none_or(|signal| signal.speaks(wanted)) {
            return;
        }
        self.change(wanted, next);
    }

    #[cold]
    fn change(&mut self, wanted: Explicit, next: u64) {
        if let Some(at) = self.outgoing.iter().position(|o| o.signal.speaks(wanted)) {
            self.used = Some(at);
            return;
        }
        let fits = |s: &&Arc<dyn Signal>| {
            !s.asks_once() && self.peer.contains(&s.kind()) && s.speaks(wanted)
        };
        if let Some(signal) = self.own.iter().find(fits).cloned() {
            self.used = Some(self.outgoing.len());
            self.outgoing.push(Outgoing::new(signal, next));
        }
    }

    /// The one in use.
    #[inline]
    fn in_use(&self) -> Option<&Outgoing> {
        self.outgoing.get(self.used?)
    }

    /// All signals that went in front of our data, and the one for questions.
    fn all(&self) -> impl Iterator<Item = &Outgoing> {
        self.outgoing.iter().chain(&self.asking)
    }

    /// The same, to change them.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Outgoing> {
        self.outgoing.iter_mut().chain(&mut self.asking)
    }

    /// The signal in front of our data.
    #[inline]
    pub(in crate::connection) fn signal(&self) -> Option<&dyn Signal> {
        self.in_use().map(|o| &*o.signal)
    }

    /// The kind of the signal in front of our data, or of the one that asks for a starting rate if
    /// there is no other.
    pub(in crate::connection) fn kind(&self) -> Option<u8> {
        let in_use = self.in_use().or(self.asking.as_ref());
        in_use.map(|o| o.signal.kind())
    }

    /// True if the signal in front of our data travels in a shim.
    #[inline]
    pub(in crate::connection) fn has_shim(&self) -> bool {
        self.signal().is_some_and(|signal| signal.shim_len() > 0)
    }

    /// Bytes of the longest shim of the signals in front of our datagrams, whatever is asked, on a
    /// path of IPv6 or of IPv4.
    pub(in crate::connection) fn longest_shim(&self, ipv6: bool) -> usize {
        let longest = self.all().map(|o| o.signal.longest(ipv6));
        longest.max().unwrap_or(0)
    }

    /// Bytes of our shim with this request; 0 without one.
    #[inline]
    pub(in crate::connection) fn shim_len(&self, request: &Request) -> usize {
        self.signal().map_or(0, |signal| signal.len_of(request))
    }

    /// Fills the room in front of a datagram.
    #[inline]
    pub(in crate::connection) fn fill(&self, request: &Request, shim: &mut [u8]) {
        if let Some(signal) = self.signal() {
            signal.fill(request, shim);
        }
    }

    /// Bytes of the shim of a question for a starting rate; 0: none can be asked.
    #[inline]
    pub(in crate::connection) fn question_len(&self) -> usize {
        self.asking.as_ref().map_or(0, |o| o.signal.shim_len())
    }

    /// Fills the room in front of a datagram with a question.
    pub(in crate::connection) fn fill_question(&self, request: &Request, shim: &mut [u8]) {
        if let Some(asking) = &self.asking {
            asking.signal.fill(request, shim);
        }
    }

    /// Packet `number` left with the signal or a question, in a datagram of `bytes`.
    #[inline]
    pub(in crate::connection) fn on_sent(&mut self, shim: ShimUse, number: u64, bytes: u64) {
        let outgoing = match shim {
            ShimUse::Question(_) => self.asking.as_mut(),
            ShimUse::Nothing | ShimUse::Request(_) => {
                self.used.and_then(|used| self.outgoing.get_mut(used))
            }
        };
        if let Some(outgoing) = outgoing {
            outgoing.returned.on_sent(number, bytes);
        }
    }

    fn counting(&mut self, kind: u8) -> Option<&mut Incoming> {
        if let Some(i) = self.incoming.iter().position(|m| m.signal.kind() == kind) {
            return self.incoming.get_mut(i);
        }
        let signal = self.own.iter().find(|s| s.kind() == kind)?;
        self.incoming.push(Incoming {
            counting: Counting::new(&**signal),
            signal: Arc::clone(signal),
        });
        self.incoming.last_mut()
    }

    /// The meaning by RFC 3168 of the ECN field of a packet that arrived: none where the peer's
    /// packets may have the code of a signal in it.
    pub(in crate::connection) fn mark(&self, ecn: Ecn) -> Ecn {
        let is_code = |incoming: &Incoming| incoming.signal.shim_len() == 0;
        match self.incoming.iter().any(is_code) {
            true => Ecn::NotEct,
            false => ecn,
        }
    }

    /// A 1-RTT packet with something ack-eliciting opened for the first time, first of its
    /// datagram, on the current path. True if a shim counted.
    #[inline]
    pub(in crate::connection) fn on_packet(
        &mut self,
        prefix: ShimPrefix<'_>,
        arrived: Arrived<'_>,
    ) -> bool {
        for incoming in &mut self.incoming {
            // A shim that is not believed still was a packet with a signal.
            let shimless = incoming.signal.shim_len() == 0;
            if shimless || matches!(prefix, ShimPrefix::Bad) {
                incoming.counting.on_packet(&arrived);
            }
        }
        self.count_shim(prefix, arrived)
    }

    #[inline]
    fn count_shim(&mut self, prefix: ShimPrefix<'_>, arrived: Arrived<'_>) -> bool {
        let ShimPrefix::Shim { kind, bytes } = prefix else {
            return false;
        };
        let Some(incoming) = self.counting(kind) else {
            return false;
        };
        let shim = Some(bytes);
        incoming.counting.on_packet(&Arrived { shim, ..arrived });
        true
    }

    /// True if the shim in front of a datagram is a question of a kind that this side reads.
    pub(in crate::connection) fn is_question(&self, prefix: ShimPrefix<'_>) -> bool {
        let ShimPrefix::Shim { kind, .. } = prefix else {
            return false;
        };
        self.own.iter().any(|s| s.kind() == kind && s.asks_once())
    }

    /// The same as [`on_packet`](Self::on_packet) for a packet of early data: a question in front
    /// of it counts, and nothing else does.
    pub(in crate::connection) fn on_early_packet(
        &mut self,
        prefix: ShimPrefix<'_>,
        arrived: Arrived<'_>,
    ) -> bool {
        let named = matches!(prefix, ShimPrefix::Shim { kind, .. } if self.peer.contains(&kind));
        named && self.is_question(prefix) && self.count_shim(prefix, arrived)
    }

    /// Writes FEEDBACK frames for counters that moved, as far as they fit.
    #[inline]
    pub(in crate::connection) fn write_frames(&mut self, now: Instant, w: &mut Writer<'_>) {
        let micros = now.as_nanos() / 1000 % u64::from(feedback::TIME_MODULUS);
        let time = u32::try_from(micros).unwrap_or(0);
        for incoming in &mut self.incoming {
            if let Some((epoch, counters)) = incoming.counting.poll()
                && feedback::encode(w, incoming.signal.kind(), epoch, time, &counters).is_ok()
            {
                incoming.counting.on_sent(counters);
            }
        }
    }

    /// A FEEDBACK frame arrived in packet `number`; what it adds, if it is newer than all before.
    pub(in crate::connection) fn on_frame(
        &mut self,
        number: u64,
        frame: &Frame<'_>,
    ) -> Option<Difference> {
        let of_kind = |outgoing: &&mut Outgoing| outgoing.signal.kind() == frame.kind;
        let Outgoing { signal, returned } = self.all_mut().find(of_kind)?;
        returned.on_frame(number, frame.epoch, &frame.counters(), &**signal)
    }

    /// The epoch in which the peer counts, by its last FEEDBACK frame.
    #[cfg(test)]
    pub(in crate::connection) fn epoch(&self) -> Option<u64> {
        self.in_use()?.returned.epoch()
    }

    /// FEEDBACK frames that were not believed.
    pub(in crate::connection) fn disbelieved(&self) -> Disbelieved {
        self.all().fold(Disbelieved::default(), |sum, outgoing| {
            sum.plus(outgoing.returned.disbelieved())
        })
    }

    /// Our datagrams take another path from packet `next` on.
    pub(in crate::connection) fn on_new_outgoing_path(&mut self, next: u64) {
        for outgoing in self.all_mut() {
            outgoing.returned.on_path_change(next);
        }
    }

    /// A challenge of our path was sent: the peer's counters start again from 0.
    pub(in crate::connection) fn on_challenge_sent(&mut self) {
        for outgoing in self.all_mut() {
            outgoing.returned.on_challenge();
        }
    }

    /// The peer's datagrams take another path, as far as this side can see: counters start from 0.
    pub(in crate::connection) fn on_new_incoming_path(&mut self) {
        for incoming in &mut self.incoming {
            incoming.counting = Counting::new(&*incoming.signal);
        }
    }
}
