//! Built-in scenarios.

/// A scenario that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All built-in scenarios.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "auto-start",
        text: include_str!("../../scenarios/auto-start.toml"),
    },
    BuiltIn {
        name: "auto-files",
        text: include_str!("../../scenarios/auto-files.toml"),
    },
    BuiltIn {
        name: "auto-mice",
        text: include_str!("../../scenarios/auto-mice.toml"),
    },
    BuiltIn {
        name: "auto-loss",
        text: include_str!("../../scenarios/auto-loss.toml"),
    },
    BuiltIn {
        name: "arrivals",
        text: include_str!("../../scenarios/arrivals.toml"),
    },
    BuiltIn {
        name: "five-files",
        text: include_str!("../../scenarios/five-files.toml"),
    },
    BuiltIn {
        name: "plain-hop",
        text: include_str!("../../scenarios/plain-hop.toml"),
    },
    BuiltIn {
        name: "parking-lot",
        text: include_str!("../../scenarios/parking-lot.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig2",
        text: include_str!("../../scenarios/vcp-ext-fig2.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig4",
        text: include_str!("../../scenarios/vcp-ext-fig4.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig5",
        text: include_str!("../../scenarios/vcp-ext-fig5.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig5-10g",
        text: include_str!("../../scenarios/vcp-ext-fig5-10g.toml"),
    },
    BuiltIn {
        name: "vcp-ext-epsilon",
        text: include_str!("../../scenarios/vcp-ext-epsilon.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig6",
        text: include_str!("../../scenarios/vcp-ext-fig6.toml"),
    },
    BuiltIn {
        name: "vcp-ext-fig7",
        text: include_str!("../../scenarios/vcp-ext-fig7.toml"),
    },
    BuiltIn {
        name: "vcp-linux-fig3",
        text: include_str!("../../scenarios/vcp-linux-fig3.toml"),
    },
    BuiltIn {
        name: "vcp-linux-fig10",
        text: include_str!("../../scenarios/vcp-linux-fig10.toml"),
    },
    BuiltIn {
        name: "vcp-linux-bursts",
        text: include_str!("../../scenarios/vcp-linux-bursts.toml"),
    },
    BuiltIn {
        name: "vcp-linux-fig11",
        text: include_str!("../../scenarios/vcp-linux-fig11.toml"),
    },
    BuiltIn {
        name: "vcp-linux-fig11-antennas",
        text: include_str!("../../scenarios/vcp-linux-fig11-antennas.toml"),
    },
    BuiltIn {
        name: "vcp-beside-tcp",
        text: include_str!("../../scenarios/vcp-beside-tcp.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig3",
        text: include_str!("../../scenarios/xcp-linux-fig3.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig5",
        text: include_str!("../../scenarios/xcp-linux-fig5.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig6",
        text: include_str!("../../scenarios/xcp-linux-fig6.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig7",
        text: include_str!("../../scenarios/xcp-linux-fig7.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig8-9",
        text: include_str!("../../scenarios/xcp-linux-fig8-9.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig10",
        text: include_str!("../../scenarios/xcp-linux-fig10.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig11",
        text: include_str!("../../scenarios/xcp-linux-fig11.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig13",
        text: include_str!("../../scenarios/xcp-linux-fig13.toml"),
    },
    BuiltIn {
        name: "xcp-linux-fig14",
        text: include_str!("../../scenarios/xcp-linux-fig14.toml"),
    },
    BuiltIn {
        name: "xcp-linux-eq5",
        text: include_str!("../../scenarios/xcp-linux-eq5.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig1",
        text: include_str!("../../scenarios/xcp-cubic-fig1.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig2",
        text: include_str!("../../scenarios/xcp-cubic-fig2.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig3",
        text: include_str!("../../scenarios/xcp-cubic-fig3.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig4",
        text: include_str!("../../scenarios/xcp-cubic-fig4.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig5",
        text: include_str!("../../scenarios/xcp-cubic-fig5.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig6",
        text: include_str!("../../scenarios/xcp-cubic-fig6.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-fig7",
        text: include_str!("../../scenarios/xcp-cubic-fig7.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-startup",
        text: include_str!("../../scenarios/xcp-cubic-startup.toml"),
    },
    BuiltIn {
        name: "xcp-cubic-buffers",
        text: include_str!("../../scenarios/xcp-cubic-buffers.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig2",
        text: include_str!("../../scenarios/xcp-i-fig2.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig4",
        text: include_str!("../../scenarios/xcp-i-fig4.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig6",
        text: include_str!("../../scenarios/xcp-i-fig6.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig8",
        text: include_str!("../../scenarios/xcp-i-fig8.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig10",
        text: include_str!("../../scenarios/xcp-i-fig10.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig12",
        text: include_str!("../../scenarios/xcp-i-fig12.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig13",
        text: include_str!("../../scenarios/xcp-i-fig13.toml"),
    },
    BuiltIn {
        name: "xcp-i-fig14",
        text: include_str!("../../scenarios/xcp-i-fig14.toml"),
    },
    BuiltIn {
        name: "xcp-i-tcp",
        text: include_str!("../../scenarios/xcp-i-tcp.toml"),
    },
];

pub(super) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}
