//! A flow: a sender with a real controller, a receiver with VCP's counters.

use std::collections::VecDeque;

use pathmark_cc::{
    Acked, Algorithm, Carrier, Controller, Duration, Explicit, Feedback, Instant, Limit, Limits,
    Lost, PacketState, Sent, VcpCarried, VcpCode, VcpFeedback, XcpCarried, XcpFeedback,
};

use super::hop::{Packet, Shim, XcpShim};
use super::{APP_BYTES, IP_BYTES, MTU, Random};

/// The receiver waits for a second packet for so long.
const ACK_DELAY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct FlowConfig {
    pub(crate) algorithm: &'static str,
    pub(crate) start: Duration,
    pub(crate) rtt: Duration,
    /// Application bytes; `None`: without end.
    pub(crate) bytes: Option<u64>,
    /// A packet each time so long, whatever comes back (UDP).
    pub(crate) constant: Option<Duration>,
    /// IP bytes of a full packet.
    pub(crate) packet: u32,
    /// Bytes in flight that the peer's flow control allows.
    pub(crate) peer_window: u64,
    /// How the sender lies, for XCP.
    pub(crate) lie: Lie,
    /// Its packets carry forged XCP headers.
    pub(crate) forged: Option<Forged>,
}

/// What forged headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forged {
    /// Anything, over all orders of magnitude.
    Random,
    /// This.
    As(XcpCarried),
}

/// How a sender lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    No,
    /// It does not hear what is taken.
    Deaf,
    /// It sends so many times what it states.
    Times(u64),
}

impl FlowConfig {
    pub(crate) fn new(algorithm: &'static str, rtt_ms: u64) -> Self {
        Self {
            algorithm,
            start: Duration::ZERO,
            rtt: Duration::from_millis(rtt_ms),
            bytes: None,
            constant: None,
            packet: IP_BYTES,
            peer_window: u64::MAX,
            lie: Lie::No,
            forged: None,
        }
    }

    /// Forged headers at a constant rate in Mbit/s.
    pub(crate) fn garbage(mbit: f64) -> Self {
        Self {
            forged: Some(Forged::Random),
            ..Self::udp(mbit, 100)
        }
    }

    /// A packet of 84 bytes with this header every `gap`.
    pub(crate) fn forged(header: XcpCarried, gap: Duration) -> Self {
        Self {
            forged: Some(Forged::As(header)),
            constant: Some(gap),
            packet: 84,
            ..Self::new("newreno", 0)
        }
    }

    pub(crate) fn peer_window(self, bytes: u64) -> Self {
        Self {
            peer_window: bytes,
            ..self
        }
    }

    pub(crate) fn lie(self, lie: Lie) -> Self {
        Self { lie, ..self }
    }

    pub(crate) fn bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// A round trip in other units than milliseconds.
    pub(crate) fn rtt(self, rtt: Duration) -> Self {
        Self { rtt, ..self }
    }

    pub(crate) fn start(self, start: Duration) -> Self {
        Self { start, ..self }
    }

    pub(crate) fn packet(self, packet: u32) -> Self {
        Self { packet, ..self }
    }

    /// UDP at a constant rate in Mbit/s.
    pub(crate) fn udp(mbit: f64, rtt_ms: u64) -> Self {
        Self {
            constant: Some(Duration::from_nanos(
                (f64::from(IP_BYTES) * 8_000.0 / mbit) as u64,
            )),
            ..Self::new("newreno", rtt_ms)
        }
    }

    pub(crate) fn start_at(&self) -> Instant {
        Instant::ZERO + self.start
    }
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    number: u64,
    sent_at: Instant,
    bytes: u64,
    state: PacketState,
    acked: bool,
}

/// What an ACK packet says: ranges as a list of newly arrived numbers, and the counters.
#[derive(Debug)]
pub(crate) struct Ack {
    arrived: Vec<u64>,
    counters: VcpFeedback,
    xcp: XcpFeedback,
    order: u64,
}

