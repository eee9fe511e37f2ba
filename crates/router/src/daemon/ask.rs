//! The client of the status socket, for `show` and `capacity`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::query::Query;
use super::socket::ControlError;
use crate::tun::sys;

/// Timeout for the connection, the query and the complete answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of an answer in bytes, which allows several kilobytes for each of 10,000
/// ports.
const LONGEST: usize = 64 << 20;

/// Sends a query to a running router and returns its answer.
///
/// # Errors
/// [`ControlError::Silent`].
pub fn ask(path: &Path, query: &Query) -> Result<String, ControlError> {
    talk(path, query, PATIENCE, LONGEST).map_err(|source| ControlError::Silent {
        path: path.to_owned(),
        source: match source.kind() {
            io::ErrorKind::TimedOut => io::Error::new(source.kind(), "it took longer than 5 s"),
            _ => source,
        },
    })
}

/// Turns "would block", which a socket returns after its timeout, into "timed out".
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

fn talk(path: &Path, query: &Query, patience: Duration, longest: usize) -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command waits for its answer in real time"
    )]
    let now = Instant::now;
    let until = now() + patience;
    let mut stream = sys::connect_within(path, patience)?;
    let left = || match until.saturating_duration_since(now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    stream.set_write_timeout(left()?)?;
    writeln!(stream, "{query}").map_err(in_time)?;
    let mut answer = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) if answer.len() + len > longest => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the answer is too long",
                ));
            }
            Ok(len) => answer.extend_from_slice(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(in_time(error)),
        }
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::os::unix::net::UnixListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    /// A listener that does not accept connections must not block the command.
    #[test]
    fn a_queue_that_stays_full_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        sys::set_backlog(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = sys::try_connect(&path) {
            waiting.push(stream);
        }
        let error = talk(&path, &Query::Json, SHORT, LONGEST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// Endless answers, fast or slow, must be cut off.
    #[test]
    fn an_answer_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for piece in [&[b'x'; 1000][..], b""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                io::BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(line, "json\n");
                while !piece.is_empty() && stream.write_all(piece).is_ok() {}
                // Until the other side closes.
                while matches!(stream.read(&mut [0]), Ok(1..)) {}
            }
        });
        let error = talk(&path, &Query::Json, PATIENCE, 50_000).unwrap_err();
        assert_eq!(error.to_string(), "the answer is too long");
        let error = talk(&path, &Query::Json, SHORT, LONGEST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error:?}");
        server.join().unwrap();
    }
}
