//! The loss by corruption that routers declare for the links after their ports, in three bits.
//!
//! | class | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! |---|---|---|---|---|---|---|---|---|
//! | stands for | nothing declared | 0.1 % | 0.3 % | 1 % | 2 % | 5 % | 10 % | 30 % |
//!
//! A share is encoded as the class whose ratio to it is nearest to 1, or as class 0 if it is below
//! 0.05 %. A router adds its own share to the share of the class that it finds, so the sum over
//! hops is as exact as the classes are.

/// The bits of a class.
pub const MASK: u8 = 7;

/// The shares of the classes, in 10⁻⁶.
const PPM: [u32; 8] = [0, 1_000, 3_000, 10_000, 20_000, 50_000, 100_000, 300_000];

/// The lower ends of classes 1 to 7, in 10⁻⁶. Between two classes, this is their geometric mean.
const FROM: [u32; 7] = [500, 1_732, 5_477, 14_142, 31_623, 70_711, 173_205];

/// Returns the class of a share of packets in 10⁻⁶.
pub fn encode(ppm: u32) -> u8 {
    FROM.iter()
        .zip(1..)
        .take_while(|(from, _)| ppm >= **from)
        .last()
        .map_or(0, |(_, class)| class)
}

/// Returns the share of a class, in 10⁻⁶. Bits outside [`MASK`] are ignored.
#[inline]
pub fn decode(class: u8) -> u32 {
    PPM.get(usize::from(class & MASK)).copied().unwrap_or(0)
}

/// Returns the class after a link that loses another `ppm`. It is never below `class`.
#[inline]
pub fn add(class: u8, ppm: u32) -> u8 {
    if ppm == 0 {
        return class & MASK;
    }
    encode(decode(class).saturating_add(ppm))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_classes() {
        for (ppm, class) in [
            (0, 0),
            (499, 0),
            (500, 1),
            (1_000, 1),
            (1_731, 1),
            (1_732, 2),
            (10_000, 3),
            (30_000, 4),
            (31_623, 5),
            (50_000, 5),
            (100_000, 6),
            (200_000, 7),
            (u32::MAX, 7),
        ] {
            assert_eq!(encode(ppm), class, "{ppm}");
        }
        for class in 0..=7 {
            assert_eq!(encode(decode(class)), class);
            assert_eq!(decode(class | 0xF8), decode(class));
        }
    }

    #[test]
    fn hops_add_up() {
        // Twice 1 % is 2 %, and twice 5 % is 10 %. Twice 2 % is nearer to 5 % than to 2 %.
        assert_eq!(add(3, 10_000), 4);
        assert_eq!(add(5, 50_000), 6);
        assert_eq!(add(4, 20_000), 5);
        assert_eq!(add(5, 10_000), 5);
        assert_eq!(add(7, u32::MAX), 7);
        assert_eq!(add(6, 0), 6);
        // Ten links of 0.1 %.
        let ten = (0..10).fold(0, |class, _| add(class, 1_000));
        assert_eq!(decode(ten), 3_000);
    }

    proptest! {
        #[test]
        fn a_hop_never_lowers_it_and_more_loss_is_no_lower_class(
            class in 0..8u8,
            ppm: u32,
            more: u32,
        ) {
            prop_assert!(add(class, ppm) >= class);
            prop_assert!(encode(ppm.saturating_add(more)) >= encode(ppm));
        }

        #[test]
        fn between_the_ends_it_is_within_the_square_root_of_a_step(ppm in 577u32..519_000) {
            let ratio = f64::from(decode(encode(ppm))) / f64::from(ppm);
            // The widest step is from 0.3 to 1 %, whose square root is 1.83; 10⁻⁶ is added for
            // rounding.
            prop_assert!((0.547..1.83).contains(&ratio), "{ratio}");
        }
    }
}
