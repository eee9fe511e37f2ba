//! Runs the public interop runner's cases between this library and quinn, in both roles, and prints
//! the Markdown table of docs/evidence/interop.md.
//!
//! `cargo run -p pathmark-driver --example interop [-- CASE…]`

#[path = "../tests/it/interop/cases.rs"]
mod cases;
#[path = "../tests/it/interop/resumption.rs"]
mod resumption;
#[path = "../tests/it/interop/support/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;
#[path = "shared/table.rs"]
mod table;
#[path = "../tests/it/interop/zero_rtt.rs"]
mod zero_rtt;

use std::process::ExitCode;

use support::peers::STRANGERS;

/// The runner's cases that are not run, and why.
const NOT_RUN: [(&str, &str); 4] = [
    ("http3, v2", "another protocol, another version"),
    (
        "half of handshakecorruption at quinn's server",
        "it ends a connection whose first packet was damaged",
    ),
    (
        "goodput, crosstraffic",
        "measurements, not judgements; see `pathmark demo` and docs/evidence/figures",
    ),
    ("versionnegotiation", "a test of its own (`version`)"),
];

#[tokio::main]
async fn main() -> ExitCode {
    let titles = ["our client, quinn's server", "quinn's client, our server"];
    table::print(titles, STRANGERS, |_, _| true, &NOT_RUN).await
}