#[derive(Debug, Default)]
struct Receiver {
    pending: Vec<u64>,
    counters: VcpFeedback,
    xcp: XcpFeedback,
    acks: u64,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Flow {
    index: usize,
    config: FlowConfig,
    controller: Box<dyn Controller>,
    carries: bool,
    carries_xcp: bool,
    /// The code travels in the IP ECN field: no hop count, interval or flags.
    ecn: bool,
    mtu: u64,
    app_bytes: u64,
    to_send: u64,
    next_number: u64,
    outstanding: VecDeque<Outstanding>,
    in_flight: u64,
    srtt: Option<Duration>,
    rttvar: Duration,
    min_rtt: Duration,
    next_send: Instant,
    wake: u64,
    window_limited: bool,
    app_limited: bool,
    last_counters: VcpFeedback,
    last_xcp: XcpFeedback,
    last_order: u64,
    last_ack: Instant,
    probe_armed: u64,
    probe_backoff: u32,
    receiver: Receiver,
    completed: Option<Duration>,
    started: bool,
    pub(crate) lost: u64,
    pub(crate) delivered_slots: Vec<u64>,
}

impl Flow {
    pub(crate) fn new(index: usize, config: &FlowConfig) -> Self {
        let algorithm = Algorithm::parse(config.algorithm).expect("a known algorithm");
        let mtu = MTU - (IP_BYTES - config.packet) as u16;
        let less = u64::from(IP_BYTES - config.packet);
        let app_bytes = APP_BYTES.saturating_sub(less).max(1);
        Self {
            index,
            carries: algorithm.carrier().is_some() && config.constant.is_none(),
            carries_xcp: matches!(algorithm.explicit(), Some(Explicit::Xcp(_)))
                && config.constant.is_none(),
            ecn: algorithm.carrier() == Some(Carrier::Ecn),
            controller: algorithm.controller(config.start_at() + config.rtt, mtu),
            mtu: u64::from(mtu),
            app_bytes,
            to_send: config
                .bytes
                .map_or(u64::MAX, |bytes| bytes.div_ceil(app_bytes)),
            config: config.clone(),
            next_number: 0,
            outstanding: VecDeque::new(),
            in_flight: 0,
            srtt: None,
            rttvar: Duration::ZERO,
            min_rtt: Duration::MAX,
            next_send: Instant::ZERO,
            wake: 0,
            window_limited: false,
            app_limited: false,
            last_counters: VcpFeedback::default(),
            last_xcp: XcpFeedback::default(),
            last_order: 0,
            last_ack: Instant::ZERO,
            probe_armed: 0,
            probe_backoff: 0,
            receiver: Receiver::default(),
            completed: None,
            started: false,
            lost: 0,
            delivered_slots: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.started = true;
        self.next_send = now;
        self.last_ack = now;
        // The handshake gave the first sample.
        self.srtt = Some(self.config.rtt);
        self.rttvar = self.config.rtt / 2;
        self.controller.on_handshake_rtt(now, self.config.rtt);
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.config.bytes.is_some()
    }

    pub(crate) fn completed(&self) -> Option<Duration> {
        self.completed
    }

    pub(crate) fn forward_delay(&self) -> Duration {
        self.config.rtt / 2
    }

    pub(crate) fn return_delay(&self) -> Duration {
        self.config.rtt - self.config.rtt / 2
    }

    // --- Sender
    // ---------------------------------------------------------------------------------------------

    /// Bytes that the pacer lets go at once after a pause.
    fn burst(&self, rate: u64) -> Duration {
        let bytes = (rate / 500).clamp(2 * self.mtu, 16 * self.mtu);
        Duration::from_nanos(bytes * 1_000_000_000 / rate.max(1))
    }

    pub(crate) fn poll_send(&mut self, now: Instant) -> Option<Packet> {
        if !self.started {
            return None;
        }
        if let Some(gap) = self.config.constant {
            if self.next_send > now {
                return None;
            }
            self.next_send += gap;
            return Some(self.packet(now));
        }
        if self.to_send == 0 {
            self.app_limited = true;
            return None;
        }
        if self.in_flight + self.mtu > self.config.peer_window {
            return None;
        }
        let times = match self.config.lie {
            Lie::Times(times) => times,
            Lie::No | Lie::Deaf => 1,
        };
        if self.in_flight + self.mtu > times * self.controller.window() {
            self.window_limited = true;
            return None;
        }
        if let Some(rate) = self.controller.pacing_rate().map(|rate| times * rate) {
            let earliest = now - self.burst(rate);
            if self.next_send < earliest {
                self.next_send = earliest;
            }
            if self.next_send > now {
                self.window_limited = true;
                return None;
            }
            self.next_send += Duration::from_nanos(self.mtu * 1_000_000_000 / rate.max(1));
        }
        self.to_send -= u64::from(self.to_send != u64::MAX);
        Some(self.packet(now))
    }

    fn packet(&mut self, now: Instant) -> Packet {
        let number = self.next_number;
        self.next_number += 1;
        if self.config.peer_window != u64::MAX {
            self.controller.on_limits(
                now,
                &Limits {
                    peer: self.config.peer_window,
                    ..Limits::NONE
                },
            );
        }
        let request = self.controller.request();
        if self.config.constant.is_none() {
            self.in_flight += self.mtu;
            let state = self.controller.on_sent(
                now,
                &Sent {
                    packet_number: number,
                    bytes: self.mtu,
                    in_flight: self.in_flight,
                    limit: Limit::Window,
                    signal: true,
                },
            );
            self.outstanding.push_back(Outstanding {
                number,
                sent_at: now,
                bytes: self.mtu,
                state,
                acked: false,
            });
        }
        Packet {
            flow: self.index,
            number,
            bytes: self.config.packet,
            shim: self.carries.then(|| Shim {
                carried: VcpCarried {
                    code: VcpCode::Low,
                    min_rtt: request.min_rtt.filter(|_| !self.ecn),
                    bise: request.bise && !self.ecn,
                    carries_r: !self.ecn,
                },
                ..Shim::default()
            }),
            xcp: match self.config.forged {
                Some(Forged::Random) => Some(forged(number)),
                Some(Forged::As(carried)) => Some(XcpShim {
                    carried,
                    stamped: false,
                }),
                None => self.carries_xcp.then(|| XcpShim {
                    carried: request
                        .xcp
                        .map_or_else(XcpCarried::default, |xcp| XcpCarried {
                            rtt_us: xcp.rtt_us,
                            x: xcp.x,
                            delta: xcp.delta,
                            covers: xcp.covers,
                            cloud: None,
                        }),
                    stamped: false,
                }),
            },
        }
    }

    pub(crate) fn wake_at(&mut self, now: Instant) -> Option<(Instant, u64)> {
        (self.started && self.next_send > now && self.to_send > 0).then(|| {
            self.wake += 1;
            (self.next_send, self.wake)
        })
    }

    pub(crate) fn is_current_wake(&self, generation: u64) -> bool {
        self.wake == generation
    }

    pub(crate) fn probe_at(&mut self, now: Instant) -> Option<(Instant, u64)> {
        if self.outstanding.is_empty() {
            return None;
        }
        self.probe_armed += 1;
        let srtt = self.srtt?;
        let timeout =
            (srtt + 4 * self.rttvar.max(Duration::from_millis(1)) + Duration::from_millis(25))
                * (1 << self.probe_backoff.min(6));
        Some((now + timeout, self.probe_armed))
    }

    pub(crate) fn on_probe_timer(&mut self, now: Instant, armed: u64) -> Option<Packet> {
        if armed != self.probe_armed || self.outstanding.is_empty() {
            return None;
        }
        self.probe_backoff += 1;
        self.controller.on_probe_timeout(now);
        Some(self.packet(now))
    }

    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack) {
        let in_flight_before = self.in_flight;
        let (mut bytes, mut packets, mut newest) = (0, 0, None::<Outstanding>);
        let mut fresh = false;
        for number in &ack.arrived {
            let at = self
                .outstanding
                .binary_search_by_key(number, |packet| packet.number);
            let Ok(at) = at else { continue };
            let packet = &mut self.outstanding[at];
            if packet.acked {
                continue;
            }
            packet.acked = true;
            bytes += packet.bytes;
            packets += 1;
            if newest.is_none_or(|newest| packet.number > newest.number) {
                newest = Some(*packet);
                fresh = true;
            }
        }
        let Some(newest) = newest else { return };
        self.in_flight -= bytes;
        self.last_ack = now;
        self.probe_backoff = 0;
        let rtt = now - newest.sent_at;
        if fresh {
            self.min_rtt = self.min_rtt.min(rtt);
            let srtt = self.srtt.unwrap_or(rtt);
            let off = srtt.abs_diff(rtt);
            self.rttvar = (3 * self.rttvar + off) / 4;
            self.srtt = Some((7 * srtt + rtt) / 8);
        }
        let srtt = self.srtt.unwrap_or(rtt);
        let acked = Acked {
            bytes,
            packets,
            largest: newest.number,
            sent_at: newest.sent_at,
            state: newest.state,
            rtt: Some(rtt),
            forward_delay: None,
            srtt,
            min_rtt: self.min_rtt,
            in_flight_before,
            window_limited: self.window_limited && !self.app_limited,
        };
        if self.carries && ack.order > self.last_order {
            self.last_order = ack.order;
            let feedback = difference(&self.last_counters, &ack.counters);
            self.last_counters = ack.counters;
            if feedback.packets != [0; 4] {
                self.controller
                    .on_feedback(now, &Feedback::Vcp(feedback), &acked);
            }
        }
        if self.carries_xcp && ack.order > self.last_order {
            self.last_order = ack.order;
            let mut feedback = xcp_difference(&self.last_xcp, &ack.xcp);
            self.last_xcp = ack.xcp;
            if self.config.lie == Lie::Deaf {
                feedback.delta = feedback.delta.max(0);
            }
            if feedback.packets > 0 {
                self.controller
                    .on_feedback(now, &Feedback::Xcp(feedback), &acked);
            }
        }
        self.window_limited = false;
        self.controller.on_ack(now, &acked);
        self.find_losses(now, newest.number, srtt);
    }

