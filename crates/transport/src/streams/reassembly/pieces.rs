//! Small pieces of data with gaps between them, in memory proportional to their bytes.

/// Bytes of data and places above which a block with a bit per byte is smaller.
const MOST: usize = 4096;

/// Bytes `start..start + len` of a block, stored from `at` on.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u16,
    len: u16,
    at: u16,
}

impl Place {
    fn start(self) -> usize {
        usize::from(self.start)
    }

    fn end(self) -> usize {
        usize::from(self.start) + usize::from(self.len)
    }
}

/// Data beyond the frontier. Offsets are relative to a block and below 2^15.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Sorted and without overlaps.
    places: Vec<Place>,
    bytes: Vec<u8>,
}

impl Pieces {
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.bytes.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns true if `len` more bytes take less memory here than in a block with a bit per
    /// byte.
    pub(super) fn take(&self, len: usize) -> bool {
        let held = (self.places.len() + 1) * size_of::<Place>() + self.bytes.len();
        held + len <= MOST
    }

    /// Stores the bytes of `data`, which begins at `start`, that aren't stored yet.
    pub(super) fn insert(&mut self, start: usize, data: &[u8]) {
        let end = start + data.len();
        let mut at = start;
        let mut index = self.places.partition_point(|place| place.end() <= start);
        while at < end {
            let next = self.places.get(index).copied();
            let gap = next.map_or(end, |place| place.start().clamp(at, end));
            if at < gap
                && let Some(new) = data.get(at - start..gap - start)
                && self.keep(index, at, new)
            {
                index += 1;
            }
            at = next.map_or(end, |place| place.end().max(gap));
            index += 1;
        }
    }

    /// Returns true if `data` became a new place at `index`, and false if the previous place
    /// was extended.
    fn keep(&mut self, index: usize, start: usize, data: &[u8]) -> bool {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(data);
        let before = index.checked_sub(1).and_then(|i| self.places.get_mut(i));
        if let Some(before) = before
            && before.end() == start
            && usize::from(before.at) + usize::from(before.len) == at
        {
            before.len += number(data.len());
            return false;
        }
        let place = Place {
            start: number(start),
            len: number(data.len()),
            at: number(at),
        };
        self.places.insert(index.min(self.places.len()), place);
        true
    }

    /// Removes all pieces, passing each with its offset to `each` in order.
    pub(super) fn drain(&mut self, mut each: impl FnMut(usize, &[u8])) {
        for place in &self.places {
            each(place.start(), self.piece(*place));
        }
        *self = Self::default();
    }

    /// Passes the pieces that follow `at` without a gap to `each`, in order. Returns their end.
    pub(super) fn follow(&mut self, mut at: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut done = 0;
        for place in &self.places {
            if place.start() > at {
                break;
            }
            if let Some(new) = self.piece(*place).get(at - place.start()..) {
                each(new);
                at = at.max(place.end());
            }
            done += 1;
        }
        if done == self.places.len() {
            *self = Self::default();
        } else {
            self.places.drain(..done);
        }
        at
    }

    fn piece(&self, place: Place) -> &[u8] {
        let at = usize::from(place.at);
        self.bytes
            .get(at..at + usize::from(place.len))
            .unwrap_or(&[])
    }
}

/// Offsets and lengths within a block always fit.
fn number(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
