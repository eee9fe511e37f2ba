//! Counts of IP packets of each port, in snapshots.

use std::collections::BTreeMap;

use pathmark_link::DropCause;
use serde::Serialize;

use crate::forward::{Refused, RouterPort, TunnelTally};

/// Counts IP packets of a port since it was created. Each segment of a super-packet counts as
/// one packet.
///
/// `received = forwarded + Σ dropped_in`, and `offered = Σ dropped_out + held + written`. Over
/// all ports, `forwarded + generated = offered`, as long as no port is replaced.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacketsView {
    /// Read from the interface.
    pub received: u64,
    /// Of these, handed to an output port.
    pub forwarded: u64,
    /// Of these, not forwarded, by reason. Those under `local` are for the router itself and not
    /// lost.
    pub dropped_in: BTreeMap<&'static str, u64>,
    /// Created by the router for this output port.
    pub generated: u64,
    /// Handed to this output port.
    pub offered: u64,
    /// Of these, dropped, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
    /// Of these, in the queue or on the emulated wire now.
    pub held: u64,
    /// Of these, written to the interface.
    pub written: u64,
    /// Shims of the tunnel in front of which the port is; `None`: no tunnel.
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

/// Counts shims of a tunnel's packets at the port in front of it, since the port was created.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TunnelView {
    /// Copied in front of departing packets.
    pub copied: u64,
    /// Copies in arriving packets that were merged.
    pub merged: u64,
    /// Not copied for want of room, or removed without merging.
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
