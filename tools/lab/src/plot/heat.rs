//! Heat maps: panels of coloured cells in rows, with the rows' names on the left.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{PlotError, failed, load_font};

/// Panels of the same rows and columns, laid out in lines.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// Headline.
    pub title: String,
    /// A line below it.
    pub subtitle: String,
    /// Meanings of colours: their names, and how good they are.
    pub legend: Vec<(String, f64)>,
    /// Number of panels in a line.
    pub columns: usize,
    /// Names of the rows, the same for all panels.
    pub rows: Vec<String>,
    /// Names of the columns, each with one or more lines.
    pub heads: Vec<Vec<String>>,
    /// The panels.
    pub panels: Vec<HeatPanel>,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct HeatPanel {
    /// Headline.
    pub title: String,
    /// Its cells, row by row.
    pub cells: Vec<Vec<HeatCell>>,
}

/// One cell: a colour, and text on it.
#[derive(Clone, Debug, Default)]
pub struct HeatCell {
    /// How good the value is, from 0 to 1. `None` if nothing was measured.
    pub good: Option<f64>,
    /// The text on the cell.
    pub text: String,
}

const CELL: (i32, i32) = (48, 19);
const LETTER: i32 = 7;
/// Size of most letters, which is still 10 pixels at the width of a page.
const SIZE: f64 = 14.0;
/// Width of a letter of a panel's headline, pixels.
const TITLE_LETTER: i32 = 8;
const MARGIN: i32 = 12;
const TOP: i32 = 58;
const LEGEND: i32 = 26;
const LINE: i32 = 15;

/// Returns a colour from 0 (bad) to 1 (good): vermilion over white to blue, which are also distinct
/// with colour blindness.
fn colour(good: f64) -> RGBColor {
    let good = good.clamp(0.0, 1.0);
    let (end, part) = if good < 0.5 {
        (RGBColor(213, 94, 0), 1.0 - 2.0 * good)
    } else {
        (RGBColor(0, 114, 178), 2.0 * good - 1.0)
    };
    let mix = |end: u8| (255.0 + (f64::from(end) - 255.0) * part).round() as u8;
    RGBColor(mix(end.0), mix(end.1), mix(end.2))
}

/// Returns black or white, whichever is more readable on this colour (luma of ITU-R BT.601).
fn ink(RGBColor(r, g, b): RGBColor) -> RGBColor {
    let luma = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    if luma > 110.0 { BLACK } else { WHITE }
}

impl HeatMap {
    /// Writes the heat map as SVG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<(), PlotError> {
        load_font();
        let area = SVGBackend::new(path, self.size()).into_drawing_area();
        self.draw(&area).map_err(|reason| failed(path, reason))
    }

    /// Width of the rows' names.
    fn names(&self) -> i32 {
        let letters = self.rows.iter().map(|name| name.chars().count()).max();
        letters.map_or(0, |letters| int(letters).saturating_mul(LETTER) + MARGIN)
    }

    /// Lines of the columns' names.
    fn head_lines(&self) -> i32 {
        int(self.heads.iter().map(Vec::len).max().unwrap_or(0))
    }

    fn panel_size(&self) -> (i32, i32) {
        let heads = (self.head_lines() + 1) * LINE + 8;
        let titles = self.panels.iter().map(|panel| panel.title.chars().count());
        let title = int(titles.max().unwrap_or(0)).saturating_mul(TITLE_LETTER);
        (
            (int(self.heads.len()) * CELL.0).max(title) + MARGIN,
            heads + int(self.rows.len()) * CELL.1 + MARGIN,
        )
    }

    fn columns(&self) -> usize {
        self.columns.clamp(1, self.panels.len().max(1))
    }

    fn size(&self) -> (u32, u32) {
        let (wide, high) = self.panel_size();
        let columns = int(self.columns());
        let lines = int(self.panels.len().div_ceil(self.columns()).max(1));
        let text = self.title.chars().count();
        let text = text.max(self.subtitle.chars().count());
        let width = (self.names() + columns * wide + 2 * MARGIN)
            .max(int(text) * LETTER + 40)
            .max(self.legend_width() + MARGIN);
        let height = TOP + LEGEND + lines * high + MARGIN;
        (
            u32::try_from(width).unwrap_or(1),
            u32::try_from(height).unwrap_or(1),
        )
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let failure = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        area.fill(&WHITE).map_err(failure)?;
        let left = Pos::new(HPos::Left, VPos::Top);
        text(area, &self.title, (MARGIN, 10), 18.0, BLACK, left).map_err(failure)?;
        text(area, &self.subtitle, (MARGIN, 36), SIZE, BLACK, left).map_err(failure)?;
        self.draw_legend(area).map_err(failure)?;
        let (wide, high) = self.panel_size();
        let columns = self.columns();
        for (index, panel) in self.panels.iter().enumerate() {
            let (line, column) = (int(index / columns), int(index % columns));
            let at = (
                MARGIN + self.names() + column * wide,
                TOP + LEGEND + line * high,
            );
            self.draw_panel(area, panel, at).map_err(failure)?;
            if column == 0 {
                self.draw_names(area, at).map_err(failure)?;
            }
        }
        area.present().map_err(failure)
    }

    /// Returns the width of an entry of the legend in pixels.
    fn entry_width(name: &str) -> i32 {
        17 + int(name.chars().count()) * LETTER + 16
    }

    fn legend_width(&self) -> i32 {
        let entries = self.legend.iter().map(|(name, _)| Self::entry_width(name));
        MARGIN + entries.sum::<i32>()
    }

    fn draw_legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let mut x = MARGIN;
        for (name, good) in &self.legend {
            let square = [(x, TOP), (x + 12, TOP + 12)];
            area.draw(&Rectangle::new(square, colour(*good).filled()))?;
            area.draw(&Rectangle::new(square, BLACK.mix(0.4)))?;
            let left = Pos::new(HPos::Left, VPos::Top);
            text(area, name, (x + 17, TOP), SIZE, BLACK, left)?;
            x += Self::entry_width(name);
        }
        Ok(())
    }

    fn draw_names<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        (x, y): (i32, i32),
    ) -> Drawn<B> {
        let top = y + (self.head_lines() + 1) * LINE + 8;
        let right = Pos::new(HPos::Right, VPos::Center);
        for (index, name) in self.rows.iter().enumerate() {
            let middle = top + int(index) * CELL.1 + CELL.1 / 2;
            text(area, name, (x - 6, middle), SIZE, BLACK, right)?;
        }
        Ok(())
    }

    fn draw_panel<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        panel: &HeatPanel,
        (x, y): (i32, i32),
    ) -> Drawn<B> {
        let left = Pos::new(HPos::Left, VPos::Top);
        text(area, &panel.title, (x, y), 16.0, BLACK, left)?;
        let centre = Pos::new(HPos::Center, VPos::Top);
        for (column, lines) in self.heads.iter().enumerate() {
            let middle = x + int(column) * CELL.0 + CELL.0 / 2;
            for (line, head) in lines.iter().enumerate() {
                let at = (middle, y + 4 + (int(line) + 1) * LINE);
                text(area, head, at, 13.0, BLACK, centre)?;
            }
        }
        let top = y + (self.head_lines() + 1) * LINE + 8;
        for (row, cells) in panel.cells.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                let at = (x + int(column) * CELL.0, top + int(row) * CELL.1);
                cell.draw(area, at)?;
            }
        }
        Ok(())
    }
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

