//! STREAM and CRYPTO frames (RFC 9000 §19.8, §19.6), and the amount of data that fits into one.

use super::types;
use crate::wire::{StreamId, WriteError, Writer, varint};

/// A STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// The stream.
    pub id: StreamId,
    /// Offset of the data in the stream, bytes.
    pub offset: u64,
    /// Whether the stream ends with this data.
    pub fin: bool,
    /// The data; offset and length add up to less than 2^62.
    pub data: &'a [u8],
}

/// A CRYPTO frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crypto<'a> {
    /// Offset of the data in the space's handshake data, bytes.
    pub offset: u64,
    /// The data; offset and length add up to less than 2^62.
    pub data: &'a [u8],
}

/// A STREAM frame without its data, for senders that copy the data directly into the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHeader {
    /// The stream.
    pub id: StreamId,
    /// Offset of the data in the stream, bytes.
    pub offset: u64,
    /// Whether the stream ends with this data.
    pub fin: bool,
}

/// The amount of data for a STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Bytes of data.
    pub len: usize,
    /// False if the frame contains no length. It must then be the last frame of its packet, without
    /// even padding after it.
    pub explicit_len: bool,
}

impl StreamHeader {
    /// Returns the number of bytes in front of the data. `data_len` is given if the frame
    /// contains a length.
    pub const fn len(&self, data_len: Option<usize>) -> usize {
        let offset = if self.offset == 0 {
            0
        } else {
            varint::len(self.offset)
        };
        let length = match data_len {
            Some(n) => varint::len(n as u64),
            None => 0,
        };
        1 + varint::len(self.id.as_u64()) + offset + length
    }

    /// Returns how many of `available` bytes to write into a frame of at most `room` bytes. The
    /// length is omitted only if the frame then fills the room or could otherwise not contain
    /// all available data. Returns `None` if no byte fits (or, if nothing is available, if not
    /// even the header fits).
    pub const fn fit(&self, room: usize, available: usize) -> Option<Fit> {
        let bare = self.len(None);
        if room < bare || (room == bare && available > 0) {
            return None;
        }
        if self.len(Some(available)) + available <= room {
            return Some(Fit {
                len: available,
                explicit_len: true,
            });
        }
        let most = room - bare;
        Some(Fit {
            len: if available < most { available } else { most },
            explicit_len: false,
        })
    }

    /// Writes the frame except its data. The caller must then write exactly `fit.len` bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`] if header and data don't fit, and [`WriteError::Value`] if the
    /// data would end above 2^62 − 1. Nothing is written then.
    pub fn encode(&self, w: &mut Writer<'_>, fit: Fit) -> Result<(), WriteError> {
        check_end(self.offset, fit.len)?;
        let header = self.len(fit.explicit_len.then_some(fit.len));
        if header.saturating_add(fit.len) > w.remaining() {
            return Err(WriteError::NoRoom);
        }
        let mut ty = types::STREAM;
        if self.offset != 0 {
            ty |= types::STREAM_OFF;
        }
        if fit.explicit_len {
            ty |= types::STREAM_LEN;
        }
        if self.fin {
            ty |= types::STREAM_FIN;
        }
        w.all_or_nothing(|w| {
            w.put_varint(ty)?;
            w.put_varint(self.id.as_u64())?;
            if self.offset != 0 {
                w.put_varint(self.offset)?;
            }
            if fit.explicit_len {
                w.put_varint(fit.len as u64)?;
            }
            Ok(())
        })
    }
}

impl Stream<'_> {
    /// Returns the frame without its data.
    pub const fn header(&self) -> StreamHeader {
        StreamHeader {
            id: self.id,
            offset: self.offset,
            fin: self.fin,
        }
    }

    /// Returns the length of the frame, with or without a length field.
    pub const fn len(&self, explicit_len: bool) -> usize {
        let data_len = if explicit_len {
            Some(self.data.len())
        } else {
            None
        };
        self.header().len(data_len) + self.data.len()
    }

    /// Writes the frame, with or without a length field.
    ///
    /// # Errors
    /// As [`StreamHeader::encode`].
    pub fn encode(&self, w: &mut Writer<'_>, explicit_len: bool) -> Result<(), WriteError> {
        let fit = Fit {
            len: self.data.len(),
            explicit_len,
        };
        w.all_or_nothing(|w| {
            self.header().encode(w, fit)?;
            w.put_slice(self.data)
        })
    }
}

impl Crypto<'_> {
    /// Returns the number of bytes in front of `data_len` bytes of data at `offset`.
    pub const fn header_len(offset: u64, data_len: usize) -> usize {
        1 + varint::len(offset) + varint::len(data_len as u64)
    }

    /// Returns how many of `available` bytes at `offset` fit into a frame of at most `room`
    /// bytes, or `None` if none does.
    pub const fn fit(offset: u64, room: usize, available: usize) -> Option<usize> {
        // The size of the length field depends on the data, so start from the maximum and
        // correct it.
        let bare = 1 + varint::len(offset);
        if room < bare + 2 {
            return None;
        }
        let most = room - bare;
        let capped = if available < most { available } else { most };
        let mut len = most - varint::len(capped as u64);
        // Slightly less data may need a shorter length field; this regains at most 6 bytes.
        while len < available && bare + varint::len(len as u64 + 1) + len < room {
            len += 1;
        }
        Some(if available < len { available } else { len })
    }

    /// Writes the frame except its `data_len` bytes of data, which must follow.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`] if header and data don't fit, and [`WriteError::Value`] if the
    /// data would end above 2^62 − 1. Nothing is written then.
    pub fn encode_header(
        w: &mut Writer<'_>,
        offset: u64,
        data_len: usize,
    ) -> Result<(), WriteError> {
        check_end(offset, data_len)?;
        if Self::header_len(offset, data_len).saturating_add(data_len) > w.remaining() {
            return Err(WriteError::NoRoom);
        }
        w.all_or_nothing(|w| {
            w.put_varint(types::CRYPTO)?;
            w.put_varint(offset)?;
            w.put_varint(data_len as u64)
        })
    }

    /// Returns the length of the frame.
    #[expect(clippy::len_without_is_empty, reason = "a frame never is")]
    pub const fn len(&self) -> usize {
        Self::header_len(self.offset, self.data.len()) + self.data.len()
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// As [`encode_header`](Self::encode_header).
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        w.all_or_nothing(|w| {
            Self::encode_header(w, self.offset, self.data.len())?;
            w.put_slice(self.data)
        })
    }
}

/// Checks that stream or handshake data ends below 2^62 (RFC 9000 §19.6, §19.8).
const fn check_end(offset: u64, len: usize) -> Result<(), WriteError> {
    let end = offset.saturating_add(len as u64);
    if end > varint::MAX {
        return Err(WriteError::Value(end));
    }
    Ok(())
}
