//! Line charts as SVG and PNG, with a font of their own so that they look the same on every machine.

use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

/// A chart that cannot be written.
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
}

/// One chart.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Headline.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x_label: String,
    /// What the vertical axis shows, with its unit.
    pub y_label: String,
    /// End of the horizontal axis; by default the last point.
    pub x_max: Option<f64>,
    /// End of the vertical axis; by default the highest point.
    pub y_max: Option<f64>,
    /// Logarithmic horizontal axis.
    pub log_x: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name in the legend; without one it is not in the legend.
    pub label: Option<String>,
    /// Its points, ordered by x.
    pub points: Vec<(f64, f64)>,
    /// Drawn dashed and grey: a bound or a reference.
    pub reference: bool,
}

const PANEL: (u32, u32) = (560, 300);
const HEAD: u32 = 48;
/// Colours that are told apart also with the common forms of colour blindness (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

impl Figure {
    /// Writes it as SVG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        load_font();
        let area = SVGBackend::new(path, self.size()).into_drawing_area();
        self.draw(&area).map_err(|reason| failed(path, reason))
    }

    /// Writes it as PNG.
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
        (scale(columns, PANEL.0), scale(rows, PANEL.1) + HEAD)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let text = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        area.fill(&WHITE).map_err(text)?;
        let (head, body) = area.split_vertically(HEAD);
        head.titled(&self.title, ("sans-serif", 22)).map_err(text)?;
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns).max(1);
        for (cell, panel) in body.split_evenly((rows, columns)).iter().zip(&self.panels) {
            panel.draw(cell).map_err(text)?;
        }
        area.present().map_err(text)
    }
}

impl Panel {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let least_x = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let x_max = self
            .x_max
            .unwrap_or_else(|| most(&mut points().map(|p| p.0)));
        let y_max = self
            .y_max
            .unwrap_or_else(|| 1.05 * most(&mut points().map(|p| p.1)));
        // An axis needs an extent, also of a run in which nothing happened.
        let (x_max, y_max) = (positive(x_max), positive(y_max));
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(8)
            .margin_right(16)
            .caption(&self.title, ("sans-serif", 16))
            .x_label_area_size(36)
            .y_label_area_size(60);
        if self.log_x && least_x > 0.0 && least_x < x_max {
            let mut chart = builder.build_cartesian_2d((least_x..x_max).log_scale(), 0.0..y_max)?;
            self.draw_on(&mut chart)
        } else {
            let mut chart = builder.build_cartesian_2d(0.0..x_max, 0.0..y_max)?;
            self.draw_on(&mut chart)
        }
    }

    fn draw_on<'a, B, X>(
        &self,
        chart: &mut ChartContext<'a, B, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
    where
        B: DrawingBackend + 'a,
        X: plotters::coord::ranged1d::Ranged<ValueType = f64>
            + plotters::coord::ranged1d::ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .label_style(("sans-serif", 12))
            .axis_desc_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        let mut colours = COLOURS.iter().cycle();
        let mut labelled = false;
        for line in &self.lines {
            let points = line.points.iter().copied();
            if line.reference {
                let style = BLACK.mix(0.5).stroke_width(1);
                chart.draw_series(DashedLineSeries::new(points, 4, 4, style))?;
                continue;
            }
            let colour = colours.next().copied().unwrap_or(BLACK);
            let drawn = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            if let Some(label) = &line.label {
                labelled = true;
                drawn.label(label).legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                });
            }
        }
        if labelled {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .label_font(("sans-serif", 12))
                .draw()?;
        }
        Ok(())
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
        // It fails for bytes that are no font; these are one, as the test below sees.
        let _ = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let wave = |phase: f64| {
            (0..100)
                .map(|i| {
                    let x = f64::from(i) / 10.0;
                    (x, 1.0 + (x + phase).sin())
                })
                .collect()
        };
        let panel = |title: &str, log_x| Panel {
            title: title.into(),
            x_label: "time [s]".into(),
            y_label: "throughput [Mbit/s]".into(),
            log_x,
            lines: vec![
                Line {
                    label: Some("one".into()),
                    points: wave(0.0),
                    reference: false,
                },
                Line {
                    label: None,
                    points: vec![(0.0, 1.5), (10.0, 1.5)],
                    reference: true,
                },
            ],
            ..Panel::default()
        };
        Figure {
            title: "A figure".into(),
            columns: 2,
            panels: vec![panel("left", false), panel("right", true), Panel::default()],
        }
    }

    #[test]
    fn both_formats_carry_the_lines_and_the_text() {
        let directory = tempfile::tempdir().unwrap();
        let (svg, png) = (
            directory.path().join("a.svg"),
            directory.path().join("a.png"),
        );
        figure().write_svg(&svg).unwrap();
        figure().write_png(&png).unwrap();
        let svg = std::fs::read_to_string(svg).unwrap();
        assert!(svg.contains("throughput [Mbit/s]") && svg.contains("<polyline"));
        let png = std::fs::read(png).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        // A 1120 x 648 picture with curves and text does not compress to next to nothing.
        assert!(png.len() > 10_000, "{} bytes", png.len());
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let error = figure().write_svg(Path::new("/no/such/place.svg"));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("/no/such/place.svg")
        );
    }
}
