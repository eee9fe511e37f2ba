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
    let panel = |title: &str, log_x| Panel {
        title: title.into(),
        x_label: "time [s]".into(),
        y_label: "throughput [Mbit/s]".into(),
        log_x,
        lines: vec![
            Line {
                label: Some("one".into()),
                points: wave(0.0),
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
fn many_lines_have_colours_of_their_own() {
    let mut all: Vec<(u8, u8, u8)> = (0..21).map(|n| colour(n).rgb()).collect();
    assert_eq!(all[0], (0, 114, 178));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 21);
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
