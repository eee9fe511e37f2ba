//! Colours and dashes of lines and bars. A law has the same ones in every picture.

use pathmark_cc::Algorithm;
use plotters::prelude::*;

/// Colours that stay distinct with the common forms of colour blindness (Okabe and Ito, 2008).
const FIRST_COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// How a line or a bar is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paint {
    pub(super) colour: RGBColor,
    /// Pixels drawn and left out, alternately; solid without.
    pub(super) dash: Option<(i32, i32)>,
}

/// Paints of the laws in the order of [`Algorithm::NAMES`]. Laws without routers are grey.
const LAWS: [Paint; 12] = [
    solid(213, 94, 0),
    solid(106, 47, 0),
    solid(230, 159, 0),
    solid(150, 100, 0),
    solid(0, 158, 115),
    solid(86, 180, 233),
    solid(90, 90, 90),
    dashed(40, 40, 40, 2, 3),
    dashed(150, 150, 150, 7, 4),
    solid(204, 121, 167),
    solid(120, 50, 110),
    solid(0, 114, 178),
];

const fn solid(red: u8, green: u8, blue: u8) -> Paint {
    Paint {
        colour: RGBColor(red, green, blue),
        dash: None,
    }
}

const fn dashed(red: u8, green: u8, blue: u8, drawn: i32, left_out: i32) -> Paint {
    Paint {
        colour: RGBColor(red, green, blue),
        dash: Some((drawn, left_out)),
    }
}

/// The paint of the law whose name the label begins with, as `kernel CUBIC`, `auto-at-port` and
/// `cubic, 40ms` do. The longest name counts.
fn law(label: &str) -> Option<Paint> {
    let label = label.to_lowercase();
    let stacks = ["pathmark ", "kernel "];
    let stack = stacks.iter().find_map(|stack| label.strip_prefix(stack));
    let name = stack.unwrap_or(&label);
    let begins = |law: &&str| {
        let rest = name.strip_prefix(law);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    };
    let laws = Algorithm::NAMES.iter().zip(LAWS);
    let found = laws.filter(|(law, _)| begins(law));
    let longest = found.max_by_key(|(law, _)| law.len())?;
    Some(longest.1)
}

/// Paints of these labels, in their order. The second line of a law is lighter, the third darker.
/// A label without a law has the colour of its number, or else of its place.
pub(super) fn paints(labels: &[(Option<&str>, Option<usize>)]) -> Vec<Paint> {
    let mut used: Vec<(Paint, &str)> = Vec::new();
    let labels = labels.iter().enumerate();
    labels
        .map(|(place, (label, number))| {
            let label = label.unwrap_or("");
            let Some(paint) = law(label) else {
                return Paint {
                    colour: colour(number.unwrap_or(place)),
                    dash: None,
                };
            };
            if !used.contains(&(paint, label)) {
                used.push((paint, label));
            }
            let of_law = used.iter().filter(|(other, _)| *other == paint);
            let shade = of_law.clone().position(|(_, other)| *other == label);
            Paint {
                colour: shaded(paint.colour, shade.unwrap_or(0)),
                ..paint
            }
        })
        .collect()
}

/// The colour with this number: after the first ones come darker ones, and then lighter ones.
pub(super) fn colour(number: usize) -> RGBColor {
    let place = number % FIRST_COLOURS.len();
    let RGBColor(red, green, blue) = FIRST_COLOURS.get(place).copied().unwrap_or(BLACK);
    // Half way to black or to white; black itself has only the latter.
    let towards = match (
        number / FIRST_COLOURS.len() % 3,
        place + 1 == FIRST_COLOURS.len(),
    ) {
        (0, _) => return RGBColor(red, green, blue),
        (1, false) => 0,
        (1, true) => 96,
        (_, false) => 255,
        (_, true) => 192,
    };
    mixed(RGBColor(red, green, blue), towards)
}

/// The colour itself, half way to white, half way to black, and so on in rounds.
fn shaded(colour: RGBColor, shade: usize) -> RGBColor {
    match shade % 3 {
        0 => colour,
        1 => mixed(colour, 255),
        _ => mixed(colour, 0),
    }
}

fn mixed(RGBColor(red, green, blue): RGBColor, towards: u16) -> RGBColor {
    let mix = |part: u8| u8::try_from((u16::from(part) + towards) / 2).unwrap_or(u8::MAX);
    RGBColor(mix(red), mix(green), mix(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(labels: &[&str]) -> Vec<(u8, u8, u8)> {
        let labels: Vec<_> = labels.iter().map(|label| (Some(*label), None)).collect();
        let paints = paints(&labels);
        paints.iter().map(|paint| paint.colour.rgb()).collect()
    }

    #[test]
    fn a_law_has_one_colour_wherever_it_stands() {
        let names = ["auto-at-xcp", "pathmark auto"];
        assert_eq!(colours(&names[..1]), colours(&names[1..]));
        assert_eq!(
            colours(&["defaults", "cubic"])[1],
            colours(&["kernel CUBIC"])[0]
        );
        assert_eq!(colours(&["newreno+red"]), colours(&["newreno"]));
        assert_ne!(colours(&["xcp-i"]), colours(&["xcp"]));
        assert_ne!(colours(&["vcp+bise"]), colours(&["vcp"]));
        assert_eq!(law("xcpx"), None);
        assert_eq!(law("file 0"), None);
    }

    #[test]
    fn lines_of_one_law_differ_in_one_picture() {
        let all = colours(&["xcp, before", "xcp, after", "xcp, before", "file 3"]);
        assert_eq!(all[0], all[2]);
        assert_ne!(all[0], all[1]);
        assert_eq!(all[3], colour(3).rgb());
    }

    #[test]
    fn laws_without_routers_are_grey() {
        assert_eq!(Algorithm::NAMES.len(), LAWS.len());
        for name in Algorithm::NAMES {
            let (red, green, blue) = colours(&[name])[0];
            let grey = red == green && green == blue;
            assert_eq!(grey, ["cubic", "newreno", "bbr"].contains(name), "{name}");
        }
        let dashes = ["cubic", "newreno", "bbr"].map(|name| law(name).unwrap().dash);
        assert!(dashes[0] != dashes[1] && dashes[1] != dashes[2]);
    }

    #[test]
    fn many_lines_have_colours_of_their_own() {
        let mut all: Vec<(u8, u8, u8)> = (0..21).map(|n| colour(n).rgb()).collect();
        assert_eq!(all[0], (0, 114, 178));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 21);
    }
}
