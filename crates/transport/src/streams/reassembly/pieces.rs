//! Small pieces of data with gaps between them, in memory in proportion to their bytes.

/// Bytes of data and places together from which a block with a bit per byte takes less.
const MOST: usize = 4096;

/// Bytes `start..start + len` of a block, kept from `at` on.
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

/// See the module. Offsets are those within a block, below 2^15.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Sorted; none overlaps another.
    places: Vec<Place>,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.bytes.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// True if `len` more bytes are kept better here than in a block with a bit per byte.
    pub(super) fn take(&self, len: usize) -> bool {
        let held = (self.places.len() + 1) * size_of::<Place>() + self.bytes.len();
        held + len <= MOST
    }

    /// Keeps those of `data`, which lies at `start`, that are not here yet.
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

    /// True if `data` has got a place of its own, at `index`; else the place before grew.
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

    /// Hands out, in order, every piece with its offset, and forgets them all.
    pub(super) fn drain(&mut self, mut each: impl FnMut(usize, &[u8])) {
        for place in &self.places {
            each(place.start(), self.piece(*place));
        }
        *self = Self::default();
    }

    /// Hands out, in order, what follows without a gap from `at` on. Returns its end.
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

/// Offsets and lengths within a block fit.
fn number(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
