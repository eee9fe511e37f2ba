//! The sides that flows wait for.

use serde::Serialize;

/// The position of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Between applications and the path.
    Tunnel,
    /// Between the path and targets.
    Proxy,
}

impl Side {
    /// Returns the shares of time in which the directions up and down were held back, if `busy` is
    /// the share of the direction into the path.
    pub(super) const fn into_path(self, busy: f64) -> (f64, f64) {
        match self {
            Self::Tunnel => (busy, 0.0),
            Self::Proxy => (0.0, busy),
        }
    }

    /// Returns the sides that a direction waited for, if its receiver accepted no bytes for the
    /// share `blocked` of the time. `stalled` is true if the flow's far end currently accepts
    /// none.
    fn waits(self, is_up: bool, blocked: f64, stalled: bool) -> Waits {
        let blocked = blocked.min(1.0);
        let idle = 1.0 - blocked;
        let (window, far) = match stalled {
            true => (0.0, blocked),
            false => (blocked, 0.0),
        };
        let (application, path, target) = match (self, is_up) {
            (Self::Tunnel, true) => (idle, window, far),
            (Self::Tunnel, false) => (blocked, idle, 0.0),
            (Self::Proxy, true) => (0.0, idle, blocked),
            (Self::Proxy, false) => (far, window, idle),
        };
        Waits {
            application,
            path,
            target,
        }
    }
}

/// Shares of the time since the last look at the list in which a flow's direction waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// For the application to send or to accept bytes.
    pub application: f64,
    /// For the path between tunnel and proxy, or for anything behind it.
    pub path: f64,
    /// For the target to send or to accept bytes.
    pub target: f64,
}

impl Waits {
    /// Returns the side with the longest wait.
    fn longest(&self) -> &'static str {
        let Self {
            application,
            path,
            target,
        } = *self;
        match () {
            () if path >= application && path >= target => "path",
            () if application >= target => "application",
            () => "target",
        }
    }
}

/// A flow's waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// Toward the target.
    pub up: Waits,
    /// From the target.
    pub down: Waits,
}

impl FlowReport {
    /// Creates the report from the shares of time in which the receivers accepted no bytes.
    pub(super) fn new(side: Side, (up, down): (f64, f64), stalled: bool) -> Self {
        Self {
            up: side.waits(true, up, stalled),
            down: side.waits(false, down, stalled),
        }
    }
}

/// The sides that a flow waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BoundedBy {
    /// The side with the longest wait toward the target: `application`, `path` or `target`.
    #[serde(rename = "bounded_by_up")]
    pub up: Option<&'static str>,
    /// The same in the direction from the target.
    #[serde(rename = "bounded_by_down")]
    pub down: Option<&'static str>,
    /// All waits in each direction, or `None` for a UDP flow without a queue in front of the path.
    pub path_report: Option<FlowReport>,
}

impl From<Option<FlowReport>> for BoundedBy {
    fn from(path_report: Option<FlowReport>) -> Self {
        Self {
            up: path_report.map(|report| report.up.longest()),
            down: path_report.map(|report| report.down.longest()),
            path_report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_waits_for_what_it_has() {
        for (side, is_up, blocked, stalled, longest) in [
            (Side::Tunnel, true, 0.25, false, "application"),
            (Side::Tunnel, true, 0.75, false, "path"),
            (Side::Tunnel, true, 0.75, true, "target"),
            (Side::Tunnel, false, 0.25, false, "path"),
            (Side::Tunnel, false, 0.75, true, "application"),
            (Side::Proxy, true, 0.25, false, "path"),
            (Side::Proxy, true, 0.75, true, "target"),
            (Side::Proxy, false, 0.25, false, "target"),
            (Side::Proxy, false, 0.75, false, "path"),
            (Side::Proxy, false, 0.75, true, "application"),
        ] {
            let waits = side.waits(is_up, blocked, stalled);
            assert_eq!(waits.longest(), longest, "{side:?} {is_up} {waits:?}");
            assert_eq!(waits.application + waits.path + waits.target, 1.0);
        }
    }

    #[test]
    fn the_direction_into_the_path_has_the_queue() {
        for side in [Side::Tunnel, Side::Proxy] {
            let report = FlowReport::new(side, side.into_path(0.75), false);
            assert_eq!(
                (report.up.longest(), report.down.longest()),
                ("path", "path")
            );
        }
        let report = |side: Side| FlowReport::new(side, side.into_path(0.25), false);
        assert_eq!(report(Side::Tunnel).up.longest(), "application");
        assert_eq!(report(Side::Proxy).down.longest(), "target");
    }
}
