//! A path for one flow: a queue in front of a link, a delay, and acknowledgements, which are sent
//! one by one or in batches.

use std::collections::{BTreeMap, VecDeque};

use crate::base::arith::scramble;
use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, Limit, Lost, PacketState, Sent};
use crate::standard::bbr::model::State;
use crate::standard::bbr::sender::Bbr;

pub(super) const MTU: u64 = 1500;
const SECOND: u64 = 1_000_000_000;
/// A packet is lost once this number of later packets has been acknowledged (RFC 9002 §6.1.1).
const REORDERING: u64 = 3;

#[derive(Debug)]
struct Flying {
    sent_at: u64,
    state: PacketState,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) bbr: Bbr,
    /// Bytes per second, and the round trip without a queue in nanoseconds.
    pub(super) rate: u64,
    pub(super) rtt: u64,
    /// Size of the queue in bytes.
    pub(super) buffer: u64,
    /// Packets that find this number of bytes in the queue are marked.
    pub(super) mark_from: u64,
    /// Random loss, in 10^-6.
    pub(super) loss_ppm: u64,
    /// Acknowledgements arrive at multiples of this number of nanoseconds.
    pub(super) batch: u64,
    /// Drops everything.
    pub(super) outage: bool,
    /// Nanoseconds between the application's writes, and packets per write. `None`: it always has
    /// data.
    pub(super) writes: Option<(u64, u64)>,
    /// Bytes delivered and packets dropped so far.
    pub(super) delivered: u64,
    pub(super) drops: u64,
    pub(super) now: u64,
    free_at: u64,
    next_send: u64,
    written: u64,
    next_write: u64,
    next_number: u64,
    flying: VecDeque<Option<Flying>>,
    first: u64,
    in_flight: u64,
    /// Marked or not, by arrival and number.
    acks: BTreeMap<(u64, u64), bool>,
    largest: u64,
    srtt: u64,
    least_rtt: u64,
    drawn: u64,
}

impl Run {
    /// `mbit` Mbit/s, a round trip in milliseconds, and a buffer of `buffer` packets.
    pub(super) fn new(mbit: u64, rtt_ms: u64, buffer: u64) -> Self {
        let rtt = rtt_ms * 1_000_000;
        let mut bbr = Bbr::new(Instant::ZERO, 1500, None);
        bbr.on_handshake_rtt(Instant::ZERO, Duration::from_nanos(rtt));
        Self {
            bbr,
            rate: mbit * 125_000,
            rtt,
            buffer: buffer * MTU,
            mark_from: u64::MAX,
            loss_ppm: 0,
            batch: 1,
            outage: false,
            writes: None,
            delivered: 0,
            drops: 0,
            now: 0,
            free_at: 0,
            next_send: 0,
            written: 0,
            next_write: 0,
            next_number: 0,
            flying: VecDeque::new(),
            first: 0,
            in_flight: 0,
            acks: BTreeMap::new(),
            largest: 0,
            srtt: rtt,
            least_rtt: u64::MAX,
            drawn: 7,
        }
    }

    /// 10 Mbit/s, 50 ms and a long queue, when `state` is reached after two seconds.
    pub(super) fn until(state: State) -> Self {
        let mut run = Self::new(10, 50, 1000);
        run.run(2_000, |_| ());
        while run.bbr.state != state {
            run.run(1, |_| ());
        }
        run
    }

    /// Bytes in the queue.
    pub(super) fn waiting(&self) -> u64 {
        self.free_at.saturating_sub(self.now) * self.rate / SECOND
    }

    /// Bytes per second delivered during the next `ms`.
    pub(super) fn goodput(&mut self, ms: u64) -> u64 {
        let before = self.delivered;
        self.run(ms, |_| ());
        (self.delivered - before) * 1000 / ms
    }

