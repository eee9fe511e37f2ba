//! The bytes that HTTP/3 sends in addition to a file's content, in the sizes and the order of the
//! project's own server and client. They matter because a control law sees them first: each end
//! writes its control streams immediately after connecting, so the first packets of a file's sender
//! belong to an application that has nothing more to send yet.

use bytes::Bytes;
use pathmark_cc::Duration;
use pathmark_transport::Connection;
use pathmark_transport::streams::{Dir, StreamId};

/// Bytes that each end writes to its control stream (type and SETTINGS), and to the QPACK
/// encoder and decoder streams (types), in the order in which it opens them.
const CONTROL: [usize; 3] = [26, 1, 1];
/// Bytes of a request's HEADERS frame.
const REQUEST: usize = 120;
/// Bytes of a HEADERS frame before content.
const HEAD: usize = 240;
/// Content of a DATA frame.
const FRAME: u64 = 16 * 1024;
/// Bytes of its type and length.
const FRAME_HEAD: u64 = 5;
/// Time from the request, or from the start of an upload, to the first bytes of the file. The
/// server needs it for reading the request and opening the file, while its control streams
/// already leave.
pub(super) const OPENING: Duration = Duration::from_millis(1);

static ZEROS: [u8; 256] = [0; 256];

/// Writes the control streams.
pub(super) fn begin(connection: &mut Connection) {
    for bytes in CONTROL {
        if let Ok(id) = connection.streams().open(Dir::Uni) {
            write(connection, id, bytes);
        }
    }
}

/// Sends a request, and returns the stream of its response.
pub(super) fn request(connection: &mut Connection) -> Option<StreamId> {
    let id = connection.streams().open(Dir::Bi).ok()?;
    write(connection, id, REQUEST);
    end(connection, id);
    Some(id)
}

/// Ends an upload with a response.
pub(super) fn respond(connection: &mut Connection, id: StreamId) {
    write(connection, id, HEAD);
    end(connection, id);
}

/// A new stream has room for messages of this size. If the connection is over, an event reports
/// it.
fn write(connection: &mut Connection, id: StreamId, bytes: usize) {
    let mut data = Bytes::from_static(ZEROS.get(..bytes).unwrap_or(&ZEROS));
    let _ = connection.streams().write_bytes(id, &mut data);
}

fn end(connection: &mut Connection, id: StreamId) {
    let _ = connection.streams().finish(id);
}

/// Bytes on a stream for a message with this much content.
pub(super) const fn message(content: u64) -> u64 {
    let frames = content.div_ceil(FRAME);
    (HEAD as u64)
        .saturating_add(content)
        .saturating_add(FRAME_HEAD * frames)
}

/// The content in the first bytes of a message.
pub(super) const fn content(message: u64) -> u64 {
    let framed = message.saturating_sub(HEAD as u64);
    let (frames, rest) = (framed / (FRAME + FRAME_HEAD), framed % (FRAME + FRAME_HEAD));
    frames * FRAME + rest.saturating_sub(FRAME_HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_content() {
        for bytes in [0, 1, FRAME - 1, FRAME, FRAME + 1, 5_000_000] {
            assert_eq!(content(message(bytes)), bytes);
        }
        assert_eq!(message(1), HEAD as u64 + FRAME_HEAD + 1);
        assert_eq!(content(HEAD as u64 + FRAME_HEAD), 0);
    }
}
