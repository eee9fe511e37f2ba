//! Datagrams of several flows that wait to be sent. Each flow has its own queue. The queues
//! take turns by bytes and weight, and short queues go first (RFC 8290 §4).

use core::num::NonZeroU8;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::delay::{Delay, INTERVAL, Response, Verdict};
use super::{OVERHEAD, QueueCounters, add};
use crate::wire::frame::datagram_len;
use crate::wire::{Frame, Writer};
use crate::{Duration, Ecn, Instant};

/// Bytes of frames per turn: about a packet.
const QUANTUM: i64 = 1500;

/// Capacity that an idle flow keeps.
const FEW: usize = 4;

/// A datagram of a flow, which contains a packet of an application.
#[derive(Clone, Debug)]
pub struct FlowDatagram {
    /// The contents.
    pub data: Bytes,
    /// The ECN field of the packet.
    pub ecn: Ecn,
    /// Position of the byte of `data` that contains the ECN field, and its value for CE.
    /// `None`: the datagram can't be marked, so it is dropped instead.
    pub ce: Option<(usize, u8)>,
}

#[derive(Debug)]
struct Waiting {
    datagram: FlowDatagram,
    since: Instant,
}

#[derive(Debug)]
struct Flow {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Bytes left in its turn.
    deficit: i64,
    is_listed: bool,
    weight: NonZeroU8,
    delay: Delay,
    /// When its last datagram was sent.
    sent: Instant,
    /// The fate of the first datagram, once decided.
    judged: Option<Verdict>,
    counters: Arc<QueueCounters>,
    is_open: bool,
}

impl Flow {
    fn weight(&self) -> usize {
        self.weight.get().into()
    }

    /// Returns its weight if it has something to send, and 0 otherwise.
    fn busy(&self) -> usize {
        if self.waiting.is_empty() {
            0
        } else {
            self.weight()
        }
    }

    fn judge(&mut self, now: Instant, interval: Duration) -> Verdict {
        let Some(first) = self.waiting.front() else {
            return Verdict::Pass;
        };
        let response = match (first.datagram.ecn, first.datagram.ce) {
            (Ecn::NotEct, _) | (_, None) => Response::Loss,
            (Ecn::Ect1, _) => Response::Scalable,
            (Ecn::Ect0 | Ecn::Ce, _) => Response::Classic,
        };
        let wait = (now.saturating_since(first.since), self.waiting.len() == 1);
        self.delay.judge(now, wait, response, interval)
    }
}

impl FlowDatagram {
    fn mark(&mut self) {
        let data = core::mem::take(&mut self.data);
        let mut data = Vec::from(data);
        if let Some((at, ce)) = self.ce
            && let Some(byte) = data.get_mut(at)
        {
            *byte = ce;
        }
        self.data = data.into();
    }
}

#[derive(Debug)]
pub(crate) struct Flows {
    flows: FxHashMap<u64, Flow>,
    next_id: u64,
    /// Flows that had nothing to send recently, which go first, and all other active flows.
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    busy: usize,
    /// Memory of all flows.
    bytes: usize,
    interval: Duration,
    /// Upper bound of the lengths of waiting datagrams.
    longest: usize,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            flows: FxHashMap::default(),
            next_id: 0,
            new: VecDeque::new(),
            old: VecDeque::new(),
            busy: 0,
            bytes: 0,
            interval: INTERVAL,
            longest: 0,
        }
    }
}

impl Flows {
    /// Opens a flow, and returns its number.
    pub(crate) fn open(&mut self, counters: Arc<QueueCounters>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let flow = Flow {
            waiting: VecDeque::new(),
            bytes: 0,
            deficit: 0,
            is_listed: false,
            weight: NonZeroU8::MIN,
            delay: Delay::default(),
            sent: Instant::ZERO,
            judged: None,
            counters,
            is_open: true,
        };
        self.flows.insert(id, flow);
        id
    }

