//! Explicit feedback on one connection: the signals in front of our datagrams and the peer's, and
//! the counters that are returned for each.
//!
//! ```text
//!   outgoing   request ──fill──► shim ─ ─ ─ routers ─ ─ ─► peer's meter
//!              controller ◄──difference── FEEDBACK ◄───────────┘
//!   incoming   shim ──► our meter ──counters──► FEEDBACK ──► peer
//! ```

use std::sync::Arc;

use pathmark_cc::{Explicit, Feedback as Difference, Request};
use pathmark_shim::Framed;
use pathmark_shim::frame::declared_len;

use crate::path::{Counting, Disbelieved, Returned};
use crate::wire::Writer;
use crate::wire::frame::{Feedback as Frame, feedback};
use crate::{Arrived, Ecn, Instant, Signal};

/// A signal in front of our data, and the counters that the peer returned for it.
#[derive(Debug)]
struct Outgoing {
    signal: Arc<dyn Signal>,
    returned: Returned,
}

impl Outgoing {
    /// Creates the state of a signal that is in front of our data from packet `next` on.
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

/// Feedback in both directions.
#[derive(Debug, Default)]
pub(in crate::connection) struct Feedback {
    own: Vec<Arc<dyn Signal>>,
    /// Kinds that the peer reads and fills.
    peer: Vec<u8>,
    /// Signals that are or were in front of our data. Former signals are kept because the peer
    /// continues its counts when a signal is used again.
    outgoing: Vec<Outgoing>,
    /// Index of the signal in use. If it is `None`, only questions are put in front of our data.
    used: Option<usize>,
    /// The signal that asks for a starting rate.
    asking: Option<Outgoing>,
    /// One for each of our kinds that the peer uses.
    incoming: Vec<Incoming>,
}

impl Feedback {
    pub(in crate::connection) fn new(own: &[Arc<dyn Signal>]) -> Self {
        Self {
            own: own.to_vec(),
            ..Self::default()
        }
    }

    /// Returns true if this side offered to read any signals. It then accepts shims even before it
    /// has read the peer's offer.
    pub(in crate::connection) fn offered(&self) -> bool {
        !self.own.is_empty()
    }

    /// Selects the signals after the peer offered to read and fill `kinds`. The first of ours among
    /// them is used in front of our data, and the first that asks once is used for questions. If
    /// the signal that this side prefers asks once, there's none in front of other data. Signals
    /// that the peer may send without a shim, in the ECN field, are metered from now on.
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
        // A signal that has already asked continues its counts.
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

    /// Client: prepares the question for early data, because the peer advertised `kinds` the last
    /// time. `None` means that early data was refused, so nothing sent with it counts.
    pub(in crate::connection) fn remember(&mut self, kinds: Option<&[u8]>) {
        let kinds = kinds.unwrap_or(&[]);
        let asks = |s: &&Arc<dyn Signal>| s.asks_once() && kinds.contains(&s.kind());
        self.asking = self.own.iter().find(asks).map(|signal| Outgoing {
            signal: Arc::clone(signal),
            returned: Returned::new(),
        });
    }

    /// Puts `signal` in front of our data from packet `next` on, or only in front of questions if
    /// it asks once. Returns false, without changing anything, unless both sides offered its kind.
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

    /// Puts a signal for `wanted` in front of our data from packet `next` on, if both sides offered
    /// one.
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

    /// Returns the signal in use.
    fn in_use(&self) -> Option<&Outgoing> {
        self.outgoing.get(self.used?)
    }

