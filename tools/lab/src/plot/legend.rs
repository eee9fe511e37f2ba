//! The rows above a chart that name its lines.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Panel;
use super::bars::is_bar;
use super::paint::Paint;

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
    use super::super::paint::paints;
    use super::*;

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
