//! Encoding of frames.

use core::time::Duration;

use super::{ApplicationClose, ConnectionClose, Frame, types};
use crate::wire::{StreamId, WriteError, Writer, varint};

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
    /// [`Frames`](super::Frames) would reject aren't written.
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
