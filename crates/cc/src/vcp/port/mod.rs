//! VCP's law for an output port of a router.

mod interval;
mod shares;
mod xcp_flows;

#[cfg(test)]
mod tests;

use super::load::{LinkRule, Load, LoadMeter, Mark};
use super::params::VcpLinkParams;
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{PPM, micros, mul_div, nanos, saturate};
use crate::base::offered::Offered;
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::LinkMetrics;
use crate::quick_start::Granted;
use crate::signals::{
    Answer, Arrival, Carried, VcpAnswer, VcpCarried, VcpCode, XcpAnswer, XcpCarried,
};
use interval::TRho;
use shares::Shares;
use xcp_flows::{PortState, XcpFlows};

/// The current interval is compared with the advertised load after each quarter of a full load and
/// each eighth of its time.
const LOOKS_BY_LOAD: u64 = 4;
const LOOKS_BY_TIME: u32 = 8;

/// At or above this r, a half, MI grows as fast as possible as far as the router knows.
const BLIND_R_Q32: u64 = 1 << 31;

/// Load in 1/128 up to which small flows grow faster than others: 17/16. While others make room the
/// port is OVER, but at a higher load there is a queue to drain first.
const ROOM_FOR_SMALL_128: u8 = 136;

/// A VCP port, with the extension rule `R`.
#[derive(Clone, Debug)]
pub struct VcpLink<R> {
    params: VcpLinkParams,
    offered: Offered,
    /// How long packets may wait on purpose because the capacity varies.
    wait: Duration,
    t_rho: TRho,
    meter: LoadMeter,
    granted: Granted,
    /// The bytes of each flow, if r may differ between flows.
    shares: Option<Shares>,
    shares_since: Instant,
    /// End of the current interval, stored for fast access.
    ends: Instant,
    rule: R,
    /// XCP flows at the port, and the rates sent to them.
    xcp_flows: XcpFlows,
    code: VcpCode,
    /// The load that determines code and r; `None`: nothing has been measured since the port woke
    /// up.
    said: Option<Load>,
    load_128: u8,
    /// The interval of this load, and the bytes in it that belong to grants.
    said_for: Duration,
    said_granted: u64,
    /// λ from which the current interval is certainly OVER.
    full: u64,
    /// λ or time of the next comparison of the current interval with the advertised load.
    next_look: u64,
    next_look_at: Instant,
    /// Nothing has been measured since the port woke up.
    unknown: bool,
    /// The last load was too small for an estimate, so r lets MI determine the current interval.
    blind: bool,
    /// No packet arrived during the whole last interval.
    idle: bool,
    /// After a queue overflow, packets leave with OVER until this time, whatever the load.
    over_until: Instant,
    marked: [u64; 4],
}

impl<R: LinkRule> VcpLink<R> {
    /// Creates a port that starts at `now` and sends `capacity` bytes per second.
    pub fn new(now: Instant, capacity: u64, params: VcpLinkParams, rule: R) -> Self {
        let mut link = Self {
            offered: Offered::new(capacity),
            wait: Duration::ZERO,
            t_rho: TRho::new(now, params.t_rho, capacity),
            meter: LoadMeter::new(now, &params),
            granted: Granted::new(now),
            shares: (params.equalize && rule.tells_r())
                .then(|| Shares::new(rule.epsilon_ppm().unwrap_or(0))),
            shares_since: now,
            ends: now,
            xcp_flows: XcpFlows::new(now, rule.epsilon_ppm()),
            rule,
            code: VcpCode::Low,
            said: None,
            load_128: 0,
            said_for: Duration::ZERO,
            said_granted: 0,
            full: u64::MAX,
            next_look: u64::MAX,
            next_look_at: now,
            unknown: true,
            blind: false,
            idle: params.restart,
            over_until: now,
            marked: [0; 4],
            params,
        };
        link.rule.on_idle();
        link.set_full();
        link
    }

