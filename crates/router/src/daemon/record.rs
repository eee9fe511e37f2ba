//! Records a time series of the links as CSV.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use pathmark_cc::Instant;
use pathmark_link::DropCause;
use pathmark_link::law_view::code_name;

use super::snapshot::seconds;
use crate::forward::Router;

const HEADER: &str = "unix_s,time_s,link,rate_bps,arrived_packets,arrived_bytes,\
    sent_packets,sent_bytes,queue_packets,queue_bytes,\
drops,random_losses,in_flight,load,code,marked_low,marked_high,marked_over\n";

/// Samples that may wait for the disk; further ones are dropped.
const WAITING: usize = 1024;

/// Maximum time to wait for a full pipe.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between write attempts.
const RETRY: Duration = Duration::from_millis(10);

/// Writes samples from a separate thread, so that a slow disk does not delay packets. Because
/// counters are totals since the start, a dropped sample only costs resolution in time.
#[derive(Debug)]
pub(super) struct Recorder {
    rows: Option<SyncSender<String>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// Unix time of the driver's epoch, seconds.
    epoch: f64,
}

impl Recorder {
    /// Creates the file for [`start`](Self::start). An existing file is replaced unless it is a
    /// symbolic link or has further names: since root may write anywhere, the owner of the
    /// directory must not be able to choose the target. A pipe without a reader fails
    /// immediately.
    pub(super) fn create(path: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = options
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::ELOOP) => io::Error::other("it is a symbolic link"),
                Some(libc::ENXIO) => io::Error::other("no process reads from this pipe"),
                _ => error,
            })?;
        let found = file.metadata()?;
        if found.is_file() {
            if found.nlink() > 1 {
                return Err(io::Error::other("the file has other names"));
            }
            file.set_len(0)?;
        }
        file.write_all(HEADER.as_bytes())?;
        Ok(file)
    }

    /// Starts the writing thread. Call this after giving up privileges, because a thread keeps
    /// those that it starts with.
    ///
    /// `tell` is called immediately with the error that ends the thread, because the router may
    /// continue for months.
    pub(super) fn start(
        mut file: File,
        epoch: f64,
        tell: impl FnOnce(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let (rows, queue) = mpsc::sync_channel::<String>(WAITING);
        let writer = std::thread::Builder::new().spawn(move || {
            let write = || {
                for row in queue {
                    write_row(&mut file, row.as_bytes())?;
                }
                file.flush()
            };
            write().inspect_err(tell)
        })?;
        Ok(Self {
            rows: Some(rows),
            writer: Some(writer),
            epoch,
        })
    }

    pub(super) fn sample(&self, router: &Router, now: Instant) {
        let mut rows = String::new();
        for router_port in router.ports() {
            let port = router_port.link.port();
            let (stats, depth) = (port.stats(), port.depth());
            let drops = stats.drops();
            let metrics = port.metrics();
            let load =
                metrics.map_or_else(String::new, |m| format!("{:.4}", m.load_ppb as f64 / 1e9));
            let code = metrics.map_or("", |m| code_name(m.code));
            let [_, low, high, over] = metrics.map_or([0; 4], |m| m.marked);
            let rate = port
                .rate()
                .map_or_else(String::new, |rate| (rate * 8).to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(
                rows,
                "{:.6},{:.6},{},{rate},{},{},{},{},{},{},{},{},{},{load},{code},{low},{high},\
                 {over}",
                self.epoch + seconds(now),
                seconds(now),
                quoted(&router_port.settings.name),
                stats.arrived_packets(),
                stats.arrived_bytes(),
                stats.sent_packets(),
                stats.sent_bytes(),
                depth.packets,
                depth.bytes,
                drops.by_queue(),
                drops.of(DropCause::RandomLoss),
                router_port.link.wire().in_flight(),
            );
        }
        if let Some(queue) = &self.rows {
            // Full: the disk is too slow. Disconnected: the thread failed, and `finish` returns
            // its error.
            let _ = queue.try_send(rows);
        }
    }

    /// Writes all pending samples.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.rows = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the writer ended early")),
            None => Ok(()),
        }
    }
}

/// Writes a row. If a pipe is full, retries for [`PATIENCE`], so that a stopped reader cannot
/// keep the router from ending.
fn write_row(file: &mut File, mut row: &[u8]) -> io::Result<()> {
    let mut tries = PATIENCE.as_millis() / RETRY.as_millis();
    while !row.is_empty() {
        match file.write(row) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => row = row.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && tries > 0 => {
                tries -= 1;
                pause();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("its reader has stopped reading"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the recorder's own thread waits, for a reader"
)]
fn pause() {
    std::thread::sleep(RETRY);
}

/// Formats a CSV field (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_behind_a_link_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("record.csv"), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        let refused = |part| {
            let error = Recorder::create(&path).unwrap_err();
            assert_eq!(error.to_string(), part);
            assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
            fs::remove_file(&path).unwrap();
        };
        symlink(&other, &path).unwrap();
        refused("it is a symbolic link");
        fs::hard_link(&other, &path).unwrap();
        refused("the file has other names");
        // A record from an earlier run is replaced.
        fs::write(&path, "x".repeat(2 * HEADER.len())).unwrap();
        drop(Recorder::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), HEADER);
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, name.as_c_str(), kind, mode, 0).unwrap();
        let error = Recorder::create(&path).unwrap_err();
        assert_eq!(error.to_string(), "no process reads from this pipe");

        // A pipe with a reader delivers the data.
        let (reader, file) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| File::open(&path).unwrap());
            let file = loop {
                match Recorder::create(&path) {
                    Ok(file) => break file,
                    Err(_) => std::thread::yield_now(),
                }
            };
            (reader.join().unwrap(), file)
        });
        // If the reader stops, the record ends, so that the router can end too.
        let recorder = Recorder::start(file, 0.0, |_| ()).unwrap();
        let rows = recorder.rows.as_ref().unwrap();
        for _ in 0..3 {
            rows.send("x".repeat(100_000)).unwrap();
        }
        let error = recorder.finish().unwrap_err();
        assert_eq!(error.to_string(), "its reader has stopped reading");
        drop(reader);
    }

    /// A full disk must be reported at the first failed write, not when the router stops.
    #[test]
    fn a_failed_write_is_reported_at_once() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (sender, errors) = mpsc::channel();
        let recorder = Recorder::start(full, 0.0, move |error| {
            sender.send(error.raw_os_error()).unwrap();
        })
        .unwrap();
        let rows = recorder.rows.as_ref().unwrap();
        rows.send("1,2,3\n".to_owned()).unwrap();
        let reported = errors.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(reported.unwrap(), Some(libc::ENOSPC));
        let error = recorder.finish().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