impl HeatCell {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        (x, y): (i32, i32),
    ) -> Drawn<B> {
        let frame = [(x, y), (x + CELL.0, y + CELL.1)];
        let colour = self.good.map_or(WHITE, colour);
        area.draw(&Rectangle::new(frame, colour.filled()))?;
        area.draw(&Rectangle::new(frame, WHITE))?;
        let middle = (x + CELL.0 / 2, y + CELL.1 / 2);
        let centre = Pos::new(HPos::Center, VPos::Center);
        text(area, &self.text, middle, SIZE, ink(colour), centre)
    }
}

fn text<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    words: &str,
    at: (i32, i32),
    size: f64,
    colour: RGBColor,
    pos: Pos,
) -> Drawn<B> {
    if words.is_empty() {
        return Ok(());
    }
    let style = ("sans-serif", size).into_font().color(&colour).pos(pos);
    area.draw(&Text::new(words, at, style))
}

fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_carries_its_words_and_colours() {
        let map = HeatMap {
            title: "Where laws are best".to_owned(),
            legend: vec![("one".to_owned(), 0.0)],
            columns: 2,
            rows: vec!["a row".to_owned()],
            heads: vec![vec!["10Mbit".to_owned(), "20ms".to_owned()], vec![]],
            panels: vec![HeatPanel {
                title: "left".to_owned(),
                cells: vec![vec![
                    HeatCell {
                        good: Some(1.0),
                        text: "0.97".to_owned(),
                    },
                    HeatCell::default(),
                ]],
            }],
            ..HeatMap::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map.svg");
        map.write_svg(&path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        for word in [
            "Where laws are best",
            "a row",
            "10Mbit",
            "0.97",
            "left",
            "one",
        ] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(svg.contains("#0072B2"), "the colour of what is good");
        assert!(HeatMap::default().size().0 > 0, "nothing to draw is drawn");
    }

    /// Returns the positions of texts that contain `word`, in pixels from the left edge.
    fn left_edges(svg: &str, word: &str) -> Vec<f64> {
        let texts = svg.split("<text ").skip(1);
        let found = texts.filter(|text| text.contains(word));
        let edge = |text: &str| text.split("x=\"").nth(1)?.split('"').next()?.parse().ok();
        found.filter_map(edge).collect()
    }

    /// A grid with one column has panels that are narrower than their headlines.
    #[test]
    fn headlines_of_narrow_panels_do_not_overlap() {
        let title = "utilization of the bottleneck by law";
        let panel = HeatPanel {
            title: title.to_owned(),
            cells: vec![vec![HeatCell::default()]],
        };
        let map = HeatMap {
            legend: vec![("a law with a long name".to_owned(), 0.0); 9],
            columns: 3,
            rows: vec!["row".to_owned()],
            heads: vec![vec!["10Mbit".to_owned()]],
            panels: vec![panel; 3],
            ..HeatMap::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map.svg");
        map.write_svg(&path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        let edges = left_edges(&svg, title);
        assert_eq!(edges.len(), 3);
        // A letter of a 13-pixel sans-serif font is about 7 pixels wide.
        let wide = 7.0 * title.len() as f64;
        for pair in edges.windows(2) {
            assert!(pair[1] - pair[0] >= wide, "{edges:?}");
        }
        let last = left_edges(&svg, "a law with a long name");
        let right = f64::from(map.size().0);
        assert!(
            last.iter().all(|edge| edge + 22.0 * 6.0 <= right),
            "{last:?}"
        );
    }

    #[test]
    fn ends_of_the_scale() {
        assert_eq!(colour(0.5), RGBColor(255, 255, 255));
        assert_eq!(colour(9.0), RGBColor(0, 114, 178));
        assert_eq!(colour(-1.0), RGBColor(213, 94, 0));
        assert_eq!(colour(f64::NAN), RGBColor(0, 0, 0));
    }
}
