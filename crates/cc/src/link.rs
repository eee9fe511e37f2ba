//! The link half of a control law: one per output port of a router.

use core::fmt;

use crate::{
    CloudAnswer, CloudEstimate, CloudMetrics, Duration, GrantMetrics, Instant, QuickStartAnswer,
    QuickStartCarried, Upstream, XcpAnswer, XcpCarried, XcpLinkMetrics,
};

/// VCP's two-bit load code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VcpCode {
    /// Not VCP, or erased.
    #[default]
    None = 0,
    /// Load below 80 %.
    Low = 1,
    /// Load from 80 % to below 100 %.
    High = 2,
    /// Load of 100 % and above.
    Over = 3,
}

impl VcpCode {
    /// The code in the two low bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Low,
            2 => Self::High,
            _ => Self::Over,
        }
    }
}

/// The fields of an arriving packet that control laws read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carried {
    /// Nothing that a law reads (TCP, plain UDP, ACK-only packets …).
    #[default]
    Foreign,
    /// A VCP shim, or VCP's code in the ECN field.
    Vcp(VcpCarried),
    /// An XCP header.
    Xcp(XcpCarried),
    /// A request for a starting rate. Its flow may be of any kind.
    QuickStart(QuickStartCarried),
}

impl Carried {
    /// True if the packet carries feedback of a law, so that its sender follows a port's answer. A
    /// request for a starting rate is not evidence of that.
    #[inline]
    #[must_use]
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Vcp(_) | Self::Xcp(_))
    }
}

/// The fields of a VCP packet that the link half reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpCarried {
    /// Its code as it arrived.
    pub code: VcpCode,
    /// The sender's least RTT, if it stated one.
    pub min_rtt: Option<Duration>,
    /// The sender would follow BISE's large ε.
    pub bise: bool,
    /// The shim has room for r (false for the ECN carrier).
    pub carries_r: bool,
}

/// A packet at the port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Size that the link will carry, in bytes: IP packet plus the configured frame overhead.
    pub bytes: u32,
    /// A hash of the packet's flow (addresses, ports, protocol), for sketches of bounded size.
    pub flow_hash: u32,
    /// What it carries.
    pub carried: Carried,
}

impl Arrival {
    /// The packets of a run one by one: equal sizes, and what is left over with the last.
    #[inline]
    pub fn each(&self, packets: u32) -> impl Iterator<Item = Self> {
        let packets = packets.max(1);
        let size = self.bytes / packets;
        let last = self.bytes - size * (packets - 1);
        let run = *self;
        (1..=packets).map(move |n| Self {
            bytes: if n == packets { last } else { size },
            ..run
        })
    }
}

/// What the link half wants written into a departing packet; the protocol's crate does the writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Leave the packet alone.
    #[default]
    None,
    /// Mark a VCP packet (only ever raising what it finds).
    Vcp(VcpAnswer),
    /// Stamp an XCP packet.
    Xcp(XcpAnswer),
    /// Approve a starting rate, or deny it.
    QuickStart(QuickStartAnswer),
}

impl Answer {
    /// Adds what the port declares of the link behind it: loss by corruption, in 10^-6 of packets.
    #[inline]
    pub const fn declare(&mut self, ppm: u32) {
        match self {
            Self::None | Self::QuickStart(_) => {}
            Self::Vcp(answer) => answer.corruption_ppm = ppm,
            Self::Xcp(answer) => answer.corruption_ppm = ppm,
        }
    }

    /// Completes a law's answer to a packet that `carried` this if the answer leaves the packet's
    /// cloud out: such a law does not look for clouds.
    #[inline]
    pub const fn pass_cloud(&mut self, carried: &Carried) {
        if let (Self::Xcp(answer), Carried::Xcp(header)) = (self, carried)
            && let (CloudAnswer::None, Some(_)) = (answer.cloud, header.cloud)
        {
            answer.cloud = CloudAnswer::Passed;
        }
    }
}

/// A VCP router's mark: every field is *combined* with the packet's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpAnswer {
    /// This port's code; the packet keeps the higher one.
    pub code: VcpCode,
    /// r in 2^-16, 65 535 standing for 1; the packet keeps the lower one. `None`: this port runs no
    /// BISE.
    pub r: Option<u16>,
    /// This port's measuring interval in milliseconds ([`whole_millis`](Self::whole_millis)); the
    /// packet keeps the longer one.
    pub t_rho_ms: u16,
    /// This port's load in 1/128, saturating; the packet keeps the higher one with its router's id.
    pub load_128: u8,
    /// The port runs another law and expresses that law's answer in VCP's terms. The packet keeps
    /// this with the load.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets; added
    /// to the packet's value. Filled in by the port ([`Answer::declare`]), not by the law.
    pub corruption_ppm: u32,
}

impl VcpAnswer {
    /// An interval as packets carry it: rounded up, so that no sender acts faster than the router
    /// measures, and at most 65 535.
    #[must_use]
    pub fn whole_millis(interval: Duration) -> u16 {
        let millis = interval.as_nanos().div_ceil(1_000_000);
        u16::try_from(millis).unwrap_or(u16::MAX)
    }
}

