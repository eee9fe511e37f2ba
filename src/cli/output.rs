//! What people and scripts see.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Sends log lines to stderr if `RUST_LOG` asks for them.
pub(super) fn log() {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            // It would tell on stderr that stderr takes nothing, by `eprintln!`.
            .log_internal_errors(false)
            .init();
    }
}

/// Prints the one JSON object of a command.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    print(|out| out.write_all(&text))
}

/// Prints what a command reports.
pub(super) fn text(text: Arguments<'_>) -> anyhow::Result<()> {
    print(|out| out.write_fmt(text))
}

/// Prints a line of what a command reports.
pub(super) fn line(text: Arguments<'_>) -> anyhow::Result<()> {
    print(|out| writeln!(out, "{text}"))
}

/// Tells people a line on stderr. One that cannot be written is lost: no job fails for that.
/// `eprintln!` would panic.
pub(super) fn tell(text: Arguments<'_>) {
    let line = format!("{text}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Tells as [`tell`] does, with the arguments of `format!`.
macro_rules! note {
    ($($argument:tt)*) => { $crate::cli::output::tell(format_args!($($argument)*)) };
}

pub(super) use note;

/// An error and its causes in one line. A cause that the text before it ends with is not said
/// again.
pub(super) fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints to stdout. A reader that has read enough and has gone away is no failure; a full disk is.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to the standard output"))
        }
        _ => Ok(()),
    }
}

/// Progress bars on stderr; invisible where nobody looks.
pub(super) fn bars() -> MultiProgress {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    };
    MultiProgress::with_draw_target(target)
}

/// A bar that counts bytes.
pub(super) fn byte_bar(bars: &MultiProgress, name: &str, total: u64) -> ProgressBar {
    let bar = bars.add(ProgressBar::new(total));
    let style = ProgressStyle::with_template(
        "{prefix:24!} {wide_bar:.cyan/blue} {bytes:>11} of {total_bytes:11} {bytes_per_sec:>13} \
         {eta:>4}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.set_prefix(name.to_owned());
    bar
}

/// Bits per second for people.
pub(super) fn rate(bits_per_second: f64) -> String {
    let (scaled, unit) = match bits_per_second {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b => (b / 1e3, "kbit/s"),
    };
    format!("{scaled:.2} {unit}")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    #[test]
    fn a_cause_is_said_once() {
        let lost = std::io::Error::other("timed out");
        let error = crate::file::client::TransferError::Stream(lost);
        let error = Err::<(), _>(error).context("cannot fetch a").unwrap_err();
        let text = super::explain(&error);
        assert_eq!(text, "cannot fetch a: the transfer broke off: timed out");
    }
}
