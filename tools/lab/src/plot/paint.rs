//! Lines, bars and their legend, with their colours and dashes. A law has the same in every
//! picture.

use pathmark_cc::Algorithm;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::{Line, Panel, short, three_digits};

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

/// Number of colours that [`colour()`] keeps distinct.
const MOST_COLOURS: usize = 3 * FIRST_COLOURS.len();

/// How a line or a bar is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paint {
    pub(super) colour: RGBColor,
    /// Pixels drawn and left out in turn, or `None` for a solid line.
    pub(super) dash: Option<(i32, i32)>,
}

/// Paints of the laws in the order of [`Algorithm::NAMES`]. Laws without routers are grey.
const LAWS: [Paint; 13] = [
    solid(213, 94, 0),
    solid(106, 47, 0),
    solid(230, 159, 0),
    solid(150, 100, 0),
    solid(0, 158, 115),
    solid(86, 180, 233),
    solid(90, 90, 90),
    dashed(40, 40, 40, 2, 3),
    dashed(150, 150, 150, 7, 4),
    solid(140, 170, 30),
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

/// Returns the paint of the law with whose name the label begins, as `kernel CUBIC`,
/// `auto-at-port`, `cubic, 40ms` and `vcp1` do, or whose name follows a colon, as in
/// `defaults: xcp`. The longest name counts.
fn law(label: &str) -> Option<Paint> {
    let label = label.to_lowercase();
    let label = label.rsplit(": ").next().unwrap_or(&label);
    let stacks = ["pathmark ", "kernel "];
    let stack = stacks.iter().find_map(|stack| label.strip_prefix(stack));
    let name = stack.unwrap_or(label);
    let begins = |law: &&str| {
        let rest = name.strip_prefix(law);
        let number = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit());
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric) || number(rest))
    };
    let laws = Algorithm::NAMES.iter().zip(LAWS);
    let found = laws.filter(|(law, _)| begins(law));
    let longest = found.max_by_key(|(law, _)| law.len())?;
    Some(longest.1)
}

/// Returns the paints of the labels of several panels, in order. A label has the same paint in all
/// panels. The second line of a law is lighter, the third darker, and further lines are dashed. A
/// label without a law gets the next colour that no law has here.
pub(super) fn paints(panels: &[Vec<&str>]) -> Vec<Vec<Paint>> {
    let labels = || panels.iter().flatten().copied();
    let of_laws: Vec<RGBColor> = labels().filter_map(law).map(|paint| paint.colour).collect();
    let free: Vec<RGBColor> = (0..MOST_COLOURS)
        .map(colour)
        .filter(|own| !of_laws.contains(own))
        .collect();
    let other = |place: usize| Paint {
        colour: free
            .get(place % free.len().max(1))
            .copied()
            .unwrap_or(BLACK),
        dash: None,
    };
    let mut known: Vec<(&str, Option<Paint>)> = Vec::new();
    for label in labels().filter(|label| !label.is_empty()) {
        if !known.iter().any(|(other, _)| *other == label) {
            known.push((label, law(label)));
        }
    }
    let place = |label: &str, law: Option<Paint>| {
        let alike = known.iter().filter(|(_, paint)| *paint == law);
        alike.map(|(name, _)| *name).position(|name| name == label)
    };
    let panel = |labels: &Vec<&str>| {
        let mut unnamed = labels.iter().filter(|label| !label.is_empty()).count()..;
        let paint = |label: &&str| match law(label) {
            Some(paint) => shaded(paint, place(label, Some(paint)).unwrap_or(0)),
            None => other(place(label, None).or_else(|| unnamed.next()).unwrap_or(0)),
        };
        labels.iter().map(paint).collect()
    };
    panels.iter().map(panel).collect()
}

