//! Line charts and heat maps as SVG and PNG, with an embedded font, so that they look the same on
//! every machine.

mod axis;
mod heat;
mod paint;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Once;

use axis::Axis;
pub use heat::{HeatCell, HeatMap, HeatPanel};
use paint::{Paint, paints};
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::register_font;

/// Error when writing a chart.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the plot {path}: {reason}")]
pub struct PlotError {
    path: String,
    reason: String,
}

/// Panels in a grid, read from left to right and from top to bottom.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Headline.
    pub title: String,
    /// Number of columns.
    pub columns: usize,
    /// The panels.
    pub panels: Vec<Panel>,
    /// Width and height of a panel, pixels. By default a figure is about as wide as a page.
    pub panel_size: Option<(u32, u32)>,
    /// A line at the bottom, for example about the source of the figures.
    pub footer: Option<String>,
}

/// One chart. Axes of marked lines and of bars are logarithmic if values span decades.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Headline.
    pub title: String,
    /// Quantity of the horizontal axis, with its unit.
    pub x_label: String,
    /// Quantity of the vertical axis, with its unit.
    pub y_label: String,
    /// End of the horizontal axis. The default is the last point.
    pub x_max: Option<f64>,
    /// End of the vertical axis. The default is the highest point.
    pub y_max: Option<f64>,
    /// Names for x = 0, 1, … instead of numbers. Points of marked lines are bars.
    pub categories: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// No legend, because categories or the title name the lines.
    pub without_legend: bool,
}

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The name in the legend. Without a name, the line isn't in the legend.
    pub label: Option<String>,
    /// Its points, ordered by x.
    pub points: Vec<(f64, f64)>,
    /// A bound or a reference: dashed, grey, and not in the legend.
    pub reference: bool,
    /// Index of the panel's line whose expected values this line shows, dashed and in the same
    /// colour.
    pub expected_of: Option<usize>,
    /// The points are marked.
    pub marked: bool,
    /// Error bars: x, lower end, and upper end.
    pub bars: Vec<(f64, f64, f64)>,
}

impl Line {
    /// Returns a plain line with a name in the legend.
    pub fn named(label: impl Into<String>, points: impl Into<Vec<(f64, f64)>>) -> Self {
        Self {
            label: Some(label.into()),
            points: points.into(),
            ..Self::default()
        }
    }
}

/// Sizes of panels that are alone in a row, and of others.
const ALONE: (u32, u32) = (760, 330);
const PANEL: (u32, u32) = (415, 270);
/// Horizontal and vertical axes are logarithmic beyond these ratios of values.
const SPAN: f64 = 40.0;
const LONG_SPAN: f64 = 100.0;
const HEAD: u32 = 48;
const FOOT: u32 = 22;

impl Figure {
    /// Writes the figure as SVG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        load_font();
        let area = SVGBackend::new(path, self.size()).into_drawing_area();
        self.draw(&area).map_err(|reason| failed(path, reason))
    }

    /// Writes the figure as PNG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<(), PlotError> {
        load_font();
        let area = BitMapBackend::new(path, self.size()).into_drawing_area();
        self.draw(&area).map_err(|reason| failed(path, reason))
    }

    fn size(&self) -> (u32, u32) {
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns).max(1);
        let scale = |n: usize, unit| u32::try_from(n).unwrap_or(1) * unit;
        let default = if columns == 1 { ALONE } else { PANEL };
        let (wide, high) = self.panel_size.unwrap_or(default);
        (scale(columns, wide), scale(rows, high) + HEAD + self.foot())
    }

    fn foot(&self) -> u32 {
        if self.footer.is_some() { FOOT } else { 0 }
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let text = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        area.fill(&WHITE).map_err(text)?;
        let (head, body) = area.split_vertically(HEAD);
        let width = f64::from(head.dim_in_pixel().0);
        let (lines, size) = headline(&self.title, width);
        let mut rest = head;
        for line in lines {
            rest = rest.titled(&line, ("sans-serif", size)).map_err(text)?;
        }
        let high = body.dim_in_pixel().1;
        let (body, foot) = body.split_vertically(high.saturating_sub(self.foot()));
        if let Some(footer) = &self.footer {
            let style = ("sans-serif", 12).into_font().color(&BLACK.mix(0.7));
            foot.draw(&Text::new(footer.as_str(), (12, 4), style))
                .map_err(text)?;
        }
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns).max(1);
        let paints = paints(&self.panels.iter().map(Panel::labels).collect::<Vec<_>>());
        let cells = body.split_evenly((rows, columns));
        for ((cell, panel), paints) in cells.iter().zip(&self.panels).zip(paints) {
            panel.draw(cell, &paints).map_err(text)?;
        }
        area.present().map_err(text)
    }
}