    /// Returns all signals that were in front of our data, and the one for questions.
    fn all(&self) -> impl Iterator<Item = &Outgoing> {
        self.outgoing.iter().chain(&self.asking)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Outgoing> {
        self.outgoing.iter_mut().chain(&mut self.asking)
    }

    /// Returns the signal in front of our data.
    pub(in crate::connection) fn signal(&self) -> Option<&dyn Signal> {
        self.in_use().map(|o| &*o.signal)
    }

    /// Returns the kind of the signal in front of our data or, if there's none, of the signal that
    /// asks for a starting rate.
    pub(in crate::connection) fn kind(&self) -> Option<u8> {
        let in_use = self.in_use().or(self.asking.as_ref());
        in_use.map(|o| o.signal.kind())
    }

    /// Returns true if the signal in front of our data has a shim.
    pub(in crate::connection) fn has_shim(&self) -> bool {
        self.signal().is_some_and(|signal| signal.shim_len() > 0)
    }

    /// Returns the size of the longest shim that any request may need, in bytes, on a path of IPv6
    /// or IPv4.
    pub(in crate::connection) fn longest_shim(&self, ipv6: bool) -> usize {
        let longest = self.all().map(|o| o.signal.longest(ipv6));
        longest.max().unwrap_or(0)
    }

    /// Returns the size of our shim with this request, in bytes, or 0 without a signal.
    pub(in crate::connection) fn shim_len(&self, request: &Request) -> usize {
        self.signal().map_or(0, |signal| signal.len_of(request))
    }

    /// Writes the shim in front of a datagram.
    pub(in crate::connection) fn fill(&self, request: &Request, shim: &mut [u8]) {
        if let Some(signal) = self.signal() {
            signal.fill(request, shim);
        }
    }

    /// Returns the size of the shim that asks for a starting rate, in bytes, or 0 if this isn't
    /// possible.
    pub(in crate::connection) fn question_len(&self) -> usize {
        self.asking.as_ref().map_or(0, |o| o.signal.shim_len())
    }

    /// Writes the shim of a question in front of a datagram.
    pub(in crate::connection) fn fill_question(&self, request: &Request, shim: &mut [u8]) {
        if let Some(asking) = &self.asking {
            asking.signal.fill(request, shim);
        }
    }

    /// Records that packet `number` was sent with the signal or a question, in a datagram of
    /// `bytes`.
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

    /// Returns the meaning of an arriving packet's ECN field according to RFC 3168. There's none if
    /// the peer's packets may carry the code of a signal in this field.
    pub(in crate::connection) fn mark(&self, ecn: Ecn) -> Ecn {
        let is_code = |incoming: &Incoming| incoming.signal.shim_len() == 0;
        if self.incoming.iter().any(is_code) {
            Ecn::NotEct
        } else {
            ecn
        }
    }

    /// Counts an ack-eliciting 1-RTT packet that was decrypted for the first time, on the current
    /// path and as the first of its datagram. Returns true if a shim was counted.
    pub(in crate::connection) fn on_packet(
        &mut self,
        prefix: ShimPrefix<'_>,
        arrived: Arrived<'_>,
    ) -> bool {
        for incoming in &mut self.incoming {
            // A packet with an invalid shim still is a packet with a signal.
            let shimless = incoming.signal.shim_len() == 0;
            if shimless || matches!(prefix, ShimPrefix::Bad) {
                incoming.counting.on_packet(&arrived);
            }
        }
        self.count_shim(prefix, arrived)
    }

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

    /// Returns true if the shim in front of a datagram is a question of a kind that this side
    /// reads.
    pub(in crate::connection) fn is_question(&self, prefix: ShimPrefix<'_>) -> bool {
        let ShimPrefix::Shim { kind, .. } = prefix else {
            return false;
        };
        self.own.iter().any(|s| s.kind() == kind && s.asks_once())
    }

    /// Like [`on_packet`](Self::on_packet), but for a packet of early data, whose shim only
    /// counts if it is a question.
    pub(in crate::connection) fn on_early_packet(
        &mut self,
        prefix: ShimPrefix<'_>,
        arrived: Arrived<'_>,
    ) -> bool {
        let named = matches!(prefix, ShimPrefix::Shim { kind, .. } if self.peer.contains(&kind));
        named && self.is_question(prefix) && self.count_shim(prefix, arrived)
    }

    /// Writes FEEDBACK frames for counters that changed, as far as they fit.
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

    /// Processes a FEEDBACK frame in packet `number`. Returns the difference from the previous
    /// frame if this one is newer than all before.
    pub(in crate::connection) fn on_frame(
        &mut self,
        number: u64,
        frame: &Frame<'_>,
    ) -> Option<Difference> {
        let of_kind = |outgoing: &&mut Outgoing| outgoing.signal.kind() == frame.kind;
        let Outgoing { signal, returned } = self.all_mut().find(of_kind)?;
        returned.on_frame(number, frame.epoch, &frame.counters(), &**signal)
    }

    /// Returns the epoch in which the peer counts, according to its last FEEDBACK frame.
    #[cfg(test)]
    pub(in crate::connection) fn epoch(&self) -> Option<u64> {
        self.in_use()?.returned.epoch()
    }

    /// Returns the number of rejected FEEDBACK frames.
    pub(in crate::connection) fn disbelieved(&self) -> Disbelieved {
        self.all().fold(Disbelieved::default(), |sum, outgoing| {
            sum.plus(outgoing.returned.disbelieved())
        })
    }

    /// Starts new counts from packet `next` on, because our datagrams take another path.
    pub(in crate::connection) fn on_new_outgoing_path(&mut self, next: u64) {
        for outgoing in self.all_mut() {
            outgoing.returned.on_path_change(next);
        }
    }

    /// Expects the peer's counters to restart at 0, because a challenge of our path was sent.
    pub(in crate::connection) fn on_challenge_sent(&mut self) {
        for outgoing in self.all_mut() {
            outgoing.returned.on_challenge();
        }
    }

    /// Restarts the counters for the peer at 0, because its datagrams take another path as far as
    /// this side can see.
    pub(in crate::connection) fn on_new_incoming_path(&mut self) {
        for incoming in &mut self.incoming {
            incoming.counting = Counting::new(&*incoming.signal);
        }
    }
}

/// The bytes in front of the packets of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum ShimPrefix<'a> {
    /// No shim.
    Plain,
    /// A valid shim.
    Shim { kind: u8, bytes: &'a [u8] },
    /// A shim whose check failed.
    Bad,
}

/// Removes a shim. Even if its check failed, the bytes behind it are a packet and can be read.
pub(in crate::connection) fn strip(datagram: &mut [u8]) -> (ShimPrefix<'_>, &mut [u8]) {
    let Ok(len) = declared_len(datagram) else {
        return (ShimPrefix::Plain, datagram);
    };
    let (shim, rest) = datagram.split_at_mut(len);
    let prefix = match Framed::parse(shim) {
        Ok(framed) => ShimPrefix::Shim {
            kind: framed.kind().number(),
            bytes: framed.bytes(),
        },
        Err(_) => ShimPrefix::Bad,
    };
    (prefix, rest)
}

/// The shim in front of one of our datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) enum ShimUse {
    /// No shim, or a signal in the ECN field.
    #[default]
    Nothing,
    /// The controller's request, with the shim's size in bytes.
    Request(usize),
    /// The controller's question for a starting rate, with the shim's size in bytes.
    Question(usize),
}

impl ShimUse {
    /// Returns the size of the shim, in bytes.
    pub(in crate::connection) const fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Request(len) | Self::Question(len) => len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_shim_is_left_where_it_is() {
        for bytes in [&[][..], &[0x40; 20], &[0xc0; 1200]] {
            let mut datagram = bytes.to_vec();
            let (prefix, rest) = strip(&mut datagram);
            assert!(matches!(prefix, ShimPrefix::Plain), "{prefix:?}");
            assert_eq!(rest, bytes);
        }
    }

    #[test]
    fn uses_have_lengths() {
        let uses = [
            ShimUse::Nothing,
            ShimUse::Request(20),
            ShimUse::Question(12),
        ];
        assert_eq!(uses.map(ShimUse::len), [0, 20, 12]);
    }
}
