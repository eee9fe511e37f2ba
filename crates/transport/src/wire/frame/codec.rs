//! Encoding of frames, and decoding of those in a packet.

use core::time::Duration;

use super::{
    Ack, AckFrequency, ApplicationClose, ConnectionClose, Crypto, Feedback, Frame, FrameError,
    FrameType, MaxStreamData, MaxStreams, NewConnectionId, ResetStream, StopSending, Stream,
    StreamDataBlocked, StreamsBlocked, ack, feedback, types,
};
use crate::wire::{
    ConnectionId, Dir, Reader, StreamId, TransportErrorCode, UnexpectedEnd, WriteError, Writer,
    varint,
};

impl Frame<'_> {
    /// Returns the length of the frame in its shortest form, with a length field in STREAM and
    /// DATAGRAM.
    #[expect(clippy::len_without_is_empty, reason = "a frame never is")]
    pub fn len(&self) -> usize {
        let ty = varint::len(self.ty());
        ty + match self {
            Self::Padding(n) => return *n,
            Self::Ping | Self::HandshakeDone | Self::ImmediateAck => 0,
            Self::Ack(frame) => frame.len() - ty,
            Self::ResetStream(frame) => {
                lens([frame.id.as_u64(), frame.error_code, frame.final_size])
            }
            Self::StopSending(frame) => lens([frame.id.as_u64(), frame.error_code]),
            Self::Crypto(frame) => frame.len() - ty,
            Self::NewToken(token) => prefixed(token),
            Self::Stream(frame) => frame.len(true) - ty,
            Self::MaxData(max) => varint::len(*max),
            Self::MaxStreamData(frame) => lens([frame.id.as_u64(), frame.max]),
            Self::MaxStreams(frame) => varint::len(frame.max),
            Self::DataBlocked(limit) => varint::len(*limit),
            Self::StreamDataBlocked(frame) => lens([frame.id.as_u64(), frame.limit]),
            Self::StreamsBlocked(frame) => varint::len(frame.limit),
            Self::NewConnectionId(frame) => {
                lens([frame.sequence, frame.retire_prior_to]) + 1 + frame.id.len() + 16
            }
            Self::RetireConnectionId(sequence) => varint::len(*sequence),
            Self::PathChallenge(data) | Self::PathResponse(data) => data.len(),
            Self::ConnectionClose(frame) => {
                lens([frame.error_code.0, frame.frame_type]) + prefixed(frame.reason)
            }
            Self::ApplicationClose(frame) => varint::len(frame.error_code) + prefixed(frame.reason),
            Self::Datagram(data) => prefixed(data),
            Self::AckFrequency(frame) => lens([
                frame.sequence,
                frame.ack_eliciting_threshold,
                micros(frame.max_ack_delay),
                frame.reordering_threshold,
            ]),
            Self::Feedback(frame) => frame.len() - ty,
        }
    }

    /// Writes the frame, with a length field in STREAM and DATAGRAM. Frames that
    /// [`Frames`] would reject aren't written.
    ///
    /// # Errors
    /// [`WriteError`], with nothing written.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        w.all_or_nothing(|w| self.fields(w))
    }

    fn fields(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        match self {
            Self::Padding(n) => return w.put_zeros(*n),
            Self::Ack(frame) => return frame.encode(w),
            Self::Crypto(frame) => return frame.encode(w),
            Self::Stream(frame) => return frame.encode(w, true),
            Self::Feedback(frame) => return frame.encode(w),
            Self::Datagram(data) => {
                w.put_varint(types::DATAGRAM_LEN)?;
                return w.put_prefixed(data);
            }
            _ => w.put_varint(self.ty())?,
        }
        match self {
            Self::ResetStream(frame) => {
                put(w, [frame.id.as_u64(), frame.error_code, frame.final_size])
            }
            Self::StopSending(frame) => put(w, [frame.id.as_u64(), frame.error_code]),
            Self::NewToken([]) => Err(WriteError::Value(0)),
            Self::NewToken(token) => w.put_prefixed(token),
            Self::MaxData(value) | Self::DataBlocked(value) | Self::RetireConnectionId(value) => {
                w.put_varint(*value)
            }
            Self::MaxStreamData(frame) => put(w, [frame.id.as_u64(), frame.max]),
            Self::StreamDataBlocked(frame) => put(w, [frame.id.as_u64(), frame.limit]),
            Self::MaxStreams(frame) => put_stream_count(w, frame.max),
            Self::StreamsBlocked(frame) => put_stream_count(w, frame.limit),
            Self::NewConnectionId(frame) => {
                if frame.retire_prior_to > frame.sequence || frame.id.is_empty() {
                    return Err(WriteError::Value(frame.retire_prior_to));
                }
                put(w, [frame.sequence, frame.retire_prior_to])?;
                w.put_id(frame.id.as_slice())?;
                w.put_slice(&frame.reset_token)
            }
            Self::PathChallenge(data) | Self::PathResponse(data) => w.put_slice(data),
            Self::ConnectionClose(frame) => {
                put(w, [frame.error_code.0, frame.frame_type])?;
                w.put_prefixed(frame.reason)
            }
            Self::ApplicationClose(frame) => {
                w.put_varint(frame.error_code)?;
                w.put_prefixed(frame.reason)
            }
            Self::AckFrequency(frame) => {
                let delay = micros(frame.max_ack_delay);
                if delay >= 1000 << 14 {
                    return Err(WriteError::Value(delay));
                }
                put(
                    w,
                    [
                        frame.sequence,
                        frame.ack_eliciting_threshold,
                        delay,
                        frame.reordering_threshold,
                    ],
                )
            }
            // No fields, or written completely above.
            Self::Ping
            | Self::HandshakeDone
            | Self::ImmediateAck
            | Self::Padding(_)
            | Self::Ack(_)
            | Self::Crypto(_)
            | Self::Stream(_)
            | Self::Datagram(_)
            | Self::Feedback(_) => Ok(()),
        }
    }
}

