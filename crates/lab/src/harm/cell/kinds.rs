//! The kinds of cells.

use std::fmt;
use std::str::FromStr;

use super::super::axis::{Buffer, Burst, Count, Declared, Lossy, Mix, Percent, Rate, Size, Time};
use super::{BadCell, Group, Values};

cells! {
    /// A marked link, then a plain one of less capacity.
    After = Hidden "after" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Size of the plain link's queue.
        buffer: Buffer,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A plain link, then a marked one of more capacity.
    Before = Hidden "before" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Size of the plain link's queue.
        buffer: Buffer,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss.
    Random = Loss "random" {
        /// Its rate.
        rate: Rate,
        /// Share of packets that it loses.
        per: Percent,
        /// Distribution of losses.
        burst: Burst,
        /// Time of the losses.
        lossy: Lossy,
        /// Whether the port declares the loss.
        declared: Declared,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss, then a plain one of less capacity.
    Both = Loss "both" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Size of the plain link's queue.
        buffer: Buffer,
        /// Share of packets that the marked link loses.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// The same, but the plain link's capacity falls below the marked one's only halfway through.
    Late = Loss "late" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link in the second half.
        hidden: Rate,
        /// Size of the plain link's queue.
        buffer: Buffer,
        /// Share of packets that the marked link loses.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss, which TCP flows join halfway through.
    Join = Loss "join" {
        /// Its rate.
        rate: Rate,
        /// Share of packets that it loses.
        per: Percent,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that loses nothing and whose port declares that it does, then a plain one of
    /// less capacity.
    Forged = Loss "forged" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Size of the plain link's queue.
        buffer: Buffer,
        /// Loss rate that the marked link's port declares.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that is out for a while.
    Cut = Outage "cut" {
        /// Its rate.
        rate: Rate,
        /// Duration of an outage.
        outage: Time,
        /// Number of outages.
        times: Count,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link of a low rate.
    Low = Outage "low" {
        /// Its rate.
        rate: Rate,
        /// Size of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link whose rate wanders like that of a cellular link.
    Trace = Outage "trace" {
        /// Approximate mean rate.
        rate: Rate,
        /// Size of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that is handed over between satellites: an outage, then another delay and
    /// rate.
    Handover = Outage "handover" {
        /// Approximate rate.
        rate: Rate,
        /// Duration of a handover.
        outage: Time,
        /// Flows across it.
        flows: Mix,
        /// Approximate propagation round trip.
        rtt: Time,
    },
    /// A half-duplex cell that both directions share, whose rate steps.
    Radio = Outage "radio" {
        /// Its best rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows over all of several equal marked links, and flows across each.
    Lot = Hops "lot" {
        /// Rate of each.
        rate: Rate,
        /// Number of links.
        hops: Count,
        /// Flows over all links.
        long: Count,
        /// Flows across each.
        cross: Mix,
        /// Size of their queues.
        buffer: Buffer,
        /// Propagation round trip over all links.
        rtt: Time,
    },
    /// The same, each link a tenth slower than the one before.
    Taper = Hops "taper" {
        /// Rate of the first.
        rate: Rate,
        /// Number of links.
        hops: Count,
        /// Flows over all links.
        long: Count,
        /// Flows across each.
        cross: Mix,
        /// Size of their queues.
        buffer: Buffer,
        /// Propagation round trip over all links.
        rtt: Time,
    },
    /// A marked link with jitter that keeps the order.
    Order = Jitter "order" {
        /// Its rate.
        rate: Rate,
        /// Largest extra delay.
        jitter: Time,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with jitter that lets packets overtake.
    Reorder = Jitter "reorder" {
        /// Its rate.
        rate: Rate,
        /// Largest extra delay.
        jitter: Time,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link over a short distance.
    Short = Jitter "short" {
        /// Its rate.
        rate: Rate,
        /// Size of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link whose delay steps after a third of the run.
    Step = Jitter "step" {
        /// Its rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip at first.
        rtt: Time,
        /// Propagation round trip afterwards.
        then: Time,
    },
    /// Flows without an end over one marked link.
    Many = Flows "many" {
        /// Its rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Small files next to flows without an end.
    Mice = Flows "mice" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows without an end.
        flows: Mix,
        /// Files, one after the other.
        mice: Count,
        /// Size of each.
        size: Size,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows of two round trips.
    Rtts = Flows "rtts" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows over each of the two distances.
        flows: Mix,
        /// Propagation round trip of one half.
        near: Time,
        /// Propagation round trip of the other half.
        far: Time,
    },
    /// Far flows of large packets against near flows of small packets.
    Sizes = Flows "sizes" {
        /// Rate of the marked link.
        rate: Rate,
        /// Near flows of ours that send small packets, and TCP flows.
        flows: Mix,
        /// Far flows of ours.
        large: Count,
        /// Propagation round trip of flows with small packets.
        near: Time,
        /// Propagation round trip of flows with large packets.
        far: Time,
    },
    /// Flows of both laws at one port.
    Ports = Flows "ports" {
        /// Its rate.
        rate: Rate,
        /// Flows of the port's own law, and TCP flows.
        flows: Mix,
        /// Flows of the other law.
        guests: Count,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows of all kinds at one port.
    Mixed = Flows "mixed" {
        /// Its rate.
        rate: Rate,
        /// Flows of the port's own law, and TCP flows.
        flows: Mix,
        /// Flows of each other law: the other explicit one, NewReno, and CUBIC that asks for a
        /// starting rate.
        guests: Count,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows against UDP of 64-byte packets.
    Tiny = Flows "tiny" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// UDP's share of the link's rate.
        share: Percent,
        /// Propagation round trip.
        rtt: Time,
    },
}
