//! A flow's sender, with a real controller, and what came of the flow.

use std::collections::VecDeque;

use pathmark_cc::{
    Acked, Algorithm, Carrier, Controller, Duration, Explicit, Feedback, Instant, Limit, Limits,
    Lost, PacketState, Sent, VcpCarried, VcpCode, VcpFeedback, XcpCarried, XcpFeedback,
};

use super::config::{FlowConfig, Forged, Lie};
use super::hop::{Packet, Shim, XcpShim};
use super::receiver::{Ack, Receiver, difference, xcp_difference};
use super::{APP_BYTES, IP_BYTES, MTU, Random};

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    number: u64,
    sent_at: Instant,
    bytes: u64,
    state: PacketState,
    acked: bool,
}

#[derive(Debug)]
pub(crate) struct Flow {
    index: usize,
    pub(super) config: FlowConfig,
    controller: Box<dyn Controller>,
    carries: bool,
    carries_xcp: bool,
    /// The code travels in the IP ECN field: no hop count, interval or flags.
    pub(super) ecn: bool,
    pub(super) mtu: u64,
    pub(super) app_bytes: u64,
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
    pub(super) receiver: Receiver,
    pub(super) completed: Option<Duration>,
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

    // Sender.

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
        // RFC 9002 §5.3: the delay of the acknowledgement is taken off, down to the least RTT.
        let latest = now - newest.sent_at;
        let rtt = latest
            .saturating_sub(ack.held)
            .max(self.min_rtt.min(latest));
        if fresh {
            self.min_rtt = self.min_rtt.min(latest);
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
        let (mut bytes, mut packets, mut ranges) = (0, 0, 0);
        let mut newest: Option<Outstanding> = None;
        let mut first_state = None;
        while let Some(first) = self.outstanding.front().copied() {
            if first.acked {
                self.outstanding.pop_front();
            } else if first.number + 3 <= largest {
                self.outstanding.pop_front();
                bytes += first.bytes;
                packets += 1;
                ranges += u64::from(newest.is_none_or(|last| last.number + 1 < first.number));
                first_state.get_or_insert(first.state);
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
                ranges,
                first_state: first_state.unwrap_or(newest.state),
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

    /// The peer's flow control changes.
    pub(crate) fn set_peer_window(&mut self, bytes: u64) {
        self.config.peer_window = bytes;
    }

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
