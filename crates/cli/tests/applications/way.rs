//! Ways from an application to its target.

/// What carries the connections, and at what port.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The law of the router's port.
    pub(crate) law: &'static str,
    /// The kernel's congestion control, without a tunnel.
    pub(crate) kernel: Option<&'static str>,
}

pub(crate) const WAYS: [Way; 5] = [
    Way {
        name: "vcp",
        law: "vcp+bise+wlte",
        kernel: None,
    },
    Way {
        name: "xcp",
        law: "xcp",
        kernel: None,
    },
    Way {
        name: "auto",
        law: "cubic",
        kernel: None,
    },
    Way {
        name: "cubic",
        law: "cubic",
        kernel: Some("cubic"),
    },
    Way {
        name: "bbr",
        law: "cubic",
        kernel: Some("bbr"),
    },
];