    fn find_losses(&mut self, now: Instant, largest: u64, srtt: Duration) {
        let in_flight_before = self.in_flight;
        let (mut bytes, mut packets, mut newest) = (0, 0, None);
        while let Some(first) = self.outstanding.front().copied() {
            if first.acked {
                self.outstanding.pop_front();
            } else if first.number + 3 <= largest {
                self.outstanding.pop_front();
                bytes += first.bytes;
                packets += 1;
                newest = Some(first);
            } else {
                break;
            }
        }
        let Some(newest) = newest else { return };
        self.in_flight -= bytes;
        self.lost += packets;
        if self.to_send != u64::MAX {
            self.to_send += packets;
            self.app_limited = false;
        }
        self.controller.on_loss(
            now,
            &Lost {
                bytes,
                packets,
                largest: newest.number,
                sent_at: newest.sent_at,
                state: newest.state,
                last_sent: self.next_number - 1,
                srtt,
                min_rtt: self.min_rtt,
                in_flight_before,
            },
        );
    }

    // --- Receiver
    // ---------------------------------------------------------------------------------------------

    /// Counts a packet; `Some` asks for an ACK timer.
    pub(crate) fn deliver(&mut self, now: Instant, packet: &Packet) -> Option<Duration> {
        let receiver = &mut self.receiver;
        receiver.bytes += self.app_bytes;
        let slot = (now.as_nanos() / 100_000_000) as usize;
        if self.delivered_slots.len() <= slot {
            self.delivered_slots.resize(slot + 1, 0);
        }
        self.delivered_slots[slot] += self.app_bytes;
        if self.completed.is_none() && self.config.bytes.is_some_and(|all| receiver.bytes >= all) {
            self.completed = Some(now - self.config.start_at());
        }
        if self.config.constant.is_some() {
            return None;
        }
        if let Some(shim) = packet.shim {
            let code = if shim.hops == 0 && !self.ecn {
                VcpCode::None
            } else {
                shim.carried.code
            };
            let counters = &mut receiver.counters;
            counters.packets[code as usize] += 1;
            counters.bytes[code as usize] += self.mtu;
            if self.ecn {
                counters.sum_r += u64::from(code == VcpCode::Low) << 16;
                receiver.pending.push(packet.number);
                return (receiver.pending.len() == 1).then_some(ACK_DELAY);
            }
            if code == VcpCode::Low {
                counters.sum_r += match shim.r {
                    None | Some(u16::MAX) => 65_536,
                    Some(r) => u64::from(r),
                };
            }
            counters.t_rho = shim.t_rho;
            counters.hops = shim.hops;
            counters.bise = shim.carried.bise;
            counters.carried_r = shim.r.is_some();
            counters.load_128 = shim.load_128;
        }
        if let Some(xcp) = packet.xcp
            && xcp.carried.covers > 0
        {
            let counters = &mut receiver.xcp;
            counters.packets += 1;
            counters.bytes += self.mtu;
            if xcp.stamped {
                counters.stamped += 1;
                counters.delta += xcp.carried.delta;
            }
        }
        receiver.pending.push(packet.number);
        (receiver.pending.len() == 1).then_some(ACK_DELAY)
    }

