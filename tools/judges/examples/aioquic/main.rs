//! Runs the public interop runner's cases between this library and aioquic, in both roles, and
//! prints the Markdown table of docs/evidence/interop.md.
//!
//! `tools/judges/aioquic/run.sh [CASE…]` first installs aioquic below `target/`. Without this
//! script, the program uses the Python that `AIOQUIC_PYTHON` names.

#[path = "../../../../crates/driver/tests/it/interop/cases.rs"]
mod cases;
#[path = "../../../../crates/driver/tests/it/interop/resumption.rs"]
mod resumption;
#[path = "../shared/roles.rs"]
mod roles;
mod support;
#[path = "../../../../crates/driver/examples/shared/table.rs"]
mod table;
#[path = "../../../../crates/driver/tests/it/interop/zero_rtt.rs"]
mod zero_rtt;

use std::process::ExitCode;

use roles::{NotRun, Role};

const NOT_RUN: [NotRun; 1] = [(
    "ecn",
    &[Role::Client, Role::Server],
    "it neither sets marks nor reports them",
)];

#[tokio::main]
async fn main() -> ExitCode {
    roles::judge("aioquic", &NOT_RUN).await
}
