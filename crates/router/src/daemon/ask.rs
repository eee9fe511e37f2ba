//! The client of the status socket: what `show` and `capacity` use.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::query::Query;
use super::socket::ControlError;

/// Time for the whole answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a running router.
///
/// # Errors
/// [`ControlError::Silent`].
pub fn ask(path: &Path, query: &Query) -> Result<String, ControlError> {
    talk(path, query).map_err(|source| ControlError::Silent {
        path: path.to_owned(),
        source,
    })
}

fn talk(path: &Path, query: &Query) -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command waits for its answer in real time"
    )]
    let now = Instant::now;
    let until = now() + PATIENCE;
    let mut stream = UnixStream::connect(path)?;
    let left = || match until.saturating_duration_since(now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    stream.set_write_timeout(left()?)?;
    writeln!(stream, "{query}")?;
    let mut answer = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
