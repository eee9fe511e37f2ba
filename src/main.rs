//! The `pathmark` command; see [`pathmark::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pathmark::cli::main()
}
