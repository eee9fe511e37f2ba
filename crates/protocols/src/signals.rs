//! The signals of control laws, for endpoints.

use std::sync::Arc;

use pathmark_cc::{Algorithm, Carrier, Explicit};
use pathmark_transport::{Signal, TransportConfig};
use qs_proto::QuickStartSignal;
use vcp_proto::{VcpEcnSignal, VcpSignal};
use xcp_proto::XcpSignal;

pub use xcp_proto::HostClouds;

use crate::registry;

/// Returns the signal of this kind, or `None` if its protocol is not registered.
pub fn signal(explicit: Explicit) -> Option<Arc<dyn Signal>> {
    Some(match explicit {
        Explicit::Vcp(Carrier::Shim) => Arc::new(VcpSignal::default()),
        Explicit::Vcp(Carrier::Ecn) => Arc::new(VcpEcnSignal),
        Explicit::QuickStart => Arc::new(QuickStartSignal::default()),
        Explicit::Xcp(form) => Arc::new(XcpSignal::from(form)),
        Explicit::Own(kind) => registry::find(kind)?.signal(),
    })
}

/// Returns the signals that a law reads, beginning with its main signal. The signal of XCP counts
/// the clouds of `host`, if given.
pub fn read_by(law: &Algorithm, host: Option<&HostClouds>) -> Vec<Arc<dyn Signal>> {
    let of = |explicit| match (explicit, host) {
        (Explicit::Xcp(form), Some(host)) => {
            let counting = XcpSignal::from(form).with_host_clouds(host.clone());
            Some(Arc::new(counting) as Arc<dyn Signal>)
        }
        _ => signal(explicit),
    };
    law.signals().into_iter().filter_map(of).collect()
}

/// Returns the signals that an endpoint with this law offers: the law's main signal and, if shims
/// carry it, the library's other signals in shims. Each side can then use the signal of its own
/// law.
pub fn offered_by(law: &Algorithm) -> Vec<Arc<dyn Signal>> {
    let own = law.explicit().and_then(signal);
    let known: [Arc<dyn Signal>; 3] = [
        Arc::new(VcpSignal::default()),
        Arc::new(XcpSignal::default()),
        Arc::new(QuickStartSignal::default()),
    ];
    let Some(own) = own else {
        return Vec::new();
    };
    let in_shims = own.shim_len() > 0;
    let others = known
        .into_iter()
        .filter(|other| in_shims && other.kind() != own.kind());
    std::iter::once(Arc::clone(&own)).chain(others).collect()
}

/// Replaces the XCP signals of an endpoint with signals that count the clouds of its host.
pub fn count_clouds(config: &mut TransportConfig, clouds: &HostClouds) {
    for signal in &mut config.signals {
        let form = match signal.shim_len() {
            xcp_proto::header::LEN_COMPACT => pathmark_cc::XcpForm::Compact,
            _ => pathmark_cc::XcpForm::Full,
        };
        if signal.speaks(Explicit::Xcp(form)) {
            let counting = XcpSignal::from(form).with_host_clouds(clouds.clone());
            *signal = Arc::new(counting);
        }
    }
}