impl Panel {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        paints: &[Paint],
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let (x, y) = self.axes();
        let ends = (x.range().end, y.range().end);
        let legend = self.legend(paints, area.dim_in_pixel().0);
        let rows = legend.iter().map(|entry| entry.row + 1).max().unwrap_or(0);
        let letters = self.title.chars().count();
        let size = fitting(letters, f64::from(area.dim_in_pixel().0)).min(16.0);
        let area = area.titled(&self.title, ("sans-serif", size))?;
        let (top, area) = area.split_vertically(rows * paint::ROW);
        for entry in &legend {
            entry.draw(&top)?;
        }
        let mut builder = ChartBuilder::on(&area);
        builder
            .margin(8)
            .margin_right(16)
            .x_label_area_size(36)
            .y_label_area_size(60);
        let mut chart = builder.build_cartesian_2d(x, y)?;
        self.draw_on(&mut chart, paints, ends)
    }

    /// Both axes.
    fn axes(&self) -> (Axis, Axis) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let bars = self.lines.iter().flat_map(|line| &line.bars);
        let (xs, ys) = (points().map(|p| p.0), points().map(|p| p.1));
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let least_x = xs.clone().fold(f64::INFINITY, f64::min);
        let has_bars = !self.categories.is_empty();
        // An axis needs an extent, even for a run in which nothing happened.
        let x_max = positive(self.x_max.unwrap_or_else(|| most(&mut xs.clone())));
        // There are numbers above bars.
        let room = if has_bars { 1.12 } else { 1.05 };
        let y_most = most(&mut ys.clone().chain(bars.map(|bar| bar.2)));
        let y_max = positive(self.y_max.unwrap_or(room * y_most));
        let is_marked = self.lines.iter().any(|line| line.marked);
        let log_x = (is_marked && !has_bars)
            .then(|| Axis::log(xs, x_max, SPAN))
            .flatten();
        let free = self.y_max.is_none() && is_marked && (has_bars || log_x.is_some());
        // The smallest bar must also have a height.
        let log_y = (free.then(|| Axis::log(ys.chain(has_bars.then_some(0.0)), y_max, LONG_SPAN)))
            .flatten();
        let x = log_x.unwrap_or_else(|| {
            Axis::linear(match least_x {
                _ if has_bars => -0.5..self.categories.len() as f64 - 0.5,
                // From 0, unless that would leave half of the axis empty.
                least if least < x_max && 2.0 * least > x_max => least..x_max,
                _ => 0.0..x_max,
            })
        });
        (x, log_y.unwrap_or_else(|| Axis::linear(0.0..y_max)))
    }

    fn draw_on<'a, B: DrawingBackend + 'a>(
        &self,
        chart: &mut ChartContext<'a, B, Cartesian2d<Axis, Axis>>,
        paints: &[Paint],
        (x_max, y_max): (f64, f64),
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let name = |x: &f64| {
            if self.categories.is_empty() {
                short(*x)
            } else {
                self.category(*x)
            }
        };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .label_style(("sans-serif", 12))
            .axis_desc_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_label_formatter(&name)
            .y_label_formatter(&|y| short(*y));
        if !self.categories.is_empty() {
            mesh.x_labels(2 * self.categories.len() + 1)
                .disable_x_mesh();
        }
        mesh.draw()?;
        paint::draw_bars(self, paints, chart, y_max)?;
        let mut next = paints.iter();
        let mut labels_above = 1;
        for line in &self.lines {
            let clipped = axis::clip(&line.points, x_max, y_max);
            if line.reference || line.expected_of.is_some() {
                let paint = line.expected_of.and_then(|index| paints.get(index));
                let colour = paint.map_or(BLACK, |paint| paint.colour);
                let style = colour.mix(0.6).stroke_width(1);
                for part in clipped.parts {
                    chart.draw_series(DashedLineSeries::new(part, 5, 4, style))?;
                }
                continue;
            }
            let paint = next.next().copied();
            let colour = paint.map_or(BLACK, |paint| paint.colour);
            if paint::is_bar(self, line) {
                continue;
            }
            let style = colour.stroke_width(2);
            for part in clipped.parts {
                match paint.and_then(|paint| paint.dash) {
                    Some((on, off)) => {
                        chart.draw_series(DashedLineSeries::new(part, on, off, style))?
                    }
                    None => chart.draw_series(LineSeries::new(part, style))?,
                };
            }
            if line.marked {
                let within = |(x, y): &&(f64, f64)| *x <= x_max && *y <= y_max;
                let dots = line.points.iter().filter(within);
                chart.draw_series(dots.map(|&at| Circle::new(at, 3, colour.stroke_width(2))))?;
            }
            let within = |(x, low, _): &&(f64, f64, f64)| *x <= x_max && *low <= y_max;
            let bars = line.bars.iter().filter(within);
            chart.draw_series(bars.map(|&(x, low, high)| {
                let ends = vec![(x, low), (x, high.min(y_max))];
                PathElement::new(ends, colour.stroke_width(1))
            }))?;
            // Labels where the line leaves the axes show the highest peaks.
            let (above, more) = highest(clipped.above);
            let labels = above.len();
            let lowered = if above.is_empty() { 0 } else { 11 };
            chart.draw_series(above.into_iter().enumerate().map(|(place, (x, y))| {
                let style = ("sans-serif", 11).into_font().color(&colour);
                let mut text = format!("▲{}", short(three_digits(y)));
                if place + 1 == labels && more > 0 {
                    text.push_str(&format!(" (+{more} lower)"));
                }
                EmptyElement::at((x, y_max)) + Text::new(text, (-6, labels_above), style)
            }))?;
            // The next line's labels are below these.
            labels_above += lowered;
        }
        Ok(())
    }

    /// Returns the lines that have their own paint.
    fn drawn(&self) -> impl Iterator<Item = &Line> {
        let own = |line: &&Line| !line.reference && line.expected_of.is_none();
        self.lines.iter().filter(own)
    }

    /// Returns these lines' labels, or empty texts.
    fn labels(&self) -> Vec<&str> {
        let labels = self.drawn().map(|line| line.label.as_deref());
        labels.map(Option::unwrap_or_default).collect()
    }
}

