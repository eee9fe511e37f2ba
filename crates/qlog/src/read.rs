//! Reading of logs, also of those that another program wrote or that ended in the middle.

use std::io::{BufRead, Read};

use serde::Deserialize;
use serde_json::Value;

use crate::encoder::RECORD_SEPARATOR;

/// The longest record that is read.
const LONGEST_RECORD: u64 = 1 << 20;
/// The latest time of an event, in milliseconds.
const LATEST_MS: f64 = 1e12;

/// An event of a log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Record {
    /// Milliseconds since the connection began.
    pub time: f64,
    /// Name of the event, such as `quic:packet_sent`.
    pub name: String,
    /// The event's data.
    #[serde(default)]
    pub data: Value,
}

/// Why a log can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file can't be read.
    #[error("cannot read it: {0}")]
    Io(#[from] std::io::Error),
    /// The file doesn't begin with the header of a sequential qlog.
    #[error("it isn't a log in the sequential format of qlog (JSON-SEQ)")]
    NotALog,
    /// The record of this number, counted from 0, is longer than 1 MiB.
    #[error("record {0} is longer than 1 MiB")]
    TooLong(u64),
    /// The event of this number has a time before the log begins, or 30 years after it.
    #[error("record {0} has an impossible time")]
    Time(u64),
    /// The record of this number isn't an event.
    #[error("record {0} isn't an event: {1}")]
    Malformed(u64, serde_json::Error),
}

/// Reads a log, and calls `on_record` for each event. A last record that was cut off, because the
/// program ended or the disk was full, is left out. Returns the number of events.
///
/// # Errors
/// Returns [`LogError`] for anything but a log.
pub fn read(mut from: impl BufRead, mut on_record: impl FnMut(Record)) -> Result<u64, LogError> {
    let mut separator = [0];
    if from.read(&mut separator)? != 1 || separator != [RECORD_SEPARATOR] {
        return Err(LogError::NotALog);
    }
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        bytes.clear();
        (from.by_ref().take(LONGEST_RECORD)).read_until(RECORD_SEPARATOR, &mut bytes)?;
        let is_last = bytes.pop_if(|byte| *byte == RECORD_SEPARATOR).is_none();
        if is_last && bytes.len() as u64 == LONGEST_RECORD {
            return Err(LogError::TooLong(number));
        }
        let is_cut = is_last && !bytes.ends_with(b"\n");
        if number == 0 {
            let header: Value = serde_json::from_slice(&bytes).map_err(|_| LogError::NotALog)?;
            if !header["trace"].is_object() {
                return Err(LogError::NotALog);
            }
        } else if !is_cut {
            let record = serde_json::from_slice(&bytes);
            let record: Record = record.map_err(|error| LogError::Malformed(number, error))?;
            if !(0.0..LATEST_MS).contains(&record.time) {
                return Err(LogError::Time(number));
            }
            on_record(record);
        }
        if is_last {
            return Ok(number.saturating_sub(u64::from(is_cut)));
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_RECORD, LogError, Record, read};

    const HEADER: &str = "\u{1e}{\"trace\":{}}\n";

    fn names(text: &str) -> Result<Vec<String>, LogError> {
        let mut names = Vec::new();
        read(text.as_bytes(), |record: Record| names.push(record.name))?;
        Ok(names)
    }

    #[test]
    fn a_record_that_was_cut_off_is_left_out() {
        let event = "\u{1e}{\"time\":1,\"name\":\"a:b\",\"data\":{}}\n";
        let whole = format!("{HEADER}{event}{event}");
        assert_eq!(names(&whole).unwrap(), ["a:b", "a:b"]);
        for cut in 1..event.len() - 1 {
            let text = &whole[..whole.len() - cut];
            assert_eq!(names(text).unwrap(), ["a:b"], "{text}");
        }
        assert_eq!(names(HEADER).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_log_gives_an_error_that_says_so() {
        let long = format!("{HEADER}\u{1e}{}", " ".repeat(LONGEST_RECORD as usize));
        for (text, expected) in [
            ("", "it isn't a log"),
            ("{}", "it isn't a log"),
            ("\u{1e}{}\n", "it isn't a log"),
            ("\u{1e}[1\n", "it isn't a log"),
            (
                "\u{1e}{\"trace\":{}}\n\u{1e}[]\n",
                "record 1 isn't an event",
            ),
            (
                "\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":-1,\"name\":\"a\"}\n",
                "record 1 has an impossible time",
            ),
            (
                "\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":1e300,\"name\":\"a\"}\n",
                "record 1 has an impossible time",
            ),
            (long.as_str(), "record 1 is longer than 1 MiB"),
        ] {
            let error = names(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn fuzz_logs_of_any_bytes() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let mut log = HEADER.as_bytes().to_vec();
            log.extend_from_slice(bytes);
            let mut count = 0;
            let read_all = read(&*log, |_| count += 1);
            assert!(read_all.is_err() || read_all.is_ok_and(|events| events == count));
            let _ = read(bytes, |_| {});
        });
    }
}
