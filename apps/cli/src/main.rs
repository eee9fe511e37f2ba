//! The `pathmark` command; see [`pathmark_cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pathmark_cli::main()
}
