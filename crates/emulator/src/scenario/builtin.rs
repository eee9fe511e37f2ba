//! Built-in scenarios.

/// A scenario that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// Lists scenarios by the names of their files.
macro_rules! built_in {
    ($($name:literal)+) => {
        /// All built-in scenarios.
        pub const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),+];
    };
}

built_in! {
    "auto-start" "auto-files" "auto-mice" "auto-loss"
    "arrivals" "five-files" "plain-hop" "parking-lot"
    "vcp-ext-fig2" "vcp-ext-fig4" "vcp-ext-fig5" "vcp-ext-fig5-10g" "vcp-ext-epsilon" "vcp-ext-fig6"
    "vcp-ext-fig7"
    "vcp-linux-fig3" "vcp-linux-fig10" "vcp-linux-bursts" "vcp-linux-fig11"
    "vcp-linux-fig11-antennas"
    "vcp-beside-tcp"
    "xcp-linux-fig3" "xcp-linux-fig5" "xcp-linux-fig6" "xcp-linux-fig7" "xcp-linux-fig8-9"
    "xcp-linux-fig10" "xcp-linux-fig11" "xcp-linux-fig13" "xcp-linux-fig14" "xcp-linux-eq5"
    "xcp-cubic-fig1" "xcp-cubic-fig2" "xcp-cubic-fig3" "xcp-cubic-fig4" "xcp-cubic-fig5"
    "xcp-cubic-fig6" "xcp-cubic-fig7" "xcp-cubic-startup" "xcp-cubic-buffers"
    "xcp-i-fig2" "xcp-i-cells" "xcp-i-fig4" "xcp-i-fig6" "xcp-i-fig8" "xcp-i-fig10" "xcp-i-fig12"
    "xcp-i-fig13" "xcp-i-fig14" "xcp-i-tcp"
}

pub(super) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}
