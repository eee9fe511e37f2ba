//! `vcp-router`: see `docs/router.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pathmark_router::cli::main()
}