    /// Sets γ·∫C dt − κ·q̃ in bytes for the whole current interval, rounded up.
    fn set_full(&mut self) {
        let million = u128::from(PPM);
        let offered = self.carried(self.t_rho.current());
        let usable = u128::from(self.params.gamma_ppm).saturating_mul(offered);
        let queue =
            u128::from(self.params.kappa_ppm) * u128::from(self.meter.persistent_queue()) * million;
        self.full = saturate(usable.saturating_sub(queue).div_ceil(million * million)).max(1);
        self.ends = self.meter.started() + self.t_rho.current();
        self.schedule_look(self.meter.started());
    }

    fn schedule_look(&mut self, now: Instant) {
        self.next_look = (self.meter.lambda() + self.full / LOOKS_BY_LOAD).min(self.full);
        self.next_look_at = now + self.t_rho.current() / LOOKS_BY_TIME;
    }

    /// Handles a part of the interval's capacity or time that has passed: reacts immediately if the
    /// load has exceeded that of the last interval, or is OVER.
    #[cold]
    fn look(&mut self, now: Instant, queue: u64) {
        if self.lambda(now) >= self.full {
            self.close(now, queue);
            return;
        }
        if self.t_rho.review(now) {
            self.set_full();
        }
        self.schedule_look(now);
        if let Some(shares) = &mut self.shares {
            shares.set_lift();
        }
        self.foresee();
        if let (true, Some(shares)) = (self.unknown, &mut self.shares) {
            shares.weigh();
        }
    }

    /// Lowers r for the bytes of the current interval so far, and for the bytes that grants will
    /// bring.
    fn foresee(&mut self) {
        if without(Mechanism::Foresee) {
            return;
        }
        let come = if self.unknown {
            self.meter.lambda()
        } else if self.blind {
            self.foreseen()
        } else if self.granted.rate() > 0 {
            mul_div(self.load_ppb(), self.full, 1_000_000_000)
        } else {
            return;
        };
        let length = self.t_rho.current();
        let granted = self.granted.until(self.meter.started() + length);
        let load = self.load_of(come.saturating_add(granted), length);
        self.rule.on_progress(&load);
    }

    /// λ of the current interval so far, including bytes that grants will bring.
    fn lambda(&self, now: Instant) -> u64 {
        let lambda = self.meter.lambda();
        lambda.saturating_add(self.granted.until(now))
    }

    /// The load that determines code and r, in 10^-9.
    fn load_ppb(&self) -> u64 {
        self.said.as_ref().map_or(0, Load::ppb)
    }

    /// Bytes of the current interval for which r should be lowered.
    fn foreseen(&self) -> u64 {
        let bytes = u128::from(self.meter.lambda()) * u128::from(self.params.foresee_ppm);
        saturate(bytes / u128::from(PPM))
    }

    fn load_of(&self, bytes: u64, interval: Duration) -> Load {
        Load::over(
            bytes,
            self.meter.persistent_queue(),
            self.params.kappa_ppm,
            self.params.gamma_ppm,
            self.carried(interval),
        )
    }

    /// The link's capacity over the first `interval` of the current interval, in bytes per second
    /// times µs, plus bytes that may wait on purpose, because all waiting bytes count in the load.
    fn carried(&self, interval: Duration) -> u128 {
        let waits = u128::from(self.offered.mean(interval)) * u128::from(micros(self.wait));
        let (kappa, gamma) = (self.params.kappa_ppm, self.params.gamma_ppm);
        self.offered.total(interval) + waits * u128::from(kappa) / u128::from(gamma.max(1))
    }

    fn close(&mut self, now: Instant, queue: u64) {
        let elapsed = now - self.meter.started();
        if micros(elapsed) == 0 {
            return;
        }
        self.meter.settle_queue(queue);
        let load = self.load_of(self.lambda(now), elapsed);
        (self.said_for, self.said_granted) = (elapsed, self.granted.until(now));
        self.say(load);
        let (t_rho, r_q32) = (self.t_rho.current(), self.rule.r_q32());
        let code = self.raised(now, self.code);
        self.xcp_flows.on_interval(now, t_rho, code, r_q32);
        self.settle_shares(now);
        self.unknown = false;
        self.blind = self.params.foresee_ppm > 0 && self.rule.r_q32() >= Some(BLIND_R_Q32);
        self.idle = self.meter.lambda() == 0 && queue == 0;
        let capacity = self.offered.mean(elapsed);
        self.begin(now);
        let _ = self.t_rho.on_interval(now, elapsed, capacity);
        self.set_full();
    }

