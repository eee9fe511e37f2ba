//! The tunnel for new flows, which a reload replaces.

use std::sync::{Arc, PoisonError, RwLock};

use pathmark_http3::wire::{TunnelRecv, TunnelSend};
use tokio::io::AsyncRead;

use super::{Flow, Tunnel};
use crate::outbound::{Outbound, Refusal};
use crate::target::Target;

/// The tunnel for new flows. Existing flows keep theirs. Clones share the same switch.
#[derive(Clone, Debug)]
pub struct Switch(Arc<RwLock<Tunnel>>);

impl Switch {
    /// Creates a switch with its first tunnel.
    pub fn new(tunnel: Tunnel) -> Self {
        Self(Arc::new(RwLock::new(tunnel)))
    }

    /// Changes the tunnel for new flows.
    pub fn change(&self, tunnel: Tunnel) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tunnel;
    }

    /// Returns the tunnel for new flows.
    pub fn now(&self) -> Tunnel {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Outbound for Switch {
    type Read = TunnelRecv;
    type Write = TunnelSend;
    type Datagrams = Flow;

    async fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Result<(TunnelRecv, TunnelSend), Refusal> {
        self.now().tcp_early(target, early).await
    }

    async fn udp(&self, target: &Target) -> Result<Flow, Refusal> {
        self.now().udp(target).await
    }
}