/// A port's state, for `show` and results. Not for control.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LinkMetrics {
    /// Measuring interval.
    pub interval: Duration,
    /// Load factor ρ of the last interval in 10^-9.
    pub load_ppb: u64,
    /// The code that follows from it.
    pub code: VcpCode,
    /// BISE's r in 2^-32, if it runs.
    pub r_q32: Option<u64>,
    /// Persistent queue in bytes.
    pub persistent_queue: u64,
    /// Packets that left with each code: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
    /// Measurements and grants of an XCP port, if the port runs XCP.
    pub xcp: Option<XcpLinkMetrics>,
    /// The port's counters of requests for a starting rate, if it handles them.
    pub grants: Option<GrantMetrics>,
    /// The port's counters of clouds, if it looks for them.
    pub clouds: Option<CloudMetrics>,
}

/// The link half of a control law. Its inputs are arrivals, departures, drops and time.
///
/// Methods neither allocate nor block nor read a clock. State is bounded whatever arrives.
/// `queue` is always the port's queue in bytes at that moment.
pub trait LinkController: Send + fmt::Debug {
    /// A packet is about to arrive: false if its flow is policed, and the port drops it without a
    /// further call of the law.
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let _ = (now, arrival);
        true
    }

    /// The same of a run as for [`on_arrivals`](Self::on_arrivals): false if any of its packets is
    /// held back.
    fn admits_all(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        run.each(packets).all(|arrival| self.admits(now, &arrival))
    }

    /// A packet arrived, before it is enqueued or dropped; `queue` excludes it.
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64);

    /// `packets` packets of one flow arrived at once, carrying alike, together of `run.bytes`:
    /// equal sizes, and what is left over with the last. A law that adds packets up may take them
    /// in one go.
    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        for arrival in run.each(packets) {
            self.on_arrival(now, &arrival, queue);
        }
    }

    /// What a port does with each packet, in one call: [`admits`](Self::admits), and if so
    /// [`on_arrival`](Self::on_arrival). The [`deadline`](Self::deadline) after that, or the far
    /// future where there is none; `None` if the packet is held back.
    fn take(&mut self, now: Instant, arrival: &Arrival, queue: u64) -> Option<Instant> {
        if !self.admits(now, arrival) {
            return None;
        }
        self.on_arrival(now, arrival, queue);
        Some(self.deadline().unwrap_or(Instant::FAR_FUTURE))
    }

    /// The packet leaves for the wire; `queue` excludes it.
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer;

    /// A packet that carries feedback, or one of a flow that does, found no room in its queue, or
    /// had to make room there. Not called for RED drops, for packets that the law itself held back,
    /// and for other packets: those are no evidence about flows that follow feedback.
    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        let _ = (now, packet);
    }

    /// The port has isolated unresponsive flows and passes their packets no longer to the law:
    /// discards what their headers stated.
    fn on_set_aside(&mut self, now: Instant) {
        let _ = now;
    }

    /// Runs what is due; called at or after [`deadline`](Self::deadline) and before other calls.
    fn on_timer(&mut self, now: Instant, queue: u64);

    /// When [`on_timer`](Self::on_timer) wants to be called next. `None`: not before a packet
    /// arrives. May change with every other call.
    fn deadline(&self) -> Option<Instant>;

    /// The link's capacity changed, in bytes per second, net of what the port subtracts itself.
    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64);

    /// The capacity moves from one moment to the next: packets may wait for `wait` on purpose, so
    /// that the link has something to send when it can send more. Zero until it is called.
    fn on_variation(&mut self, wait: Duration) {
        let _ = wait;
    }

    /// The port's queue can hold `bytes`, all kinds of packets together. Unbounded until it is
    /// called.
    fn on_buffer(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The rate in bytes per second that the law has promised to flows since its traffic began,
    /// come or to come, where it knows: no starting rate is granted of that. What the flow with
    /// `flow_hash`, which asks for a total, was promised itself is not part of it. The question may
    /// be the first packet after a pause of any length.
    fn promised(&self, now: Instant, flow_hash: u32) -> u64 {
        let _ = (now, flow_hash);
        0
    }
    /// The same for a flow that asks again, since the answer, and often what else came with it, was
    /// lost: it takes the larger of both, so what headers promised it is no part of this either.
    fn promised_beside(&self, now: Instant, flow_hash: u32) -> u64 {
        self.promised(now, flow_hash)
    }
    /// The part of the capacity in percent that may be granted although all is in use, since the
    /// law makes room for it within about a round trip. 0: it does not.
    fn room_percent(&self) -> u64 {
        0
    }
    /// The port has granted a flow that starts `bytes_per_second`. Until
    /// [`on_grant_over`](Self::on_grant_over) that is part of what the law's link will carry.
    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// The port has granted a flow that starts `bytes_per_second` of what another one gives back.
    /// Its traffic comes as the other's ends, so it is no more than what the law has counted.
    fn on_dealt_out(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// Packets of what was granted have begun to arrive, or (`came` is false) do not come.
    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        let _ = (now, bytes_per_second, came);
    }
    /// Packets of a flow that was granted `bytes_per_second` have come since `began`, and they are
    /// none of a granted flight: they are far too few.
    fn on_grant_unused(&mut self, now: Instant, began: Instant, bytes_per_second: u64) {
        let _ = (now, began, bytes_per_second);
    }

    /// A packet, or a run of them, arrived of a flow whose packets the law does not receive, at a
    /// port that keeps such flows apart: the flow may have asked for a start.
    fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        let _ = (now, arrival);
    }

    /// What is left of the cloud behind `upstream`, if the law looks for clouds: a measurement from
    /// outside the law, over the time since the last call.
    fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        let _ = (now, upstream, estimate);
    }

    /// Shows each upstream router of a cloud that the law keeps, with the bytes that have come from
    /// it since it is kept.
    fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        let _ = visit;
    }

    /// State for reports.
    fn metrics(&self) -> LinkMetrics;
}