    /// Sets code and r according to `load`.
    fn say(&mut self, load: Load) {
        self.code = load.code();
        self.load_128 = load.in_128ths();
        self.rule.on_load(&load);
        self.said = Some(load);
    }

    /// Settles the shares. An interval that was cut short may not have seen every flow, so its
    /// bytes count with those of the next interval.
    fn settle_shares(&mut self, now: Instant) {
        if let Some(shares) = &mut self.shares
            && now - self.shares_since >= self.t_rho.current() / 2
        {
            shares.settle();
            self.shares_since = now;
        }
    }

    /// Handles the first packet after idleness, when earlier measurements do not apply to the new
    /// traffic.
    fn wake(&mut self, now: Instant) {
        self.idle = false;
        self.unknown = true;
        self.over_until = now;
        self.code = VcpCode::Low;
        self.said = None;
        self.load_128 = 0;
        self.rule.on_idle();
        if let Some(shares) = &mut self.shares {
            shares.clear();
            self.shares_since = now;
        }
        self.begin(now);
    }

    /// True during one interval after the last tail drop. Senders freeze after a cut for the same
    /// time, so that one drop makes them cut once.
    fn overflows(&self, now: Instant) -> bool {
        now < self.over_until
    }

    /// `code`, or OVER if the queue overflows, also for flows that are otherwise spared.
    fn raised(&self, now: Instant, code: VcpCode) -> VcpCode {
        if self.overflows(now) {
            VcpCode::Over
        } else {
            code
        }
    }

    /// Answers an XCP packet with the rate for the code that a VCP packet of its flow would
    /// receive.
    fn answer_xcp(&mut self, now: Instant, packet: &Arrival, header: &XcpCarried) -> XcpAnswer {
        let as_vcp = VcpCarried {
            code: VcpCode::Low,
            min_rtt: None,
            bise: true,
            carries_r: true,
        };
        let mark = self.rule.mark(self.code, &as_vcp);
        let Mark { code, r } = self.for_flow(packet.flow_hash, mark, &as_vcp);
        let code = self.raised(now, code);
        let said = PortState {
            code,
            r,
            t_rho: self.t_rho.current(),
        };
        self.xcp_flows.answer(said, header, packet.bytes)
    }

    /// The mark of one flow, derived from the port's `mark`. OVER becomes HIGH for small flows only
    /// if they read the load too, and r is raised only for flows that follow it.
    fn for_flow(&self, flow_hash: u32, mark: Mark, carried: &VcpCarried) -> Mark {
        let (Some(shares), Some(r)) = (&self.shares, mark.r) else {
            return mark;
        };
        let r = shares.grant(flow_hash, r);
        let lift = shares.lift(flow_hash);
        let follows = carried.bise && carried.carries_r;
        let code = match mark.code {
            _ if lift > 0 && follows && self.load_128 < ROOM_FOR_SMALL_128 => {
                let r = Some(r.max(lift));
                let code = VcpCode::Low;
                return Mark { code, r };
            }
            VcpCode::Over if carried.carries_r && shares.spares(flow_hash) => VcpCode::High,
            code => code,
        };
        Mark { code, r: Some(r) }
    }

    fn begin(&mut self, now: Instant) {
        self.meter.begin(now);
        self.ends = now + self.t_rho.current();
        self.granted.begin(now);
        self.offered.begin();
    }
}

