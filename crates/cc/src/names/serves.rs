//! Ports and signals that a sender's law uses.

use super::link::LinkAlgorithm;
use super::own::PORTS;
use super::sender::Algorithm;
use crate::signals::{Carrier, Explicit};

impl Algorithm {
    /// Returns the law of ports that answer this law's requests, or `None` if this law doesn't read
    /// any routers' answers, or if its protocol doesn't have a registered port.
    pub fn port(&self) -> Option<LinkAlgorithm> {
        let name = match self.explicit()? {
            Explicit::QuickStart => "quick-start",
            Explicit::Xcp(_) if self.name() == "xcp-i" => "xcp-i",
            Explicit::Xcp(_) => "xcp",
            Explicit::Vcp(_) if self.name().contains("bise") => "vcp+bise",
            Explicit::Vcp(_) => "vcp",
            Explicit::Own(kind) => PORTS.find(|port| port.protocol == kind)?.name,
        };
        LinkAlgorithm::parse(name).ok()
    }

    /// Returns the signals that the law reads, starting with the one that it begins with.
    pub fn signals(&self) -> Vec<Explicit> {
        let mut signals: Vec<_> = self.explicit().into_iter().collect();
        if self.chooses() {
            signals.push(Explicit::Vcp(Carrier::Shim));
        }
        if self.asks_start() && !signals.contains(&Explicit::QuickStart) {
            signals.push(Explicit::QuickStart);
        }
        signals
    }

    /// Returns true if a router may grant the law a large rate at once, so that its peer must offer
    /// a large window beforehand.
    pub const fn is_granted(&self) -> bool {
        self.asks_start() || matches!(self.explicit(), Some(Explicit::Xcp(_) | Explicit::Own(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_has_a_port_if_it_reads_one() {
        for (law, port) in [
            ("cubic", None),
            ("bbr", None),
            ("newreno", None),
            ("cubiq", Some("quick-start")),
            ("ada", Some("quick-start")),
            ("vcp", Some("vcp")),
            ("vcp+wlte", Some("vcp")),
            ("vcp[carrier=ecn]", Some("vcp")),
            ("vcp+bise", Some("vcp+bise")),
            ("vcp+bise+wlte", Some("vcp+bise")),
            ("xcp", Some("xcp")),
            ("xcp-i", Some("xcp-i")),
            ("auto", Some("xcp")),
        ] {
            let found = Algorithm::parse(law).unwrap().port();
            assert_eq!(found.as_ref().map(LinkAlgorithm::name), port, "{law}");
        }
    }

    #[test]
    fn signals_of_laws_that_read_several() {
        let of = |law: &str| Algorithm::parse(law).unwrap().signals().len();
        assert_eq!((of("cubic"), of("xcp"), of("cubiq")), (0, 1, 1));
        assert_eq!((of("xcp[start=quick-start]"), of("auto")), (2, 3));
    }
}
