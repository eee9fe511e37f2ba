//! `vcp-router` as a process and as a library.

#![expect(clippy::disallowed_methods, reason = "these tests run in real time")]

mod alerts;
mod background;
mod bed;
mod capacity;
mod card_rates;
mod cards;
mod closed;
mod deploy;
mod floods;
mod fuzz_control;
mod fuzz_router;
mod measure;
mod memory;
mod networkd;
mod seen;
mod setup;
mod status;
mod steering;
mod systemd;
mod trust;
mod tun;
mod unread;
mod want;
mod watched;

/// The program under test.
fn vcp_router() -> std::process::Command {
    std::process::Command::new(env!("CARGO_BIN_EXE_vcp-router"))
}