/// Returns the colour with this number. The first colours are followed by darker and then by
/// lighter colours.
pub(super) fn colour(number: usize) -> RGBColor {
    let place = number % FIRST_COLOURS.len();
    let RGBColor(red, green, blue) = FIRST_COLOURS.get(place).copied().unwrap_or(BLACK);
    // Half way to black or to white. For black itself, only the latter exists.
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

/// Returns the paint itself, half way to white, half way to black, and then the same with other
/// dashes.
fn shaded(paint: Paint, shade: usize) -> Paint {
    let colour = match shade % 3 {
        0 => paint.colour,
        1 => mixed(paint.colour, 255),
        _ => mixed(paint.colour, 0),
    };
    let dash = match shade / 3 {
        0 => paint.dash,
        1 => Some((9, 4)),
        _ => Some((3, 3)),
    };
    Paint { colour, dash }
}

fn mixed(RGBColor(red, green, blue): RGBColor, towards: u16) -> RGBColor {
    let mix = |part: u8| u8::try_from((u16::from(part) + towards) / 2).unwrap_or(u8::MAX);
    RGBColor(mix(red), mix(green), mix(blue))
}

/// Share of a category's width for its bars.
const FILLED: f64 = 0.8;
/// Panels with more bars have no numbers above them.
const MOST_NUMBERS: usize = 12;

/// A bar's position on the horizontal axis, its height and its line.
type Bar<'a> = (f64, f64, &'a Line, RGBColor);

/// True if the points of this line are bars.
pub(super) fn is_bar(panel: &Panel, line: &Line) -> bool {
    !panel.categories.is_empty() && line.marked
}

/// Returns the bars, each with its width.
fn bars<'a>(panel: &'a Panel, paints: &[Paint]) -> Vec<(Bar<'a>, f64)> {
    let mut bars = Vec::new();
    for place in 0..panel.categories.len() {
        let x = place as f64;
        let drawn = panel.drawn().zip(paints);
        let here = drawn.filter(|(line, _)| is_bar(panel, line));
        let here = here.filter_map(|(line, paint)| {
            let mut points = line.points.iter();
            let (_, y) = points.find(|(at, _)| (at - x).abs() < 1e-6)?;
            Some((*y, line, paint.colour))
        });
        let here: Vec<_> = here.collect();
        // A single bar is as wide as one of two bars.
        let width = (FILLED / here.len().max(1) as f64).min(FILLED / 2.0);
        let first = x - width * here.len() as f64 / 2.0;
        for (index, (y, line, colour)) in here.into_iter().enumerate() {
            bars.push(((first + width * index as f64, y, line, colour), width));
        }
    }
    bars
}

/// Draws the bars of a panel with categories.
pub(super) fn draw_bars<'a, B: DrawingBackend + 'a>(
    panel: &Panel,
    paints: &[Paint],
    chart: &mut ChartContext<'a, B, Cartesian2d<Axis, Axis>>,
    y_max: f64,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let bars = bars(panel, paints);
    let numbered = bars.len() <= MOST_NUMBERS;
    for ((left, y, line, colour), width) in bars {
        let (right, middle) = (left + width * 0.94, left + width * 0.47);
        let bar = Rectangle::new([(left, 0.0), (right, y.min(y_max))], colour.filled());
        chart.draw_series(std::iter::once(bar))?;
        let category = (left + width / 2.0).round();
        let spread = line.bars.iter();
        let mut spread = spread.filter(|(x, ..)| (x - category).abs() < 1e-6);
        let mut top = y.min(y_max);
        if let Some((_, low, high)) = spread.next() {
            top = high.min(y_max).max(top);
            let stroke = vec![(middle, low.min(y_max)), (middle, high.min(y_max))];
            let stroke = PathElement::new(stroke, BLACK.stroke_width(2));
            chart.draw_series(std::iter::once(stroke))?;
        }
        if numbered || y > y_max {
            let above = if y > y_max { "▲" } else { "" };
            let text = format!("{above}{}", short(three_digits(y)));
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
            let text = EmptyElement::at((middle, top)) + Text::new(text, (0, -3), style);
            chart.draw_series(std::iter::once(text))?;
        }
    }
    Ok(())
}

/// Height of a row of the legend, the position at which rows begin, and the assumed width of a
/// letter, in pixels.
pub(super) const ROW: u32 = 17;
const LEFT: u32 = 60;
const LETTER: u32 = 7;

/// A line's name in the legend.
pub(super) struct Entry<'a> {
    label: &'a str,
    paint: Paint,
    /// A bar instead of a line.
    bar: bool,
    x: u32,
    pub(super) row: u32,
}

