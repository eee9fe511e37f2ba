//! Pictures and their parts.

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
    let panel = |title: &str, marked| Panel {
        title: title.into(),
        x_label: "time [s]".into(),
        y_label: "throughput [Mbit/s]".into(),
        lines: vec![
            Line {
                label: Some("one".into()),
                points: wave(0.0),
                marked,
                ..Line::default()
            },
            Line {
                label: None,
                points: vec![(0.0, 1.5), (10.0, 1.5)],
                reference: true,
                ..Line::default()
            },
        ],
        ..Panel::default()
    };
    Figure {
        title: "A figure".into(),
        columns: 2,
        panels: vec![panel("left", false), panel("right", true), Panel::default()],
        ..Figure::default()
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
    // A picture with curves and text does not compress to next to nothing.
    assert!(png.len() > 10_000, "{} bytes", png.len());
}

#[test]
fn long_headlines_take_two_lines() {
    assert_eq!(headline("A figure", 560.0), (vec!["A figure".into()], 22.0));
    let (lines, size) = headline(&"word ".repeat(20), 560.0);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines.join(" "), "word ".repeat(20).trim());
    let widest = lines.iter().map(|line| line.len()).max().unwrap();
    assert!(size > 14.0 && widest as f64 * size * 0.6 <= 560.0 + 1e-6);
}

#[test]
fn ticks_are_short() {
    let shown = [0.0, 0.25, 300.0, 9.999_999_999e-6, 1e9, 25_000.0, -2.0].map(short);
    assert_eq!(shown, ["0", "0.25", "300", "1e-5", "1e9", "25000", "-2"]);
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

#[test]
fn the_highest_peaks_have_labels_and_the_others_are_counted() {
    let peaks = vec![(0.0, 5.0), (1.0, 9.0), (2.0, 7.0), (3.0, 6.0), (4.0, 8.0)];
    let labelled = vec![(1.0, 9.0), (2.0, 7.0), (4.0, 8.0)];
    assert_eq!(highest(peaks), (labelled, 2));
    assert_eq!(highest(vec![(0.0, 5.0)]), (vec![(0.0, 5.0)], 0));
}

/// Bars of two laws and of one, with a bound and a footer.
#[test]
fn categories_are_bars() {
    let line = |label: &str, points: &[(f64, f64)]| Line {
        label: Some(label.into()),
        points: points.to_vec(),
        bars: vec![(0.0, 20.0, 31.0)],
        marked: true,
        ..Line::default()
    };
    let figure = Figure {
        footer: Some("measured somewhere".into()),
        panel_size: Some((400, 300)),
        panels: vec![Panel {
            categories: vec!["short".into(), "long".into()],
            lines: vec![
                line("auto", &[(0.0, 23.0), (1.0, 24.5)]),
                line("cubic", &[(0.0, 40.25)]),
            ],
            ..Panel::default()
        }],
        ..Figure::default()
    };
    assert_eq!(figure.size(), (400, 300 + HEAD + FOOT));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bars.svg");
    figure.write_svg(&path).unwrap();
    let svg = std::fs::read_to_string(path).unwrap();
    for word in ["measured somewhere", "short", "24.5", "40.3"] {
        assert!(svg.contains(word), "{word} is missing");
    }
    assert!(!svg.contains("<circle"), "no point is joined by a line");
    // Three bars and two squares in the legend.
    for (colour, count) in [("#0072B2", 3), ("#5A5A5A", 2)] {
        let filled = format!("fill=\"{colour}\" stroke=\"none\"");
        assert_eq!(svg.matches(&filled).count(), count, "{colour}: {svg}");
    }
}

/// Also on a logarithmic axis, on which the bar of the least value could have no height.
#[test]
fn the_least_bar_has_a_height() {
    let line = |label: &str, value| Line {
        label: Some(label.into()),
        points: vec![(0.0, value)],
        marked: true,
        ..Line::default()
    };
    let figure = Figure {
        panels: vec![Panel {
            categories: vec!["lossy".into()],
            lines: vec![line("auto", 900.0), line("cubic", 0.5)],
            ..Panel::default()
        }],
        ..Figure::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("least.svg");
    figure.write_svg(&path).unwrap();
    let svg = std::fs::read_to_string(path).unwrap();
    let colour = "fill=\"#5A5A5A\" stroke=\"none\"";
    let bars = svg.lines().filter(|line| line.contains(colour));
    let height = |bar: &str| -> u32 {
        let (_, rest) = bar.split_once("height=\"").unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    // The bar, and the square in the legend.
    let heights: Vec<u32> = bars.map(height).collect();
    assert_eq!(heights.len(), 2, "{svg}");
    assert!(heights.iter().all(|height| *height >= 5), "{heights:?}");
}