impl ConnectionClose<'_> {
    /// Writes the frame with as much of the reason as fits, without splitting a character.
    ///
    /// # Errors
    /// [`WriteError`], with nothing written, if the frame doesn't fit even without a reason.
    pub fn encode_cut(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let empty = Frame::ConnectionClose(ConnectionClose {
            reason: &[],
            ..*self
        });
        let reason = cut(self.reason, w.remaining(), empty.len());
        Frame::ConnectionClose(ConnectionClose { reason, ..*self }).encode(w)
    }
}

impl ApplicationClose<'_> {
    /// Writes the frame with as much of the reason as fits, without splitting a character.
    ///
    /// # Errors
    /// [`WriteError`], with nothing written, if the frame doesn't fit even without a reason.
    pub fn encode_cut(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let empty = Frame::ApplicationClose(ApplicationClose {
            reason: &[],
            ..*self
        });
        let reason = cut(self.reason, w.remaining(), empty.len());
        Frame::ApplicationClose(ApplicationClose { reason, ..*self }).encode(w)
    }
}

/// Returns the longest prefix of `reason` with which a frame that takes `empty` bytes without
/// it fits into `room`.
fn cut(reason: &[u8], room: usize, empty: usize) -> &[u8] {
    // `empty` includes a 1-byte length; a longer one may take up to 7 bytes more.
    let room = room.saturating_sub(empty);
    let mut n = reason.len().min(room);
    while n > 0 && varint::len(n as u64) - 1 + n > room {
        n -= 1;
    }
    // Don't split a UTF-8 character.
    if n < reason.len() {
        while n > 0 && reason.get(n).is_some_and(|byte| byte & 0xc0 == 0x80) {
            n -= 1;
        }
    }
    reason.get(..n).unwrap_or(&[])
}

/// Returns the length of a DATAGRAM frame with a length field.
pub const fn datagram_len(data_len: usize) -> usize {
    1 + varint::len(data_len as u64) + data_len
}

fn lens<const N: usize>(values: [u64; N]) -> usize {
    values.into_iter().map(varint::len).sum()
}

fn put<const N: usize>(w: &mut Writer<'_>, values: [u64; N]) -> Result<(), WriteError> {
    values.into_iter().try_for_each(|value| w.put_varint(value))
}

fn prefixed(bytes: &[u8]) -> usize {
    varint::len(bytes.len() as u64) + bytes.len()
}

fn put_stream_count(w: &mut Writer<'_>, count: u64) -> Result<(), WriteError> {
    if count > StreamId::MAX_STREAMS {
        return Err(WriteError::Value(count));
    }
    w.put_varint(count)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Iterator over the frames of a payload, in order, up to its end or the first error.
///
/// An empty payload yields no frames. The caller must treat it as a PROTOCOL_VIOLATION (RFC
/// 9000 §12.4).
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    r: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Creates an iterator over the payload of a decrypted packet.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            r: Reader::new(payload),
        }
    }

    /// Returns the number of bytes not yet read.
    pub const fn remaining(&self) -> usize {
        self.r.remaining()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.r.is_empty() {
            return None;
        }
        let frame = read(&mut self.r);
        if frame.is_err() {
            self.r.take_rest();
        }
        Some(frame)
    }
}

