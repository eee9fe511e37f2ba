//! `vcp-router`: see `docs/router/operation.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pathmark_router::cli::main()
}
