//! The files that a run writes to a directory: `result.json`, `flows.csv`, `links.csv`, and
//! captures of links.
//!
//! The tables have one row per point and flow or link; empty values are unknown or do not apply.
//! The captures are for Wireshark and similar programs: pcapng (draft-ietf-opsawg-pcapng), one
//! interface, raw IP.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pathmark_cc::{Duration, FallbackReason};

use crate::observe::{Observer, Progress, Sample};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Output that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or the directory.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A file in the making. Its errors have its path.
struct OutputFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl OutputFile {
    /// Creates the file with the bytes that `begin` writes.
    fn create(
        path: &Path,
        begin: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Self, OutputError> {
        let file = File::create(path).map(BufWriter::new);
        let file = file.map_err(|source| failed(path, source))?;
        let path = path.to_owned();
        let mut created = Self { path, file };
        created.write(begin)?;
        Ok(created)
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        write(&mut self.file).map_err(|source| failed(&self.path, source))
    }

    fn finish(mut self) -> Result<(), OutputError> {
        self.write(BufWriter::flush)
    }
}

fn failed(path: &Path, source: io::Error) -> OutputError {
    OutputError::Write {
        path: path.to_owned(),
        source,
    }
}

/// Writes time series during a run, and the result when it has ended.
///
/// Rows are written as they arrive, so that memory does not grow with the length of the run.
pub struct Outputs<P> {
    directory: PathBuf,
    flows: OutputFile,
    links: OutputFile,
    /// By link.
    captures: BTreeMap<usize, OutputFile>,
    progress: P,
    error: Option<OutputError>,
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Outputs<P> {
    /// Writes into `directory`, which is created if necessary. Existing files with the same
    /// names are replaced. `progress` is called like [`Observer::progress`].
    ///
    /// # Errors
    /// [`OutputError`] if a file cannot be created.
    pub fn create(directory: &Path, progress: P) -> Result<Self, OutputError> {
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        Ok(Self {
            directory: directory.to_owned(),
            flows: table(&directory.join("flows.csv"), FLOWS)?,
            links: table(&directory.join("links.csv"), LINKS)?,
            captures: BTreeMap::new(),
            progress,
            error: None,
        })
    }

    /// Writes the result.
    ///
    /// # Errors
    /// [`OutputError`] if the result, or anything before it, could not be written.
    pub fn finish(self, result: &RunResult) -> Result<(), OutputError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.flows.finish()?;
        self.links.finish()?;
        for capture in self.captures.into_values() {
            capture.finish()?;
        }
        let path = self.directory.join("result.json");
        let write = || {
            let mut text = serde_json::to_string_pretty(result)?;
            text.push('\n');
            fs::write(&path, text)
        };
        write().map_err(|source| failed(&path, source))
    }

    fn capture(
        &mut self,
        scenario: &Scenario,
        link: usize,
        at: Duration,
        packet: &[u8],
    ) -> Result<(), OutputError> {
        use std::collections::btree_map::Entry;
        let capture = match self.captures.entry(link) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => {
                let name = scenario.links.get(link).map_or("", |link| &link.name);
                // Names may contain characters that paths must not. In this case, a number keeps
                // them distinct.
                let safe = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
                let mut file = format!("{name}.pcapng");
                if !name.chars().all(safe) {
                    let kept: String = name.chars().filter(|c| safe(*c)).collect();
                    file = format!("{kept}-{link}.pcapng");
                }
                let path = self.directory.join(file);
                free.insert(capture_file(&path, name)?)
            }
        };
        capture_packet(capture, at, packet)
    }

    fn write(&mut self, scenario: &Scenario, sample: &Sample<'_>) -> Result<(), OutputError> {
        flow_rows(&mut self.flows, scenario, sample)?;
        link_rows(&mut self.links, scenario, sample)
    }
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Observer for Outputs<P> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.error.is_some() {
            return ControlFlow::Break(());
        }
        (self.progress)(progress)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        if self.error.is_none() {
            self.error = self.write(scenario, sample).err();
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        if self.error.is_none() {
            self.error = self.capture(scenario, link, at, packet).err();
        }
    }
}

const FLOWS: &str = "time_s,flow,cwnd_bytes,in_flight_bytes,srtt_ms,goodput_bps,\
    delivered_bytes,packets_lost,timeouts,fallback";
const LINKS: &str = "time_s,link,rate_bps,utilization,queue_packets,queue_bytes,drops,\
    random_losses,load,r,marked_low,marked_high,marked_over";

