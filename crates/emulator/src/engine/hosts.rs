//! Receivers with virtual routers for the hops after the last XCP router.

use std::collections::BTreeMap;

use pathmark_protocols::signals::HostClouds;

use crate::scenario::{FlowSetup, Scenario};

/// The virtual routers of nodes. All flows to a node share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(BTreeMap<usize, HostClouds>);

impl Hosts {
    /// Creates them for the scenario's flows with a `receiver_estimate`.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let flows = scenario.flows.iter();
        let wanted = flows.filter(|flow| flow.receiver_estimate.is_some());
        Self(wanted.map(|flow| (flow.to, HostClouds::new())).collect())
    }

    /// Those of a flow's receiver, if the flow has a `receiver_estimate`.
    pub(super) fn of(&self, flow: &FlowSetup) -> Option<&HostClouds> {
        flow.receiver_estimate.and_then(|_| self.at(flow.to))
    }

    /// Those at a node.
    pub(super) fn at(&self, node: usize) -> Option<&HostClouds> {
        self.0.get(&node)
    }
}
