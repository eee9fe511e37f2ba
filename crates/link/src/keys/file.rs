//! Files of keys: how they are read, and errors in them, with their places.
//!
//! Only regular files are read. A pipe, a socket or a device is an error instead, so that reading
//! cannot hang.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// Key, or the table's name if the line has no key.
    pub key: Option<String>,
    /// The error and its remedy.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.path.display(), self.line)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A file's text, for locating errors.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, for messages.
    pub path: &'a Path,
    /// Its contents.
    pub text: &'a str,
}

impl Source<'_> {
    /// Creates a fault at the start of `span`, in bytes of the text; without one, at the first
    /// line.
    pub fn locate(&self, span: Option<Range<usize>>, message: impl Into<String>) -> Fault {
        let at = span.map_or(0, |span| span.start).min(self.text.len());
        let before = self.text.get(..at).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        Fault {
            path: self.path.to_owned(),
            line,
            key: self.key(line, at),
            message: message.into(),
        }
    }

    /// Returns true if the value at `span`, or the `rate` of the inline table there, is a number
    /// without quotes.
    pub fn is_bare(&self, span: &Range<usize>) -> bool {
        let text = self.text.get(span.clone()).unwrap_or("");
        let value = toml::from_str::<toml::Table>(&format!("rate = {text}"))
            .or_else(|_| toml::from_str::<toml::Table>(text));
        let mut rate = value.as_ref().ok().and_then(|table| table.get("rate"));
        if let Some(toml::Value::Table(inner)) = rate {
            rate = inner.get("rate");
        }
        matches!(rate, Some(toml::Value::Integer(_)))
    }

    /// The key that precedes `at` on a line; for an inline table, the innermost one.
    fn key(&self, line: usize, at: usize) -> Option<String> {
        let text = self.text.lines().nth(line - 1)?.trim();
        if text.starts_with('[') && !text.contains('=') {
            return Some(text.trim_matches(['[', ']']).trim().to_owned());
        }
        let outer = text.split_once('=')?.0.trim();
        let start = self.text.get(..at)?.rfind('\n').map_or(0, |n| n + 1);
        let rest = self.text.get(at..)?;
        let end = rest.find(['=', ',', '\n']).map_or(at, |n| at + n);
        let reached = self.text.get(start..at.max(end))?;
        let inner = reached.rsplit(['{', ',']).find_map(|part| {
            let key = part.split('=').next()?.trim();
            let of_keys = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            (!key.is_empty() && key.chars().all(of_keys)).then(|| key.to_owned())
        });
        match inner {
            Some(inner) if reached.contains('{') && inner != outer => {
                Some(format!("{outer}.{inner}"))
            }
            _ => Some(outer.to_owned()),
        }
    }

    /// Converts an error of the TOML parser, with a message of ours.
    pub fn syntax(&self, error: &toml::de::Error) -> Fault {
        self.locate(error.span(), explain(error.message()))
    }
}

/// Rewords the parser's "unknown field" and "unknown variant", with the nearest known name, or with
/// all names.
fn explain(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let field = message.strip_prefix("unknown field ");
    let variant = message.strip_prefix("unknown variant ");
    match (words.next(), field.or(variant)) {
        (Some(given), Some(rest)) => match (nearest(given, words), variant) {
            (Some(meant), _) => format!("unknown name `{given}`: did you mean `{meant}`?"),
            (None, Some(_)) => format!(
                "unknown value {}",
                rest.replacen(", expected", ": write", 1)
            ),
            (None, None) => format!("unknown name {rest}"),
        },
        _ => plain(&message.trim_end().replace('\n', " ")),
    }
}

/// Describes the types of values by the form that you write them in.
fn plain(message: &str) -> String {
    // The parser's own representation of numbers that exceed 64 bits.
    let message = message.replace("` as i128", "`").replace("` as u128", "`");
    let address = "an address and a port such as \"127.0.0.1:9464\"";
    let message = message.replace("invalid socket address syntax", &format!("write {address}"));
    let Some((given, expected)) = message.rsplit_once(", expected ") else {
        return message;
    };
    let (least, most): (i128, i128) = match expected {
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" | "usize" => (0, u64::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" => (i64::MIN.into(), i64::MAX.into()),
        "f32" | "f64" => return format!("{given}, expected a number"),
        "a string" => return format!("{given}, expected text in quotes"),
        "socket address" => return format!("{given}, expected {address}"),
        "internally tagged enum LossSpec" => {
            return format!("{given}, expected {{ kind = \"bernoulli\", per = 0.01 }}");
        }
        _ => return message,
    };
    format!("{given}, expected a whole number from {least} to {most}")
}

/// Returns the entry of `known` with the smallest edit distance from `given`, if it is at most
/// two letters or a third of the word.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::levenshtein(given, word), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(2))
        .map(|(_, word)| word)
}

/// Maximum length of the text, in bytes: more than a million routes.
const LONGEST: u64 = 256 << 20;

/// Opens the regular file at `path` for reading, without waiting for the writer of a pipe.
///
/// # Errors
/// Errors of the file system; [`io::ErrorKind::Other`] for anything that is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !found.is_file() {
        let what = "it is a pipe, a socket or a device; a regular file is needed";
        return Err(io::Error::other(what));
    }
    Ok(file)
}

/// Reads the text of the regular file at `path`, of at most 256 MiB.
///
/// # Errors
/// Errors of [`open_regular`], a longer file, or text that is not UTF-8.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = open_regular(path)?;
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        Err(io::Error::other("it is longer than 256 MiB"))
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["rate", "delay", "queue", "frame_overhead"];
        assert_eq!(nearest("rte", known), Some("rate"));
        assert_eq!(nearest("frame-overhed", known), Some("frame_overhead"));
        assert_eq!(nearest("colour", known), None);
    }

    /// Returns the text at a path, or its error, within ten seconds.
    fn said(path: &Path) -> String {
        let (tell, hear) = mpsc::channel();
        let path = path.to_owned();
        std::thread::spawn(move || {
            tell.send(read_regular(&path).unwrap_or_else(|e| e.to_string()))
        });
        hear.recv_timeout(Duration::from_secs(10))
            .expect("the file is still being read")
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(said(&pipe).contains("it is a pipe"), "{}", said(&pipe));
        // A writer that holds the pipe open without writing makes no difference.
        let mut both = File::options();
        let writer = both.read(true).write(true).open(&pipe).unwrap();
        assert!(said(&pipe).contains("it is a pipe"));
        drop(writer);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(said(&link).contains("a device"), "{}", said(&link));
        assert!(said(dir.path()).contains("it is a directory"));
        let long = dir.path().join("long");
        File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(said(&long).contains("longer than 256 MiB"));
        fs::remove_file(&link).unwrap();
        fs::write(pipe.with_extension("toml"), "id = 1\n").unwrap();
        std::os::unix::fs::symlink("pipe.toml", &link).unwrap();
        assert_eq!(said(&link), "id = 1\n");
    }
}