impl<R: LinkRule> LinkController for VcpLink<R> {
    #[inline(always)]
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        self.meter.sample(now, queue);
        if self.idle && self.params.restart {
            self.wake(now);
        }
        self.meter.count(arrival.bytes);
        if let Some(shares) = &mut self.shares {
            match &arrival.carried {
                Carried::Vcp(_) | Carried::Xcp(_) => {
                    shares.count(arrival.flow_hash, arrival.bytes);
                }
                // Only some packets of a flow carry a request.
                Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => {
                    shares.count_silent(arrival.flow_hash, arrival.bytes);
                }
            }
        }
        let rtt = match &arrival.carried {
            Carried::Vcp(carried) => carried.min_rtt,
            Carried::Xcp(header) => xcp_flows::rtt_class(header),
            Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => None,
        };
        if self.t_rho.see(now, arrival.bytes, rtt) && self.t_rho.review(now) {
            self.set_full();
        }
        if self.params.restart
            && (self.meter.lambda() >= self.next_look || now >= self.next_look_at)
        {
            self.look(now, queue);
        }
    }

    fn on_arrivals(&mut self, now: Instant, run: &Arrival, _packets: u32, queue: u64) {
        // Only bytes are counted, not packets.
        self.on_arrival(now, run, queue);
    }

    #[inline(always)]
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        self.meter
            .sample(now, queue.saturating_add(u64::from(packet.bytes)));
        let carried = match &packet.carried {
            Carried::Vcp(carried) => carried,
            Carried::Xcp(header) => return Answer::Xcp(self.answer_xcp(now, packet, header)),
            Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => return Answer::None,
        };
        if carried.code == VcpCode::None {
            return Answer::None;
        }
        let mark = self.rule.mark(self.code, carried);
        let Mark { code, r } = self.for_flow(packet.flow_hash, mark, carried);
        let code = self.raised(now, code);
        let shown = code.max(carried.code);
        if let Some(count) = self.marked.get_mut(usize::from(shown as u8)) {
            *count += 1;
        }
        Answer::Vcp(VcpAnswer {
            code,
            r,
            t_rho_ms: self.t_rho.advertised_ms(),
            load_128: self.load_128,
            ..VcpAnswer::default()
        })
    }

    fn on_drop(&mut self, now: Instant, _packet: &Arrival) {
        // The load of an interval may be below 1 although bursts overflow a short queue.
        self.over_until = now + self.t_rho.current();
    }

    fn on_set_aside(&mut self, now: Instant) {
        self.t_rho.forget(now);
        self.set_full();
    }

    fn on_timer(&mut self, now: Instant, queue: u64) {
        self.meter.sample(now, queue);
        if now - self.meter.started() >= self.t_rho.current() {
            self.close(now, queue);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        // An idle port has nothing to measure until a packet wakes it up.
        let asleep = self.idle && self.params.restart;
        debug_assert_eq!(self.ends, self.meter.started() + self.t_rho.current());
        (!asleep).then_some(self.ends)
    }

    fn on_variation(&mut self, wait: Duration) {
        if self.params.restart {
            self.wait = wait;
        }
    }

    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64) {
        // The current interval continues, so that loads are measured over whole intervals however
        // often the capacity changes.
        let elapsed = now - self.meter.started();
        if self.offered.change(elapsed, bytes_per_second) {
            self.set_full();
        }
    }

    /// A large share, because with codes only, a new flow reaches its share after tens of round
    /// trips.
    fn room_percent(&self) -> u64 {
        70
    }

    fn on_granted(&mut self, now: Instant, _flow_hash: u32, bytes_per_second: u64) {
        let started = self.meter.started();
        self.granted.add(now, started, bytes_per_second);
        self.foresee();
    }

    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, _came: bool) {
        self.granted.take(now, bytes_per_second);
    }

    fn on_grant_unused(&mut self, _now: Instant, began: Instant, bytes_per_second: u64) {
        let started = self.meter.started();
        self.granted.forget(began, started, bytes_per_second);
        // Code and r were lowered for it, in the previous interval as well.
        if let Some(load) = self.said {
            let counted = mul_div(bytes_per_second, nanos(self.said_for), 1_000_000_000);
            let counted = counted.min(self.said_granted);
            self.said_granted -= counted;
            self.say(load.without(counted));
        } else {
            self.rule.on_idle();
        }
        self.foresee();
    }

    fn metrics(&self) -> LinkMetrics {
        LinkMetrics {
            interval: self.t_rho.current(),
            load_ppb: self.load_ppb(),
            code: self.code,
            r_q32: self.rule.r_q32(),
            persistent_queue: self.meter.persistent_queue(),
            marked: self.marked,
            ..LinkMetrics::default()
        }
    }
}
