//! Forward error correction at the link layer: block codes over bytes.

use std::num::NonZeroU32;

/// Millionths.
const MILLION: u64 = 1_000_000;

/// The redundancy that a code word adds to its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Enough to correct this number of wrong bytes, with two bytes for each, as for
    /// Reed-Solomon codes.
    Corrects(u32),
    /// The share of data in the word, in millionths, at most 10⁶. Half as many bytes as are
    /// added can be corrected.
    Rate(u32),
}

/// A stronger code for short packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Packets shorter than this use it.
    pub below: u32,
    /// Its redundancy.
    pub redundancy: Redundancy,
}

/// A code that corrects wrong bytes, up to a number per word.
///
/// A packet is divided into words of `block` bytes, including redundancy. The last word is
/// shortened instead of padded. Without `block`, each packet is one word. If a word has more
/// wrong bytes than the code can correct, the whole packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Bytes of a full word.
    pub block: Option<NonZeroU32>,
    /// The redundancy of a word.
    pub redundancy: Redundancy,
    /// The redundancy of short packets, which otherwise tolerate fewer wrong bytes.
    pub short: Option<Short>,
}

/// One code word on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Its bytes, data and redundancy.
    pub(super) bytes: u32,
    /// Number of wrong bytes that can be corrected.
    pub(super) corrects: u32,
}

/// How packets of one length are divided.
#[derive(Clone, Copy, Debug)]
struct Cut {
    data: u32,
    added: u32,
}

impl Code {
    /// Bytes on the wire for a packet of `bytes`.
    pub fn coded(&self, bytes: u32) -> u32 {
        let cut = self.cut(bytes);
        let words = bytes.div_ceil(cut.data).max(1);
        bytes.saturating_add(words.saturating_mul(cut.added))
    }

    /// Bytes on the wire for `packets` packets with `bytes` in total. All have the same size
    /// except the last.
    pub(crate) fn coded_run(&self, bytes: u32, packets: u32) -> u32 {
        let size = bytes / packets.max(1);
        let last = bytes - size * packets.saturating_sub(1);
        self.coded(size)
            .saturating_mul(packets.saturating_sub(1))
            .saturating_add(self.coded(last))
    }

    /// The words of a packet of `bytes`.
    pub(super) fn words(&self, bytes: u32) -> impl Iterator<Item = Word> {
        let Cut { data, added } = self.cut(bytes);
        let mut left = Some(bytes);
        std::iter::from_fn(move || {
            let now = left?.min(data);
            left = left.map(|all| all - now).filter(|rest| *rest > 0);
            Some(Word {
                bytes: now.saturating_add(added),
                corrects: added / 2,
            })
        })
    }

    /// Returns true if the words of this code have room for data.
    pub fn is_possible(&self) -> bool {
        let redundancies = [Some(self.redundancy), self.short.map(|s| s.redundancy)];
        redundancies.into_iter().flatten().all(|added| match added {
            Redundancy::Corrects(bytes) => self
                .block
                .is_none_or(|block| u64::from(block.get()) > 2 * u64::from(bytes)),
            Redundancy::Rate(rate) => {
                let data = self
                    .block
                    .map_or(1, |block| share(u64::from(block.get()), rate));
                rate > 0 && u64::from(rate) <= MILLION && data > 0
            }
        })
    }

    fn cut(&self, bytes: u32) -> Cut {
        let redundancy = match self.short {
            Some(short) if bytes < short.below => short.redundancy,
            _ => self.redundancy,
        };
        match (self.block, redundancy) {
            (Some(block), Redundancy::Corrects(wrong)) => {
                let added = wrong.saturating_mul(2).min(block.get() - 1);
                Cut {
                    data: block.get() - added,
                    added,
                }
            }
            (Some(block), Redundancy::Rate(rate)) => {
                let data = share(u64::from(block.get()), rate).clamp(1, u64::from(block.get()));
                let data = u32::try_from(data).unwrap_or(1);
                Cut {
                    data,
                    added: block.get() - data,
                }
            }
            (None, Redundancy::Corrects(wrong)) => Cut {
                data: u32::MAX,
                added: wrong.saturating_mul(2),
            },
            (None, Redundancy::Rate(rate)) => {
                let word = (u64::from(bytes) * MILLION).div_ceil(u64::from(rate).max(1));
                let added = word.saturating_sub(u64::from(bytes));
                Cut {
                    data: u32::MAX,
                    added: u32::try_from(added).unwrap_or(u32::MAX),
                }
            }
        }
    }
}

