//! Ways from an application to its target.

/// The transport of the connections, and the port's law.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The law of the router's port.
    pub(crate) law: &'static str,
    /// The controllers of the tunnel and the proxy.
    pub(crate) cc: &'static str,
    /// The kernel's congestion control, without a tunnel.
    pub(crate) kernel: Option<&'static str>,
}

pub(crate) const WAYS: [Way; 6] = [
    Way {
        name: "vcp",
        law: "vcp+bise+wlte",
        cc: "auto",
        kernel: None,
    },
    Way {
        name: "xcp",
        law: "xcp",
        cc: "auto",
        kernel: None,
    },
    Way {
        name: "auto",
        law: "cubic",
        cc: "auto",
        kernel: None,
    },
    Way {
        name: "fallback",
        law: "cubic",
        cc: "auto[fallback=bbr]",
        kernel: None,
    },
    Way {
        name: "cubic",
        law: "cubic",
        cc: "auto",
        kernel: Some("cubic"),
    },
    Way {
        name: "bbr",
        law: "cubic",
        cc: "auto",
        kernel: Some("bbr"),
    },
];
