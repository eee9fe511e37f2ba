//! Bars for points of categories, because lines would suggest an order.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::paint::Paint;
use super::text::{short, three_digits};
use super::{Line, Panel};

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
pub(super) fn draw<'a, B: DrawingBackend + 'a>(
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
