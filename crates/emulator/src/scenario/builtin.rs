//! Scenarios that come with the library.

/// A scenario that is run by its name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All of them.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "five-files",
        text: include_str!("../../scenarios/five-files.toml"),
    },
    BuiltIn {
        name: "parking-lot",
        text: include_str!("../../scenarios/parking-lot.toml"),
    },
];

pub(super) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}