    /// Closes a flow. Its waiting datagrams are still sent.
    pub(crate) fn close(&mut self, id: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.is_open = false;
            if flow.waiting.is_empty() {
                self.flows.remove(&id);
            }
        }
    }

    /// Sets the number of quanta per turn of a flow.
    pub(crate) fn set_weight(&mut self, id: u64, weight: NonZeroU8) {
        if let Some(flow) = self.flows.get_mut(&id) {
            self.busy -= flow.busy();
            flow.weight = weight;
            self.busy += flow.busy();
        }
    }

    /// Returns the sum of the weights of flows that have something to send.
    pub(crate) const fn busy(&self) -> usize {
        self.busy
    }

    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.interval = rtt.max(INTERVAL);
    }

    /// Queues a datagram. Returns how many were dropped to keep all flows within `limit` bytes.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        id: u64,
        datagram: FlowDatagram,
        limit: usize,
    ) -> u64 {
        let Some(flow) = self.flows.get_mut(&id) else {
            return 1;
        };
        self.longest = self.longest.max(datagram.data.len());
        let bytes = datagram.data.len() + OVERHEAD;
        self.busy -= flow.busy();
        flow.bytes += bytes;
        self.bytes += bytes;
        flow.waiting.push_back(Waiting {
            datagram,
            since: now,
        });
        self.busy += flow.busy();
        if !flow.is_listed {
            flow.is_listed = true;
            flow.deficit = QUANTUM;
            self.new.push_back(id);
        }
        let mut dropped = 0;
        while self.bytes > limit && self.make_room(id, limit) {
            dropped += 1;
        }
        dropped
    }

    /// Drops the oldest datagram of a flow that exceeds its share, preferably of `pushed`.
    fn make_room(&mut self, pushed: u64, limit: usize) -> bool {
        let share = limit / self.busy.max(1);
        let takes_more = |id: &u64| {
            let flow = self.flows.get(id);
            flow.is_some_and(|flow| flow.bytes > share * flow.weight())
        };
        let victim = if takes_more(&pushed) {
            Some(pushed)
        } else {
            self.new.iter().chain(&self.old).copied().find(takes_more)
        };
        victim.is_some_and(|id| self.drop_first(id))
    }

    fn drop_first(&mut self, id: u64) -> bool {
        let counters = self.take(id);
        if let Some(counters) = counters {
            add(&counters.dropped, 1);
        }
        counters.is_some()
    }

    fn take(&mut self, id: u64) -> Option<&QueueCounters> {
        let flow = self.flows.get_mut(&id)?;
        self.busy -= flow.busy();
        let first = flow.waiting.pop_front()?;
        self.busy += flow.busy();
        let bytes = first.datagram.data.len() + OVERHEAD;
        flow.bytes -= bytes;
        flow.judged = None;
        self.bytes -= bytes;
        Some(&flow.counters)
    }

    /// Returns the flow whose turn it is and whose first datagram should be sent. The number of
    /// datagrams dropped before is added to `dropped`. The last datagram of a flow is never
    /// dropped.
    fn turn(&mut self, now: Instant, dropped: &mut u64) -> Option<u64> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let id = *list.front()?;
            let Some(flow) = self.flows.get_mut(&id) else {
                list.pop_front();
                continue;
            };
            if flow.waiting.is_empty() {
                list.pop_front();
                // Other flows have a turn before this one counts as new again.
                if is_new {
                    self.old.push_back(id);
                } else if flow.is_open {
                    flow.is_listed = false;
                    flow.waiting.shrink_to(FEW);
                } else {
                    self.flows.remove(&id);
                }
                continue;
            }
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM * i64::from(flow.weight.get());
                list.pop_front();
                self.old.push_back(id);
                continue;
            }
            if flow.judged.is_some() {
                return Some(id);
            }
            let verdict = flow.judge(now, self.interval);
            if verdict == Verdict::Drop {
                *dropped += 1;
                self.drop_first(id);
                continue;
            }
            if verdict == Verdict::Mark
                && let Some(first) = flow.waiting.front_mut()
            {
                first.datagram.mark();
            }
            flow.judged = Some(verdict);
            return Some(id);
        }
    }

    /// Writes frames as long as they fit. Returns the number of frames written and of datagrams
    /// dropped.
    pub(crate) fn write(&mut self, now: Instant, w: &mut Writer<'_>) -> (u64, u64) {
        let (mut sent, mut dropped) = (0, 0);
        while let Some(id) = self.turn(now, &mut dropped) {
            let Some(flow) = self.flows.get_mut(&id) else {
                break;
            };
            let Some(first) = flow.waiting.front() else {
                break;
            };
            let data = &first.datagram.data;
            let length = datagram_len(data.len());
            if length > w.remaining() || Frame::Datagram(data).encode(w).is_err() {
                break;
            }
            flow.deficit -= i64::try_from(length).unwrap_or(i64::MAX);
            let is_marked = flow.judged == Some(Verdict::Mark);
            let waited = now.saturating_since(first.since);
            let busy = now.saturating_since(first.since.max(flow.sent));
            flow.sent = now;
            flow.counters.on_sent(waited, busy, is_marked);
            self.take(id);
            sent += 1;
        }
        (sent, dropped)
    }

    /// Drops datagrams longer than `most`, because the path can't carry them. Returns their
    /// number.
    pub(crate) fn drop_longer_than(&mut self, most: usize) -> u64 {
        if self.longest <= most {
            return 0;
        }
        self.longest = most;
        self.retain(|datagram| datagram.data.len() <= most)
    }

    /// Drops all waiting datagrams, and returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        self.retain(|_| false)
    }

    fn retain(&mut self, keep: impl Fn(&FlowDatagram) -> bool) -> u64 {
        let mut dropped = 0;
        (self.busy, self.bytes) = (0, 0);
        for flow in self.flows.values_mut() {
            let before = flow.waiting.len();
            flow.waiting.retain(|waiting| keep(&waiting.datagram));
            let gone = (before - flow.waiting.len()) as u64;
            add(&flow.counters.dropped, gone);
            dropped += gone;
            flow.judged = flow.judged.filter(|_| gone == 0);
            flow.waiting.shrink_to(FEW);
            let bytes = flow
                .waiting
                .iter()
                .map(|w| w.datagram.data.len() + OVERHEAD);
            flow.bytes = bytes.sum();
            self.bytes += flow.bytes;
            self.busy += flow.busy();
        }
        dropped
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of flows and the total capacity of their queues.
    #[cfg(test)]
    pub(crate) fn room(&self) -> (usize, usize) {
        let room = self.flows.values().map(|flow| flow.waiting.capacity());
        (self.flows.len(), room.sum())
    }
}
