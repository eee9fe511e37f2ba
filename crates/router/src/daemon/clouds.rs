//! The cloud meter that a configuration requires, and its part of the status.

use std::io;
use std::net::IpAddr;

use pathmark_cc::Instant;
use serde::Serialize;
use xcp_edge::{Edge, Estimator, Key, Limits, Measurer, Own, Prober, Requester};

use crate::config::{Config, PortSpec};
use crate::forward::{CloudMeter, HEADERS, Router};
use crate::tun::sys;

/// Maximum size of a train's IP packets, which the usual path can carry.
const USUAL_MTU: u32 = 1500;
/// The rate and the burst of trains, relative to the rate of the fastest port that names the
/// router in headers.
const RATE_PPM: u64 = 10_000;
const AHEAD_PPM: u64 = 100_000;
/// Their burst in seconds at their rate, which is configurable: 10.
const AHEAD: u64 = AHEAD_PPM / RATE_PPM;
/// The rate of a port without one: 1 Gbit/s, in bytes per second.
const UNKNOWN: u64 = 125_000_000;

/// Random numbers, drawn at each start.
#[derive(Debug)]
pub(super) struct Seeds {
    start: [u8; 32],
    run: u64,
    /// For flow and source hashes. A sender that knew this seed could choose colliding flows.
    pub(super) hashes: u64,
    /// For control laws.
    pub(super) laws: u64,
}

impl Seeds {
    pub(super) fn draw() -> io::Result<Self> {
        fn number() -> io::Result<u64> {
            let mut bytes = [0; 8];
            sys::random(&mut bytes)?;
            Ok(u64::from_ne_bytes(bytes))
        }
        let mut start = [0; 32];
        sys::random(&mut start)?;
        Ok(Self {
            start,
            run: number()?,
            hashes: number()?,
            laws: number()?,
        })
    }
}

/// Largest UDP payload of a train's packets.
fn payload(config: &Config) -> u16 {
    let mtus = config.ports.iter().map(|port| port.mtu);
    let mtu = mtus.min().unwrap_or(USUAL_MTU).min(USUAL_MTU);
    u16::try_from(mtu)
        .unwrap_or(u16::MAX)
        .saturating_sub(HEADERS)
}

/// Limits of trains.
fn limits(config: &Config) -> Limits {
    let own = config.xcp_i.as_ref().and_then(|xcp_i| xcp_i.trains);
    let named = |port: &&PortSpec| port.link.names_router();
    let rates = config.ports.iter().filter(named);
    let rates = rates.map(|port| port.link.rate.map_or(UNKNOWN, |rate| rate.bytes()));
    let fastest = rates.max().unwrap_or(0);
    let rate = own.map_or(fastest.saturating_mul(RATE_PPM) / 1_000_000, |own| {
        own.bytes()
    });
    Limits {
        rate,
        burst: rate.saturating_mul(AHEAD),
        packet: payload(config),
    }
}

/// The addresses that messages use, which are also the router's names in shims.
fn own(config: &Config) -> Own {
    let identity = config.identity();
    Own {
        v4: identity.v4,
        v6: identity.v6,
    }
}

/// Whether both configurations require the same meter.
pub(super) fn same(old: &Config, new: &Config) -> bool {
    old.xcp_i == new.xcp_i && own(old) == own(new) && limits(old) == limits(new)
}

/// The cloud meter; `None` if it is not configured.
pub(super) fn meter(config: &Config, now: Instant, seeds: &Seeds) -> Option<CloudMeter> {
    let spec = config.xcp_i.as_ref()?;
    let own = own(config);
    let (key, start) = (spec.secret.key()?, Key::new(&seeds.start).ok()?);
    let limits = limits(config);
    let prober = Prober::new(now, own, key.clone(), start, limits);
    let first = Estimator::first_train(limits.packet);
    let requester = Requester::new(now, own, key.clone(), seeds.run, first);
    let edge = Edge::new(own, key, prober, requester);
    let measurer = Measurer::new(edge, limits.packet);
    Some(CloudMeter::new(own, spec.port, measurer))
}

/// The status of the meter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeterView {
    /// Datagrams for the router's message port.
    pub received: u64,
    /// Datagrams that exceeded the rate limit, and were not examined.
    pub too_many: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages without a route, or larger than its MTU.
    pub unsent: u64,
    /// Datagrams with a wrong authenticator.
    pub forged: u64,
    /// Datagrams that were not messages.
    pub foreign: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests that were acknowledged.
    pub acknowledged: u64,
    /// Answers to no open request.
    pub stray: u64,
    /// Number of times that an upstream router was considered silent.
    pub silences: u64,
    /// Upstream routers for which there was no room.
    pub no_room: u64,
    /// Trains sent to other routers.
    pub trains: u64,
    /// Packets in these trains.
    pub probes: u64,
    /// Refused requests of other routers.
    pub refused: u64,
    /// Replayed requests of other routers.
    pub replayed: u64,
    /// Valid estimates.
    pub clouds: Vec<CloudView>,
}

/// A valid estimate.
#[derive(Clone, Debug, Serialize)]
pub struct CloudView {
    /// The router upstream of the cloud.
    pub upstream: IpAddr,
    /// Capacity of the cloud's narrow link, in bits per second.
    pub capacity_bps: f64,
    /// Unused capacity, in bits per second; negative while more arrives than the link can carry.
    pub available_bps: f64,
    /// Bytes queued in front of this link.
    pub queue_bytes: u64,
    /// Remaining validity of the estimate, in seconds.
    pub holds_s: f64,
}

impl MeterView {
    /// The measurements of `router`; `None` if it does not measure.
    pub(super) fn take(router: &Router, now: Instant) -> Option<Self> {
        let meter = router.cloud_meter()?;
        let (edge, counts) = (meter.measurer().edge(), meter.counts());
        let (asks, answers) = (edge.requester.stats(), edge.prober.stats());
        let clouds = meter.estimates(now).map(|known| CloudView {
            upstream: known.upstream,
            capacity_bps: known.estimate.capacity as f64 * 8.0,
            available_bps: known.estimate.available as f64 * 8.0,
            queue_bytes: known.estimate.queue,
            holds_s: (known.at + known.estimate.valid_for - now).as_secs_f64(),
        });
        Some(Self {
            received: counts.received,
            too_many: counts.too_many,
            sent: counts.sent,
            unsent: counts.unsent,
            forged: edge.forged(),
            foreign: edge.foreign(),
            requests: asks.requests,
            acknowledged: asks.acknowledged,
            stray: asks.stray,
            silences: asks.silences,
            no_room: asks.no_room,
            trains: answers.trains,
            probes: answers.probes,
            refused: answers.refused,
            replayed: answers.replayed,
            clouds: clouds.collect(),
        })
    }
}