/// ⌊`whole` · `millionths` / 10⁶⌋.
fn share(whole: u64, millionths: u32) -> u64 {
    whole * u64::from(millionths) / MILLION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(code: &Code, bytes: u32) -> Vec<(u32, u32)> {
        code.words(bytes).map(|w| (w.bytes, w.corrects)).collect()
    }

    /// A code for all packets. With a `block` of 0, each packet is one word.
    fn code(block: u32, redundancy: Redundancy) -> Code {
        Code {
            block: NonZeroU32::new(block),
            redundancy,
            short: None,
        }
    }

    /// RS(255, 239), which corrects 8 bytes, as used for optical links and digital video.
    #[test]
    fn blocks_are_full_but_for_the_last() {
        let code = code(255, Redundancy::Corrects(8));
        assert_eq!(words(&code, 500), [(255, 8), (255, 8), (38, 8)]);
        assert_eq!(words(&code, 239), [(255, 8)]);
        assert_eq!(words(&code, 40), [(56, 8)]);
        assert_eq!(code.coded(500), 500 + 3 * 16);
        let by_rate = Code {
            redundancy: Redundancy::Rate(937_255),
            ..code
        };
        assert_eq!(words(&by_rate, 500), words(&code, 500));
    }

    /// With one word per packet, a short acknowledgement tolerates fewer wrong bytes than a long
    /// data packet.
    #[test]
    fn a_word_per_packet_grows_with_it() {
        let mut code = code(0, Redundancy::Rate(950_000));
        assert_eq!(words(&code, 1500), [(1579, 39)]);
        assert_eq!(words(&code, 60), [(64, 2)]);
        code.short = Some(Short {
            below: 128,
            redundancy: Redundancy::Rate(500_000),
        });
        assert_eq!(words(&code, 60), [(120, 30)]);
        assert_eq!(words(&code, 128), [(135, 3)]);
        code.redundancy = Redundancy::Rate(1_000_000);
        assert_eq!(words(&code, 1500), [(1500, 0)]);
    }

    #[test]
    fn words_without_data_are_impossible() {
        assert!(code(255, Redundancy::Corrects(127)).is_possible());
        assert!(!code(255, Redundancy::Corrects(128)).is_possible());
        assert!(!code(255, Redundancy::Rate(3_000)).is_possible());
        assert!(!code(0, Redundancy::Rate(0)).is_possible());
        assert!(!code(0, Redundancy::Rate(1_000_001)).is_possible());
        assert!(code(0, Redundancy::Corrects(1 << 31)).is_possible());
    }

    proptest! {
        /// The words of a packet add up to its bytes on the wire.
        #[test]
        fn words_make_up_the_packet(
            bytes in 0u32..70_000,
            block in 0u32..300,
            wrong in 0u32..400,
            rate in 0u32..1_100_000,
            by_rate: bool,
        ) {
            let redundancy = if by_rate {
                Redundancy::Rate(rate)
            } else {
                Redundancy::Corrects(wrong)
            };
            let code = code(block, redundancy);
            if code.is_possible() {
                let sum: u64 = code.words(bytes).map(|word| u64::from(word.bytes)).sum();
                prop_assert_eq!(sum, u64::from(code.coded(bytes)));
                prop_assert!(code.words(bytes).all(|w| block == 0 || w.bytes <= block));
            }
        }
    }
}