impl Entry<'_> {
    pub(super) fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let at = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let (x, y) = (at(self.x), at(self.row * ROW));
        let colour = self.paint.colour;
        if self.bar {
            let square = [(x + 6, y + 4), (x + 18, y + 14)];
            area.draw(&Rectangle::new(square, colour.filled()))?;
        } else {
            // The legend has the same dashes as the line.
            let (on, off) = self.paint.dash.unwrap_or((18, 0));
            let mut from = x;
            while from < x + 18 {
                let to = (from + on).min(x + 18);
                let stroke = [(from, y + 9), (to, y + 9)];
                area.draw(&PathElement::new(stroke, colour.stroke_width(2)))?;
                from = to + off.max(1);
            }
        }
        area.draw(&Text::new(self.label, (x + 23, y + 2), ("sans-serif", 12)))
    }
}

impl Panel {
    /// Returns the position of each labelled line in the rows above the chart.
    pub(super) fn legend(&self, paints: &[Paint], width: u32) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        if self.without_legend {
            return entries;
        }
        let (mut x, mut row) = (LEFT, 0);
        for (line, paint) in self.drawn().zip(paints) {
            let Some(label) = line.label.as_ref().filter(|label| !label.is_empty()) else {
                continue;
            };
            let letters = u32::try_from(label.chars().count()).unwrap_or(u32::MAX);
            let wide = letters.saturating_mul(LETTER).saturating_add(36);
            if x > LEFT && x.saturating_add(wide) > width {
                (x, row) = (LEFT, row + 1);
            }
            entries.push(Entry {
                label,
                paint: *paint,
                bar: is_bar(self, line),
                x,
                row,
            });
            x = x.saturating_add(wide);
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::super::Line;
    use super::*;

    fn colours(labels: &[&str]) -> Vec<(u8, u8, u8)> {
        let paints = paints(&[labels.to_vec()]);
        let all = paints.iter().flatten();
        all.map(|paint| paint.colour.rgb()).collect()
    }

    #[test]
    fn a_label_without_a_law_has_no_laws_colour() {
        let found = colours(&["tcp", "vcp+bise", "auto", "defaults", "tcp"]);
        assert_eq!(found[0], found[4]);
        let laws: Vec<_> = LAWS.iter().map(|paint| paint.colour.rgb()).collect();
        assert!(laws.contains(&found[1]) && laws.contains(&found[2]));
        for (other, others) in [(0, &found[1..4]), (3, &found[..3])] {
            assert!(!others.contains(&found[other]), "{found:?}");
        }
    }

    #[test]
    fn a_label_has_one_paint_in_all_panels() {
        let panels = [vec!["ftp0", "xcp, 1", ""], vec!["", "xcp, 2", "ftp0"]];
        let found = paints(&panels);
        assert_eq!(found[0][0], found[1][2]);
        assert_ne!(found[0][2], found[0][0]);
        assert_ne!(found[0][1], found[1][1]);
        let many: Vec<String> = (0..9).map(|n| format!("xcp, {n}")).collect();
        let mut found = paints(&[many.iter().map(String::as_str).collect()]).concat();
        while let Some(paint) = found.pop() {
            assert!(!found.contains(&paint), "{paint:?}");
        }
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
        assert_eq!(colours(&["cubic0"]), colours(&["cubic"]));
        assert_eq!(colours(&["known: auto"]), colours(&["auto"]));
        assert_eq!(law("xcpx"), None);
        assert_eq!(law("file 0"), None);
    }

    #[test]
    fn lines_of_one_law_differ_in_one_picture() {
        let all = colours(&["xcp, before", "xcp, after", "xcp, before", "file 3"]);
        assert_eq!(all[0], all[2]);
        assert_ne!(all[0], all[1]);
        assert_eq!(all[3], colour(0).rgb());
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

    /// A single line without a label takes no space, and has no stroke in the legend.
    #[test]
    fn lines_without_a_name_are_not_in_the_legend() {
        let line = |label: Option<&str>| Line {
            label: label.map(str::to_owned),
            ..Line::default()
        };
        let panel = Panel {
            lines: vec![line(Some("")), line(None), line(Some("one"))],
            ..Panel::default()
        };
        let paints = paints(&[vec!["", "", "one"]]).concat();
        let entries = panel.legend(&paints, 500);
        let labels: Vec<&str> = entries.iter().map(|entry| entry.label).collect();
        assert_eq!(labels, ["one"]);
    }
}