impl core::iter::FusedIterator for Frames<'_> {}

/// The reason that the fields of a frame are invalid. The caller adds the type.
struct Bad(TransportErrorCode, &'static str);

const fn encoding(reason: &'static str) -> Bad {
    Bad(TransportErrorCode::FRAME_ENCODING_ERROR, reason)
}

const CUT: Bad = encoding("the packet ends inside the frame");

impl From<UnexpectedEnd> for Bad {
    fn from(_: UnexpectedEnd) -> Self {
        CUT
    }
}

impl From<ack::Malformed> for Bad {
    fn from(malformed: ack::Malformed) -> Self {
        match malformed {
            ack::Malformed::End => CUT,
            ack::Malformed::BelowZero => encoding("a range below packet number 0"),
        }
    }
}

impl From<feedback::Malformed> for Bad {
    fn from(malformed: feedback::Malformed) -> Self {
        match malformed {
            feedback::Malformed::End => CUT,
            feedback::Malformed::Kind => encoding("a signal kind above 255"),
            feedback::Malformed::Time => encoding("a time of 2^30 or more"),
            feedback::Malformed::Count => encoding("more than 20 counters"),
        }
    }
}

fn read<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, FrameError> {
    let at = r.position();
    let ty = r.get_varint().map_err(|_| FrameError {
        code: TransportErrorCode::FRAME_ENCODING_ERROR,
        frame_type: 0,
        reason: "the packet ends inside the frame type",
    })?;
    // [9000 12.4 shortest-type]
    if r.position() - at != varint::len(ty) {
        return Err(FrameError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame_type: ty,
            reason: "the frame type is not in its shortest form",
        });
    }
    fields(ty, r).map_err(|Bad(code, reason)| FrameError {
        code,
        frame_type: ty,
        reason,
    })
}

fn fields<'a>(ty: FrameType, r: &mut Reader<'a>) -> Result<Frame<'a>, Bad> {
    Ok(match ty {
        types::PADDING => Frame::Padding(1 + padding(r)),
        types::PING => Frame::Ping,
        // [9000 19.3 both-types]
        types::ACK | types::ACK_ECN => Frame::Ack(Ack::decode(r, ty == types::ACK_ECN)?),
        types::STREAM..=types::STREAM_LAST => Frame::Stream(stream(ty, r)?),
        types::CRYPTO => {
            let offset = r.get_varint()?;
            let data = r.get_prefixed()?;
            check_end(offset, data)?;
            Frame::Crypto(Crypto { offset, data })
        }
        types::RESET_STREAM => Frame::ResetStream(ResetStream {
            id: stream_id(r)?,
            error_code: r.get_varint()?,
            final_size: r.get_varint()?,
        }),
        types::STOP_SENDING => Frame::StopSending(StopSending {
            id: stream_id(r)?,
            error_code: r.get_varint()?,
        }),
        types::NEW_TOKEN => match r.get_prefixed()? {
            // [9000 19.7 empty-token]
            [] => return Err(encoding("an empty token")),
            token => Frame::NewToken(token),
        },
        types::MAX_DATA => Frame::MaxData(r.get_varint()?),
        types::MAX_STREAM_DATA => Frame::MaxStreamData(MaxStreamData {
            id: stream_id(r)?,
            max: r.get_varint()?,
        }),
        types::MAX_STREAMS_BIDI | types::MAX_STREAMS_UNI => Frame::MaxStreams(MaxStreams {
            dir: dir(ty == types::MAX_STREAMS_UNI),
            max: stream_count(r)?,
        }),
        types::DATA_BLOCKED => Frame::DataBlocked(r.get_varint()?),
        types::STREAM_DATA_BLOCKED => Frame::StreamDataBlocked(StreamDataBlocked {
            id: stream_id(r)?,
            limit: r.get_varint()?,
        }),
        types::STREAMS_BLOCKED_BIDI | types::STREAMS_BLOCKED_UNI => {
            Frame::StreamsBlocked(StreamsBlocked {
                dir: dir(ty == types::STREAMS_BLOCKED_UNI),
                limit: stream_count(r)?,
            })
        }
        types::NEW_CONNECTION_ID => Frame::NewConnectionId(new_connection_id(r)?),
        types::RETIRE_CONNECTION_ID => Frame::RetireConnectionId(r.get_varint()?),
        types::PATH_CHALLENGE => Frame::PathChallenge(r.get_array()?),
        types::PATH_RESPONSE => Frame::PathResponse(r.get_array()?),
        types::CONNECTION_CLOSE => Frame::ConnectionClose(ConnectionClose {
            error_code: TransportErrorCode(r.get_varint()?),
            frame_type: r.get_varint()?,
            reason: r.get_prefixed()?,
        }),
        types::APPLICATION_CLOSE => Frame::ApplicationClose(ApplicationClose {
            error_code: r.get_varint()?,
            reason: r.get_prefixed()?,
        }),
        types::HANDSHAKE_DONE => Frame::HandshakeDone,
        types::IMMEDIATE_ACK => Frame::ImmediateAck,
        types::DATAGRAM => Frame::Datagram(r.take_rest()),
        types::DATAGRAM_LEN => Frame::Datagram(r.get_prefixed()?),
        types::ACK_FREQUENCY => Frame::AckFrequency(ack_frequency(r)?),
        types::FEEDBACK => Frame::Feedback(Feedback::decode(r)?),
        // [9000 12.4 unknown-frame]
        _ => return Err(encoding("an unknown frame type")),
    })
}

