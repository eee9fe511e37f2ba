//! XCP as a signal of the transport.

use pathmark_cc::{Countable, Explicit, Feedback, Request, XcpForm};
use pathmark_shim::Kind;
use pathmark_transport::{Arrived, BadFeedback, Counters, Ecn, Meter, Signal};

use crate::counters::{Counted, Totals};
use crate::header::{Form, Packet, Repr};
use crate::host::{Arrivals, HostClouds};

/// Default TTL or hop limit of sent packets.
const USUAL_TTL: u8 = 64;

/// XCP in a shim.
#[derive(Clone, Debug)]
pub struct XcpSignal {
    form: Form,
    ttl: u8,
    host: Option<HostClouds>,
}

impl XcpSignal {
    /// Creates the signal in the full form, for packets sent with a TTL of 64. The form has room
    /// for IPv4 addresses of routers, or for IPv6 addresses if the path uses IPv6.
    pub const fn new() -> Self {
        Self {
            form: Form::V4,
            ttl: USUAL_TTL,
            host: None,
        }
    }

    /// Selects another form. The full form with IPv6 addresses is then also used over IPv4.
    #[must_use]
    pub const fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Sets the TTL with which packets are sent. If it differs from the IP header's, hops without
    /// an XCP router cannot be detected.
    #[must_use]
    pub const fn with_sent_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Handles arriving packets that crossed hops without XCP routers with the host's virtual
    /// routers.
    #[must_use]
    pub fn with_host_clouds(mut self, host: HostClouds) -> Self {
        self.host = Some(host);
        self
    }
}

impl XcpSignal {
    /// The form of the header for this request: the form that the request names, if any, with room
    /// for the addresses of the path's routers.
    #[inline]
    const fn form_of(&self, request: &Request) -> Form {
        match (request.signal, self.form) {
            (Some(Explicit::Xcp(XcpForm::Full)), form) => full(form, request.ipv6),
            (Some(Explicit::Xcp(XcpForm::Compact)), _) | (_, Form::Compact) => Form::Compact,
            (_, form) => full(form, request.ipv6),
        }
    }
}

/// The full form for a path that uses IPv6 or IPv4, if the configured form is `own`.
#[inline]
const fn full(own: Form, ipv6: bool) -> Form {
    match own {
        Form::V4 | Form::Compact if !ipv6 => Form::V4,
        _ => Form::V6,
    }
}

impl Default for XcpSignal {
    fn default() -> Self {
        Self::new()
    }
}

impl From<XcpForm> for XcpSignal {
    fn from(form: XcpForm) -> Self {
        Self::new().with_form(match form {
            XcpForm::Full => Form::V4,
            XcpForm::Compact => Form::Compact,
        })
    }
}

impl Signal for XcpSignal {
    fn kind(&self) -> u8 {
        Kind::XCP.number()
    }

    fn shim_len(&self) -> usize {
        self.form.len()
    }

    /// Depends on the form that the request names, or the configured one, and on the path's IP
    /// version.
    #[inline]
    fn len_of(&self, request: &Request) -> usize {
        self.form_of(request).len()
    }

    fn longest(&self, ipv6: bool) -> usize {
        full(self.form, ipv6).len()
    }

    fn speaks(&self, wanted: Explicit) -> bool {
        matches!(wanted, Explicit::Xcp(_))
    }

    /// A controller without a request gets a header that routers do not change. A buffer shorter
    /// than [`len_of`](Self::len_of) stays unchanged.
    fn fill(&self, request: &Request, shim: &mut [u8]) {
        // This only fails if there is not enough room.
        let _ = Repr::initial(self.form_of(request), request.xcp.as_ref(), self.ttl).emit(shim);
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(XcpMeter {
            totals: Totals::default(),
            arrivals: self.host.clone().map(Arrivals::new),
        })
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let read = |counters: &Counters| Totals::decode(counters.as_slice());
        let older = older.map_or(Ok(Totals::default()), read)?;
        let feedback = read(newer)?.since(&older, sent, Some(self.ttl))?;
        Ok(Feedback::Xcp(feedback))
    }
}

/// Counts only packets that carry a header.
#[derive(Debug)]
struct XcpMeter {
    totals: Totals,
    /// Present if the host has virtual routers.
    arrivals: Option<Arrivals>,
}

impl Meter for XcpMeter {
    #[inline]
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        let Some(Ok(header)) = arrived.shim.map(Packet::parse) else {
            return;
        };
        let congested = arrived.ecn == Ecn::Ce;
        let counted = Counted::read(&header, arrived.bytes, arrived.ttl, congested);
        if let Some(mut counted) = counted {
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.lower(&header, &mut counted, arrived);
            }
            self.totals.add(&counted);
        }
    }

    fn counters(&self) -> Option<Counters> {
        if self.totals.is_empty() {
            return None;
        }
        let mut counters = Counters::new();
        self.totals
            .encode()
            .all(|total| counters.push(total))
            .then_some(counters)
    }
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
