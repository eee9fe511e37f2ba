//! Human-readable output, and output for scripts.

use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pathmark_http3::fields::is_obeyed;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

mod queue;

/// Escapes control characters (`\u{1b}`) except those in `kept`. Otherwise a terminal would
/// interpret them, and most output contains names that a peer chose.
fn escape<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_bad = |c: char| is_obeyed(c) && !kept.contains(&c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bad(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Escapes a name or a foreign message for use within a line.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    escape(text, &[])
}

/// Logs to stderr, filtered by `RUST_LOG` or else by `usual`. Only servers have a `usual`
/// filter, and their log never waits for a reader.
pub(super) fn log(usual: Option<&str>) {
    if usual.is_some() {
        queue::begin();
    }
    let filter = match (std::env::var_os("RUST_LOG"), usual) {
        (Some(_), _) => EnvFilter::from_default_env(),
        (None, Some(usual)) => EnvFilter::new(usual),
        (None, None) => return,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        // Only developers know the modules.
        .with_target(std::env::var_os("RUST_LOG").is_some())
        .with_writer(|| LogLine)
        // Otherwise it would report failures of stderr on stderr using `eprintln!`.
        .log_internal_errors(false)
        .init();
}

/// Receives one log line per call.
struct LogLine;

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        tell(format_args!(
            "{}",
            plain(String::from_utf8_lossy(line).trim_end_matches('\n'))
        ));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a command has printed its object.
static PRINTED: AtomicBool = AtomicBool::new(false);

pub(super) fn has_printed_json() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// Prints a command's JSON object.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    PRINTED.store(true, Ordering::Relaxed);
    let text = json_text(value)?;
    print(&text)
}

/// Formats JSON. Since JSON only escapes U+0000 to U+001F, the other control characters, which
/// only occur in strings, are escaped in the same form.
pub(super) fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = String::new();
    for c in serde_json::to_string(value)?.chars() {
        if is_obeyed(c) {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    Ok(text)
}

/// Prints a command's report.
pub(super) fn text(text: Arguments<'_>) -> anyhow::Result<()> {
    print(&escape(&text.to_string(), &['\n', '\t']))
}

/// Prints a table, which on a terminal replaces the previous content.
pub(super) fn screen(table: &str) -> anyhow::Result<()> {
    let clear = if io::stdout().is_terminal() {
        // Moves the cursor home and erases everything after it (ECMA-48).
        "\u{1b}[H\u{1b}[J"
    } else {
        ""
    };
    print(&format!("{clear}{}", escape(table, &['\n', '\t'])))
}

/// Prints a line of a command's report.
pub(super) fn line(line: Arguments<'_>) -> anyhow::Result<()> {
    text(format_args!("{line}\n"))
}

/// Writes a page in Markdown, and prints its path.
pub(super) fn page(path: &Path, page: &str) -> anyhow::Result<()> {
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    line(format_args!("{}", path.display()))
}

/// Prints a human-readable line on stderr. Failures are ignored so that they never fail a job,
/// whereas `eprintln!` would panic.
pub(super) fn tell(text: Arguments<'_>) {
    let line = format!("{text}\n");
    let line = escape(&line, &['\n', '\t']).into_owned();
    if let Some(line) = queue::add(line) {
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Waits until all lines on stderr are written, if they are being read.
pub(super) fn settle() {
    queue::settle();
}

/// Does the same as [`tell`], with the arguments of `format!`.
macro_rules! note {
    ($($argument:tt)*) => { $crate::command::output::tell(format_args!($($argument)*)) };
}

pub(super) use note;

/// Formats an error and its causes in one line. A cause that the text already contains is not
/// repeated.
pub(super) fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    plain(&text).into_owned()
}

/// Prints to stdout. A pipe closed by its reader is not an error, but a full disk is.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to the standard output"))
        }
        _ => Ok(()),
    }
}

/// Returns progress bars on stderr, which are hidden with `quiet` or without a terminal.
pub(super) fn bars(quiet: bool) -> MultiProgress {
    let target = if !quiet && std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    };
    MultiProgress::with_draw_target(target)
}

/// Adds a bar with a template and a name.
pub(super) fn styled(
    bars: &MultiProgress,
    bar: ProgressBar,
    template: &str,
    name: &str,
) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let bar = bars.add(bar);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(plain(name).into_owned());
    bar
}

/// Returns a bar that counts bytes.
pub(super) fn byte_bar(bars: &MultiProgress, name: &str, total: u64) -> ProgressBar {
    let template = "{prefix:24!} {wide_bar:.cyan/blue} {decimal_bytes:>10} of \
                    {decimal_total_bytes:10} {decimal_bytes_per_sec:>12} {eta:>4}";
    styled(bars, ProgressBar::new(total), template, name)
}

/// Returns a bar for the bytes of a directory, in which more may be found. Its message is the
/// number of entries.
pub(super) fn count_bar(bars: &MultiProgress, name: &str) -> ProgressBar {
    let template = "{prefix:24!} {msg} done, {decimal_bytes} of {decimal_total_bytes}, \
                    {decimal_bytes_per_sec}, {eta}";
    styled(bars, ProgressBar::new(0).with_message("0"), template, name)
}

/// Returns a bar that counts milliseconds up to `time`.
pub(super) fn time_bar(bars: &MultiProgress, name: &str, time: Duration) -> ProgressBar {
    let total = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let template = format!("{{prefix:24!}} {{wide_bar:.cyan/blue}} {{elapsed}} of {time:?}");
    styled(bars, ProgressBar::new(total), &template, name)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use pathmark_http3::wire::LinkError;

    use super::*;

    /// ESC, CR, DEL, and a character of the C1 set (CSI).
    const HOSTILE: &str = "a\u{1b}[2Jb\rc\u{7f}d\u{9b}31m\ne";

    #[test]
    fn no_control_character_is_printed() {
        let shown = "a\\u{1b}[2Jb\\rc\\u{7f}d\\u{9b}31m\\ne";
        assert_eq!(plain(HOSTILE), shown);
        let error = anyhow::anyhow!("{HOSTILE}");
        assert_eq!(explain(&error), shown);
        assert_eq!(escape("a\n\tb\r", &['\n', '\t']), "a\n\tb\\r");
        assert_eq!(plain("äöü 世界"), "äöü 世界");
        let turned = "a\u{202e}gpj.exe\u{2028}\u{2066}";
        assert_eq!(plain(turned), "a\\u{202e}gpj.exe\\u{2028}\\u{2066}");
        let json = json_text(&turned).unwrap();
        assert_eq!(json, "\"a\\u202egpj.exe\\u2028\\u2066\"\n");
    }

    #[test]
    fn json_holds_them_as_escapes() {
        let text = json_text(&HOSTILE).unwrap();
        assert!(!text.trim_end().contains(char::is_control), "{text}");
        let back: String = serde_json::from_str(&text).unwrap();
        assert_eq!(back, HOSTILE);
    }

    #[test]
    fn a_cause_is_said_once() {
        let lost = std::io::Error::other("timed out");
        let error = pathmark_http3::client::PutError::Storage(lost);
        let error = Err::<(), _>(error).context("cannot fetch a").unwrap_err();
        let text = super::explain(&error);
        assert_eq!(text, "cannot fetch a: cannot read the file: timed out");
        let lost = pathmark_http3::client::GetError::Link(LinkError::TimedOut);
        let text = super::explain(&lost.into());
        assert_eq!(text.matches("try again").count(), 1, "{text}");
    }
}