/// Counts further PADDING frames, so that a full-size probe yields one frame instead of a
/// thousand.
fn padding(r: &mut Reader<'_>) -> usize {
    let rest = r.rest();
    // Compare sixteen bytes at a time, because padding fills most of a first packet.
    let (blocks, _) = rest.as_chunks();
    let whole = blocks.iter().take_while(|block| **block == [0; 16]);
    let whole = whole.count() * 16;
    let tail = rest.get(whole..).unwrap_or(&[]);
    let n = whole + tail.iter().take_while(|byte| **byte == 0).count();
    // `n` doesn't exceed the rest, so this reads exactly `n` bytes.
    r.get_slice(n).map_or(0, <[u8]>::len)
}

fn stream<'a>(ty: FrameType, r: &mut Reader<'a>) -> Result<Stream<'a>, Bad> {
    let id = stream_id(r)?;
    let offset = if ty & types::STREAM_OFF != 0 {
        r.get_varint()?
    } else {
        0
    };
    let data = if ty & types::STREAM_LEN != 0 {
        r.get_prefixed()?
    } else {
        r.take_rest()
    };
    check_end(offset, data)?;
    Ok(Stream {
        id,
        offset,
        fin: ty & types::STREAM_FIN != 0,
        data,
    })
}

fn stream_id(r: &mut Reader<'_>) -> Result<StreamId, UnexpectedEnd> {
    r.get_varint().map(StreamId::from_varint)
}

const fn dir(uni: bool) -> Dir {
    if uni { Dir::Uni } else { Dir::Bi }
}

/// Reads a number of streams, limited to those that ids can represent (RFC 9000 §19.11,
/// §19.14).
fn stream_count(r: &mut Reader<'_>) -> Result<u64, Bad> {
    match r.get_varint()? {
        count @ 0..=StreamId::MAX_STREAMS => Ok(count),
        // [9000 4.6 limit-too-large] [9000 19.14 blocked-beyond]
        _ => Err(encoding("more than 2^60 streams")),
    }
}

fn check_end(offset: u64, data: &[u8]) -> Result<(), Bad> {
    // [9000 19.8 beyond-offsets]
    if offset.saturating_add(data.len() as u64) > varint::MAX {
        return Err(encoding("data beyond 2^62"));
    }
    Ok(())
}

fn new_connection_id(r: &mut Reader<'_>) -> Result<NewConnectionId, Bad> {
    let sequence = r.get_varint()?;
    let retire_prior_to = r.get_varint()?;
    // [9000 19.15 retires-itself]
    if retire_prior_to > sequence {
        return Err(encoding("it retires the connection id that it brings"));
    }
    let n = usize::from(r.get_u8()?);
    let id = match ConnectionId::new(r.get_slice(n)?) {
        // [9000 19.15 new-id-length]
        Ok(id) if !id.is_empty() => id,
        _ => return Err(encoding("a connection id not of 1 to 20 bytes")),
    };
    Ok(NewConnectionId {
        sequence,
        retire_prior_to,
        id,
        reset_token: r.get_array()?,
    })
}

fn ack_frequency(r: &mut Reader<'_>) -> Result<AckFrequency, Bad> {
    let sequence = r.get_varint()?;
    let ack_eliciting_threshold = r.get_varint()?;
    let max_ack_delay = Duration::from_micros(r.get_varint()?);
    let reordering_threshold = r.get_varint()?;
    if max_ack_delay >= Duration::from_millis(1 << 14) {
        return Err(Bad(
            TransportErrorCode::PROTOCOL_VIOLATION,
            "a max_ack_delay of 2^14 ms or more",
        ));
    }
    Ok(AckFrequency {
        sequence,
        ack_eliciting_threshold,
        max_ack_delay,
        reordering_threshold,
    })
}
