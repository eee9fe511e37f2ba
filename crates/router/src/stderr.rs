//! The log on stderr.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes one line to stderr, prefixed with the program's name. If stderr cannot be written (a
/// full disk, a closed pipe), the line is lost, but forwarding continues. `eprintln!` would
/// panic instead.
pub(crate) fn line(text: Arguments<'_>) {
    // One write per line, so that lines of several threads do not mix.
    let line = format!("vcp-router: {text}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Logs a [`line`] from the arguments of `format!`.
macro_rules! log_line {
    ($($argument:tt)*) => { $crate::stderr::line(format_args!($($argument)*)) };
}

pub(crate) use log_line;