    /// The peer's flow control changes.
    pub(crate) fn set_peer_window(&mut self, bytes: u64) {
        self.config.peer_window = bytes;
    }

    pub(crate) fn acks_sent(&self) -> u64 {
        self.receiver.acks
    }

    pub(crate) fn make_ack(&mut self, _now: Instant, force: bool) -> Option<Box<Ack>> {
        let receiver = &mut self.receiver;
        let enough = receiver.pending.len() >= 2 || (force && !receiver.pending.is_empty());
        if !enough {
            return None;
        }
        receiver.acks += 1;
        Some(Box::new(Ack {
            arrived: std::mem::take(&mut receiver.pending),
            counters: receiver.counters,
            xcp: receiver.xcp,
            order: receiver.acks,
        }))
    }

    // --- Results
    // ---------------------------------------------------------------------------------------------

    /// Application bytes that arrived.
    pub(crate) fn delivered(&self) -> u64 {
        self.receiver.bytes
    }

    /// Mean goodput in Mbit/s from `from` to `to` seconds.
    pub(crate) fn goodput(&self, from: f64, to: f64) -> f64 {
        let (a, b) = ((from * 10.0) as usize, (to * 10.0) as usize);
        let b = b.min(self.delivered_slots.len());
        let bytes: u64 = self.delivered_slots[a.min(b)..b].iter().sum();
        bytes as f64 * 8.0 / 1e6 / (to - from)
    }

