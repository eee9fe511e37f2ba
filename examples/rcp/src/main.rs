//! The `pathmark` command with RCP: `rcp emulate`, `rcp compare`, `rcp perf`, `rcp vcp-router`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = pathmark_rcp::register() {
        eprintln!("rcp: {error}");
        return ExitCode::FAILURE;
    }
    pathmark_cli::main()
}