/// Maximum number of labels per line for peaks above the axis.
const MOST_ABOVE: usize = 3;

/// Returns the peaks above the axis that get a label, from left to right, and the number of other,
/// lower peaks.
fn highest(mut above: Vec<(f64, f64)>) -> (Vec<(f64, f64)>, usize) {
    above.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more = above.len().saturating_sub(MOST_ABOVE);
    above.truncate(MOST_ABOVE);
    above.sort_by(|a, b| a.0.total_cmp(&b.0));
    (above, more)
}

impl Panel {
    /// Returns the name at `x`, if there is one.
    fn category(&self, x: f64) -> String {
        let mut named = self.categories.iter().enumerate();
        let found = named.find(|(index, _)| (*index as f64 - x).abs() < 1e-6);
        found.map_or_else(String::new, |(_, name)| name.clone())
    }
}

fn positive(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 {
        value
    } else {
        1.0
    }
}

fn failed(path: &Path, reason: String) -> PlotError {
    PlotError {
        path: path.display().to_string(),
        reason,
    }
}

fn load_font() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        // This only fails for an invalid font, which the test below excludes.
        let _ = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
}

/// Fits a headline into one line, or into two if the letters would be small. Returns the lines and
/// the letters' size.
fn headline(title: &str, width: f64) -> (Vec<String>, f64) {
    let letters = title.chars().count();
    if fitting(letters, width) >= 14.0 {
        return (vec![title.to_owned()], fitting(letters, width).min(22.0));
    }
    let (mut first, mut second) = (String::new(), String::new());
    for word in title.split_whitespace() {
        let line = if 2 * first.chars().count() < letters && second.is_empty() {
            &mut first
        } else {
            &mut second
        };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let longer = first.chars().count().max(second.chars().count());
    (vec![first, second], fitting(longer, width).min(16.0))
}

/// Returns the size at which this number of letters fits. A letter's width is about 0.6 of its
/// size.
fn fitting(letters: usize, width: f64) -> f64 {
    width / letters.max(1) as f64 / 0.6
}

/// Returns the shortest form of a number: `0.25`, `300`, `1e-5`, `1e9`.
fn short(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rounds a number to the precision of a plot.
fn three_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.abs().max(1e-300).log10().floor() - 2.0);
    (value / unit).round() * unit
}