    /// Packets that arrived from `from` to `to` seconds.
    pub(crate) fn packets(&self, from: f64, to: f64) -> u64 {
        let bytes = self.goodput(from, to) * (to - from) * 125_000.0;
        (bytes / self.app_bytes as f64).round() as u64
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }
}

fn difference(older: &VcpFeedback, newer: &VcpFeedback) -> VcpFeedback {
    let mut feedback = *newer;
    for code in 0..4 {
        feedback.packets[code] -= older.packets[code];
        feedback.bytes[code] -= older.bytes[code];
    }
    feedback.sum_r -= older.sum_r;
    feedback
}

/// A header of random content, each field over all orders of magnitude.
fn forged(number: u64) -> XcpShim {
    let mut random = Random::new(number);
    let mut draw = |bits: u32| (random.next() | 1) >> (random.next() % u64::from(bits));
    XcpShim {
        carried: XcpCarried {
            rtt_us: (draw(32) >> 32) as u32,
            x: draw(64),
            delta: draw(64).cast_signed(),
            covers: (draw(16) >> 48) as u16,
            cloud: None,
        },
        stamped: false,
    }
}

fn xcp_difference(older: &XcpFeedback, newer: &XcpFeedback) -> XcpFeedback {
    XcpFeedback {
        delta: newer.delta - older.delta,
        packets: newer.packets - older.packets,
        stamped: newer.stamped - older.stamped,
        bytes: newer.bytes - older.bytes,
        ..*newer
    }
}
