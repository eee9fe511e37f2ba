//! What the program tells whoever reads its log.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes one line to stderr, with the program's name in front. A log that takes nothing (a full
/// disk, a reader that has gone away) is no reason to stop forwarding: what it does not take is
/// lost. `eprintln!` would panic.
pub(crate) fn line(text: Arguments<'_>) {
    // In one piece, so that lines of several threads do not mix.
    let line = format!("vcp-router: {text}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Tells as [`line`] does, with the arguments of `format!`.
macro_rules! tell {
    ($($argument:tt)*) => { $crate::tell::line(format_args!($($argument)*)) };
}

pub(crate) use tell;