    /// Continues for `ms` milliseconds, and calls `look` after each acknowledgement.
    pub(super) fn run(&mut self, ms: u64, mut look: impl FnMut(&Self)) {
        let end = self.now + ms * 1_000_000;
        loop {
            if let Some((every, packets)) = self.writes {
                while self.next_write <= self.now {
                    self.next_write += every;
                    self.written += packets;
                }
            }
            let open = self.in_flight + MTU <= self.bbr.window();
            let has = self.writes.is_none() || self.written > 0;
            let ack = self.acks.first_key_value().map_or(u64::MAX, |(k, _)| k.0);
            let when = |possible: bool, at: u64| if possible { at } else { u64::MAX };
            let send = when(open && has, self.next_send.max(self.now));
            let write = when(self.writes.is_some(), self.next_write);
            let last = self.flying.iter().rev().flatten().next();
            let probe = last.map_or(u64::MAX, |p| p.sent_at + 3 * self.srtt);
            let next = ack.min(send).min(write).min(probe);
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            if next == ack {
                self.acknowledge();
                look(self);
            } else if next == send || next == probe {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        self.written = self.written.saturating_sub(1);
        self.in_flight += MTU;
        let limited = self.writes.is_some() && self.written == 0;
        let sent = Sent {
            packet_number: self.next_number,
            bytes: MTU,
            in_flight: self.in_flight,
            limit: [Limit::Window, Limit::Application][usize::from(limited)],
            signal: false,
        };
        let state = self.bbr.on_sent(Instant::from_nanos(self.now), &sent);
        self.flying.push_back(Some(Flying {
            sent_at: self.now,
            state,
        }));
        let pace = self.bbr.pacing_rate().unwrap();
        self.next_send = self.now.max(self.next_send) + MTU * SECOND / pace;
        let number = self.next_number;
        self.next_number += 1;
        let waiting = self.waiting();
        self.drawn = scramble(self.drawn.wrapping_add(1));
        let lost = self.outage || self.drawn % 1_000_000 < self.loss_ppm;
        if lost || waiting + MTU > self.buffer + MTU {
            self.drops += u64::from(!lost);
            return;
        }
        self.free_at = self.free_at.max(self.now) + MTU * SECOND / self.rate;
        let arrives = (self.free_at + self.rtt).next_multiple_of(self.batch);
        let marked = waiting >= self.mark_from;
        self.acks.insert((arrives, number), marked);
    }

    fn take(&mut self, number: u64) -> Option<Flying> {
        let at = number.checked_sub(self.first)?;
        self.flying.get_mut(at as usize)?.take()
    }

    fn acknowledge(&mut self) {
        let before = self.in_flight;
        let (mut packets, mut newest) = (0, None::<(u64, Flying)>);
        let mut any_marked = false;
        while let Some((&(at, number), &marked)) = self.acks.first_key_value() {
            if at > self.now {
                break;
            }
            self.acks.remove(&(at, number));
            self.delivered += MTU;
            let Some(packet) = self.take(number) else {
                continue;
            };
            packets += 1;
            any_marked |= marked;
            if newest.as_ref().is_none_or(|(n, _)| number > *n) {
                newest = Some((number, packet));
            }
        }
        let Some((largest, packet)) = newest else {
            return;
        };
        self.largest = self.largest.max(largest);
        self.in_flight -= packets * MTU;
        let rtt = self.now - packet.sent_at;
        self.least_rtt = self.least_rtt.min(rtt);
        self.srtt = (7 * self.srtt + rtt) / 8;
        let now = Instant::from_nanos(self.now);
        let acked = Acked {
            bytes: packets * MTU,
            packets,
            marked: 0,
            largest,
            sent_at: Instant::from_nanos(packet.sent_at),
            state: packet.state,
            rtt: Some(Duration::from_nanos(rtt)),
            forward_delay: None,
            srtt: Duration::from_nanos(self.srtt),
            min_rtt: Duration::from_nanos(self.least_rtt),
            in_flight_before: before,
            window_limited: true,
        };
        self.bbr.on_ack(now, &acked);
        if any_marked {
            let last = self.next_number - 1;
            self.bbr.on_congestion_experienced(now, acked.sent_at, last);
        }
        self.find_lost(now);
        while self.flying.front().is_some_and(Option::is_none) {
            self.flying.pop_front();
            self.first += 1;
        }
    }

    fn find_lost(&mut self, now: Instant) {
        let before = self.in_flight;
        let (mut lost, mut ranges) = (0, 0);
        let mut newest: Option<(u64, Flying)> = None;
        let mut oldest: Option<(u64, PacketState)> = None;
        for number in self.first..(self.largest + 1).saturating_sub(REORDERING) {
            // Packets on their way are late, not lost.
            if let Some(packet) = self.take(number) {
                lost += 1;
                let before = newest.as_ref().map(|(before, _)| *before);
                ranges += u64::from(before.is_none_or(|before| before + 1 < number));
                oldest = oldest.or(Some((packet.sent_at, packet.state)));
                newest = Some((number, packet));
            }
        }
        let Some((largest, packet)) = newest else {
            return;
        };
        self.in_flight -= lost * MTU;
        let news = Lost {
            bytes: lost * MTU,
            packets: lost,
            ranges,
            first_state: oldest.map_or(packet.state, |(_, state)| state),
            largest,
            sent_at: Instant::from_nanos(packet.sent_at),
            state: packet.state,
            last_sent: self.next_number - 1,
            srtt: Duration::from_nanos(self.srtt),
            min_rtt: Duration::from_nanos(self.least_rtt),
            in_flight_before: before,
        };
        self.bbr.on_loss(now, &news);
        if oldest.is_some_and(|(at, _)| packet.sent_at - at > 9 * self.srtt) {
            self.bbr.on_persistent_congestion(now);
        }
    }
}
