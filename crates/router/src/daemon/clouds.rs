//! The cloud meter that a configuration asks for, and its view in the status.

use std::io;
use std::net::IpAddr;

use pathmark_cc::Instant;
use serde::Serialize;
use xcp_edge::{Edge, Estimator, Key, Limits, Measurer, Own, Prober, Requester};

use super::identity::identity;
use crate::config::{Config, PortSpec};
use crate::forward::{CloudMeter, HEADERS, Router};
use crate::tun::sys;

/// Largest IP packet of a train: what the usual path carries.
const USUAL_MTU: u32 = 1500;
/// The rate and the burst of trains, as parts of the rate of the fastest port that names the router
/// in headers.
const RATE_PPM: u64 = 10_000;
const AHEAD_PPM: u64 = 100_000;
/// Their burst in seconds at their rate, which may be configured: 10.
const AHEAD: u64 = AHEAD_PPM / RATE_PPM;
/// The rate of a port without one: 1 Gbit/s, in bytes per second.
const UNKNOWN: u64 = 125_000_000;

/// Random numbers, drawn at each start.
#[derive(Debug)]
pub(super) struct Seeds {
    start: [u8; 32],
    run: u64,
    /// Of flow and source hashes: a sender that knows it can choose colliding flows.
    pub(super) hashes: u64,
    /// Of what control laws draw.
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

/// The addresses that messages go to and come from: those that shims name the router by.
fn own(config: &Config) -> Own {
    let identity = identity(config);
    Own {
        v4: identity.v4,
        v6: identity.v6,
    }
}

/// True if both configurations ask for the same meter.
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

/// What there is to see of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MeterView {
    /// Datagrams for the router's message port.
    pub received: u64,
    /// Those that came too fast to be looked at.
    pub too_many: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages without a route, or too long for it.
    pub unsent: u64,
    /// Datagrams whose authenticator was wrong.
    pub forged: u64,
    /// Datagrams that were no message.
    pub foreign: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests that were acknowledged.
    pub acknowledged: u64,
    /// Answers to no open request.
    pub stray: u64,
    /// Times that a router before a cloud was given up for silent.
    pub silences: u64,
    /// Routers before clouds for which there was no room.
    pub no_room: u64,
    /// Trains sent to others.
    pub trains: u64,
    /// Packets of them.
    pub probes: u64,
    /// Requests of others that were refused.
    pub refused: u64,
    /// Requests of others that were received before.
    pub replayed: u64,
    /// Estimates that hold.
    pub clouds: Vec<CloudView>,
}

/// An estimate that holds.
#[derive(Clone, Debug, Serialize)]
pub struct CloudView {
    /// The router before the cloud.
    pub upstream: IpAddr,
    /// What the cloud's narrow link carries, in bits per second.
    pub capacity_bps: f64,
    /// What is left of it, in bits per second; below 0 while more arrives than it carries.
    pub available_bps: f64,
    /// Bytes that wait in front of it.
    pub queue_bytes: u64,
    /// For how much longer the estimate holds, in seconds.
    pub holds_s: f64,
}

impl MeterView {
    /// What `router` measures; `None` if it does not.
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
