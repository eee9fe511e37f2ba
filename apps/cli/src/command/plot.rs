//! `pathmark plot`: pictures of logs.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use pathmark_lab::plot::{Figure, Line, Panel};
use pathmark_qlog::Record;
use serde_json::Value;

use super::{Failure, Outcome, output};

/// Points of a curve at most, each the mean of a span of time, and half of them at least for the
/// longest log.
const POINTS: usize = 400;
/// The largest value that is drawn, in its quantity's unit.
const LARGEST: f64 = 1e12;
/// The shortest span in seconds.
const FIRST_SPAN: f64 = 1e-3;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Logs from QLOGDIR or `emulate --qlog`; the curves of several share their axes
    #[arg(value_name = "FILE.sqlog", required = true)]
    files: Vec<PathBuf>,
    /// Write the picture (SVG) to this file
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
}

/// A quantity over time, which has a panel of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Window,
    InFlight,
    RoundTrip,
    Sent,
    Received,
    Lost,
}

impl Quantity {
    const ALL: [Self; 6] = [
        Self::Window,
        Self::InFlight,
        Self::RoundTrip,
        Self::Sent,
        Self::Received,
        Self::Lost,
    ];

    /// Returns the title and the unit.
    const fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Window => ("congestion window", "kB"),
            Self::InFlight => ("in flight", "kB"),
            Self::RoundTrip => ("round trip, smoothed", "ms"),
            Self::Sent => ("sent", "Mbit/s"),
            Self::Received => ("received", "Mbit/s"),
            Self::Lost => ("packets declared lost", "per second"),
        }
    }

    /// Returns the value of an event: a state, or what happened. Impossible ones are left out.
    fn value(self, record: &Record) -> Option<f64> {
        (self.any_value(record)).filter(|value| (0.0..LARGEST).contains(value))
    }

    fn any_value(self, record: &Record) -> Option<f64> {
        let data = &record.data;
        let bytes = || data["raw"]["length"].as_f64();
        match (self, record.name.as_str()) {
            (Self::Window, "quic:recovery_metrics_updated") => {
                Some(data["congestion_window"].as_f64()? / 1e3)
            }
            (Self::InFlight, "quic:recovery_metrics_updated") => {
                Some(data["bytes_in_flight"].as_f64()? / 1e3)
            }
            (Self::RoundTrip, "quic:recovery_metrics_updated") => data["smoothed_rtt"].as_f64(),
            (Self::Sent, "quic:packet_sent") | (Self::Received, "quic:packet_received") => {
                Some(bytes()? * 8e-6)
            }
            (Self::Lost, "quic:packet_lost") => {
                (data["is_mtu_probe_packet"] != Value::Bool(true)).then_some(1.0)
            }
            _ => None,
        }
    }

    /// Returns true if values of events are summed per second instead of averaged.
    const fn is_rate(self) -> bool {
        matches!(self, Self::Sent | Self::Received | Self::Lost)
    }
}

/// Sums of all quantities over equal spans of time. A later event than those make each span twice
/// as long, so that a log is read once.
struct Spans {
    /// Seconds.
    span: f64,
    sums: [Vec<(f64, u32)>; Quantity::ALL.len()],
    last: f64,
}

impl Spans {
    fn new() -> Self {
        Self {
            span: FIRST_SPAN,
            sums: std::array::from_fn(|_| vec![(0.0, 0); POINTS]),
            last: 0.0,
        }
    }

    fn add(&mut self, record: &Record) {
        let time = record.time / 1e3;
        self.last = self.last.max(time);
        while time >= self.span * POINTS as f64 {
            self.double();
        }
        let index = (time / self.span) as usize;
        for (what, sums) in Quantity::ALL.into_iter().zip(&mut self.sums) {
            if let (Some(value), Some((sum, count))) = (what.value(record), sums.get_mut(index)) {
                *sum += value;
                *count += 1;
            }
        }
    }

    /// Makes the spans twice as long.
    fn double(&mut self) {
        self.span *= 2.0;
        for sums in &mut self.sums {
            let pairs = sums.chunks(2);
            let mut halved: Vec<_> = pairs
                .map(|pair| {
                    pair.iter()
                        .fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
                })
                .collect();
            halved.resize(POINTS, (0.0, 0));
            *sums = halved;
        }
    }

    /// Returns the points of a quantity in seconds. States have none in spans without an event.
    fn points(&self, what: Quantity) -> Vec<(f64, f64)> {
        let known = Quantity::ALL.into_iter().zip(&self.sums);
        let sums = known.filter(|(known, _)| *known == what);
        let sums = sums.flat_map(|(_, sums)| sums.iter().enumerate());
        let until_last = sums.take_while(|(index, _)| *index as f64 * self.span <= self.last);
        let points = until_last.filter_map(|(index, (sum, count))| {
            let y = if what.is_rate() {
                sum / self.span
            } else if *count > 0 {
                sum / f64::from(*count)
            } else {
                return None;
            };
            Some(((index as f64 + 0.5) * self.span, y))
        });
        points.collect()
    }
}

pub(super) fn plot(args: &Args) -> Outcome {
    let picture = std::fs::canonicalize(&args.output).ok();
    let mut curves = Vec::new();
    for file in &args.files {
        if picture.is_some() && std::fs::canonicalize(file).ok() == picture {
            let name = file.display();
            return Err(Failure::usage(anyhow!(
                "{name} is a log: name another file for the picture"
            )));
        }
        curves.push((file, read(file)?));
    }
    let longest = curves
        .iter()
        .fold(0.0, |longest: f64, (_, spans)| longest.max(spans.last));
    if longest <= 0.0 {
        return Err(Failure::usage(anyhow!("the logs have no events to draw")));
    }
    let widest = curves
        .iter()
        .fold(FIRST_SPAN, |widest, (_, spans)| widest.max(spans.span));
    for (_, spans) in &mut curves {
        while spans.span < widest {
            spans.double();
        }
    }
    let panels = Quantity::ALL.map(|what| {
        let lines = curves.iter().map(|(file, spans)| {
            let name = file.with_extension("");
            Line::named(output::plain(&name.to_string_lossy()), spans.points(what))
        });
        let (title, unit) = what.title();
        Panel {
            title: title.to_owned(),
            x_label: "time [s]".to_owned(),
            y_label: unit.to_owned(),
            x_max: Some(longest),
            lines: lines.collect(),
            without_legend: args.files.len() == 1,
            ..Panel::default()
        }
    });
    let title = match args.files.as_slice() {
        [only] => {
            let name = only.file_stem().unwrap_or_default().to_string_lossy();
            output::plain(&name).into_owned()
        }
        files => format!("{} logs", files.len()),
    };
    let figure = Figure {
        title,
        columns: 2,
        panels: panels.into(),
        ..Figure::default()
    };
    figure.write_svg(&args.output)?;
    Ok(())
}

fn read(path: &Path) -> Result<Spans, Failure> {
    let name = || format!("cannot draw {}", path.display());
    let file = File::open(path)
        .with_context(name)
        .map_err(Failure::usage)?;
    let mut spans = Spans::new();
    let read = pathmark_qlog::read(BufReader::new(file), |record| spans.add(&record));
    read.with_context(name).map_err(Failure::usage)?;
    Ok(spans)
}