/// Creates a table that starts with its headings.
fn table(path: &Path, headings: &str) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, |file| writeln!(file, "{headings}"))
}

/// Writes a row per flow that has started.
fn flow_rows(
    out: &mut OutputFile,
    scenario: &Scenario,
    sample: &Sample<'_>,
) -> Result<(), OutputError> {
    out.write(|file| {
        for (setup, point) in scenario.flows.iter().zip(sample.flows) {
            if setup.start > sample.at {
                continue;
            }
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{},{}",
                sample.at.as_secs_f64(),
                Text(&setup.name),
                point.cwnd,
                point.in_flight,
                Maybe(point.srtt.map(|srtt| srtt.as_secs_f64() * 1e3)),
                point.goodput_bps,
                point.delivered,
                point.lost,
                point.timeouts,
                Maybe(point.fallback.map(FallbackReason::name)),
            )?;
        }
        Ok(())
    })
}

/// Writes a row per link.
fn link_rows(
    out: &mut OutputFile,
    scenario: &Scenario,
    sample: &Sample<'_>,
) -> Result<(), OutputError> {
    out.write(|file| {
        for (setup, point) in scenario.links.iter().zip(sample.links) {
            let marked = point.law.map(|law| law.marked);
            let [_, low, high, over] = marked.map_or([None; 4], |marked| marked.map(Some));
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{},{},{},{},{}",
                sample.at.as_secs_f64(),
                Text(&setup.name),
                Maybe(point.rate_bps),
                Maybe(point.utilization),
                point.queue_packets,
                point.queue_bytes,
                point.drops,
                point.losses,
                Maybe(point.law.map(|law| law.load)),
                Maybe(point.law.and_then(|law| law.r)),
                Maybe(low),
                Maybe(high),
                Maybe(over),
            )?;
        }
        Ok(())
    })
}

/// Displays nothing for `None`.
struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}

/// Quotes text if necessary (RFC 4180).
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.contains([',', '"', '\n', '\r']) {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        } else {
            f.write_str(self.0)
        }
    }
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: packets start with their IP header.
const RAW_IP: u16 = 101;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Times in 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Creates a capture of the interface `name`.
fn capture_file(path: &Path, name: &str) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, |file| {
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        // Version 1.0, of unspecified length.
        section.extend(1u16.to_le_bytes());
        section.extend(0u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        block(file, SECTION_HEADER, &section, &[])?;
        let mut interface = RAW_IP.to_le_bytes().to_vec();
        interface.extend(0u16.to_le_bytes());
        // Packets are never truncated.
        interface.extend(0u32.to_le_bytes());
        option(&mut interface, IF_NAME, name.as_bytes());
        option(&mut interface, IF_TSRESOL, &[NANOSECONDS]);
        option(&mut interface, 0, &[]);
        block(file, INTERFACE_DESCRIPTION, &interface, &[])
    })
}

/// Adds a packet to a capture.
fn capture_packet(
    capture: &mut OutputFile,
    at: Duration,
    packet: &[u8],
) -> Result<(), OutputError> {
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let mut head = [0u8; 20];
    // Interface 0; the upper half of the time comes first.
    let words = [0, (nanos >> 32) as u32, nanos as u32, len, len];
    for (to, word) in head.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    capture.write(|file| block(file, ENHANCED_PACKET, &head, packet))
}

/// Writes a block of two parts, padded to whole words, with its length before and after.
fn block(file: &mut impl Write, kind: u32, head: &[u8], body: &[u8]) -> io::Result<()> {
    let len = head.len() + body.len();
    let fill = len.next_multiple_of(4) - len;
    let total = u32::try_from(len + fill + 12).map_err(io::Error::other)?;
    file.write_all(&kind.to_le_bytes())?;
    file.write_all(&total.to_le_bytes())?;
    file.write_all(head)?;
    file.write_all(body)?;
    file.write_all([0u8; 3].get(..fill).unwrap_or(&[]))?;
    file.write_all(&total.to_le_bytes())
}

/// Appends an option, padded to whole words.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(Text("a,\"b\"").to_string(), "\"a,\"\"b\"\"\"");
        assert_eq!(Text("plain").to_string(), "plain");
        assert_eq!(Maybe::<f64>(None).to_string(), "");
        assert_eq!(Maybe(Some(0.5)).to_string(), "0.5");
    }
}
