//! Counts of IP packets of each port, in snapshots.

use std::collections::BTreeMap;

use pathmark_link::DropCause;
use serde::Serialize;

use crate::forward::{Refused, RouterPort, TunnelTally};

/// IP packets of a port since it came up. Each segment of a super-packet is one packet.
///
/// `received = forwarded + Σ dropped_in`, and
/// `offered = Σ dropped_out + held + written`. Over all ports, as long as none is replaced,
/// `forwarded + generated = offered`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacketsView {
    /// Read from the interface.
    pub received: u64,
    /// Of these, handed to an output port.
    pub forwarded: u64,
    /// Of these, not forwarded, by reason; `local` are for the router itself, and not lost.
    pub dropped_in: BTreeMap<&'static str, u64>,
    /// Made by the router for this output port.
    pub generated: u64,
    /// Handed to this output port.
    pub offered: u64,
    /// Of these, dropped, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
    /// Of these, in the queue or on the emulated wire now.
    pub held: u64,
    /// Of these, written to the interface.
    pub written: u64,
    /// Shims of the tunnel that the port is in front of; `None`: no tunnel.
    pub tunnel: Option<TunnelView>,
}

impl PacketsView {
    pub(super) fn take(port: &RouterPort) -> Self {
        let tally = port.tally();
        let drops = port.link.port().stats().drops();
        let causes = DropCause::ALL.map(|cause| (cause.name(), drops.of(cause)));
        let own = [
            ("too_big", tally.too_big),
            ("write_error", tally.write_errors),
        ];
        let reasons = Refused::ALL.map(|why| (why.name(), tally.refused(why)));
        Self {
            received: tally.received,
            forwarded: tally.forwarded,
            dropped_in: reasons.into_iter().collect(),
            generated: tally.generated,
            offered: tally.offered,
            dropped_out: causes.into_iter().chain(own).collect(),
            held: port.held_packets(),
            written: tally.written,
            tunnel: port.tunnel().map(TunnelView::new),
        }
    }
}

/// Shims of a tunnel's packets at a port in front of it, since the port came up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TunnelView {
    /// Copied in front of packets that left.
    pub copied: u64,
    /// Merged from in front of packets that came in.
    pub merged: u64,
    /// Not copied for lack of room, or taken away without a merge.
    pub refused: u64,
}

impl TunnelView {
    pub(super) fn new(tally: TunnelTally) -> Self {
        Self {
            copied: tally.copied,
            merged: tally.merged,
            refused: tally.refused,
        }
    }
}
