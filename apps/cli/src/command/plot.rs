//! `pathmark plot`: pictures of logs.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use pathmark_lab::plot::{Figure, Line, Panel};
use pathmark_qlog::Record;
use serde_json::Value;

use super::{Failure, Outcome};

/// Points of a curve, each the mean of a span of the longest log.
const POINTS: usize = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Logs from QLOGDIR or `emulate --qlog`; several are drawn above each other
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

    /// Returns the value of an event: a state, or what happened.
    fn value(self, record: &Record) -> Option<f64> {
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

/// Sums of all quantities over equal spans of time.
struct Spans {
    /// Seconds.
    span: f64,
    sums: [Vec<(f64, u32)>; Quantity::ALL.len()],
}

impl Spans {
    fn add(&mut self, record: &Record) {
        let index = (record.time / 1e3 / self.span) as usize;
        for (what, sums) in Quantity::ALL.into_iter().zip(&mut self.sums) {
            if let (Some(value), Some((sum, count))) = (what.value(record), sums.get_mut(index)) {
                *sum += value;
                *count += 1;
            }
        }
    }

    /// Returns the points of a quantity in seconds. States have none in spans without an event.
    fn points(&self, what: Quantity) -> Vec<(f64, f64)> {
        let known = Quantity::ALL.into_iter().zip(&self.sums);
        let sums = known.filter(|(known, _)| *known == what);
        let sums = sums.flat_map(|(_, sums)| sums.iter().enumerate());
        let points = sums.filter_map(|(index, (sum, count))| {
            let y = match what.is_rate() {
                true => sum / self.span,
                false if *count == 0 => return None,
                false => sum / f64::from(*count),
            };
            Some(((index as f64 + 0.5) * self.span, y))
        });
        points.collect()
    }
}

pub(super) fn plot(args: &Args) -> Outcome {
    let mut longest: f64 = 0.0;
    for file in &args.files {
        read(file, |record| longest = longest.max(record.time / 1e3))?;
    }
    if longest <= 0.0 {
        return Err(Failure::usage(anyhow!("the logs have no events to draw")));
    }
    let mut curves = Vec::new();
    for file in &args.files {
        let mut spans = Spans {
            // The last event is in the last span.
            span: longest * (1.0 + 1e-9) / POINTS as f64,
            sums: std::array::from_fn(|_| vec![(0.0, 0); POINTS]),
        };
        read(file, |record| spans.add(&record))?;
        curves.push((file, spans));
    }
    let panels = Quantity::ALL.map(|what| {
        let lines = curves.iter().map(|(file, spans)| {
            let name = file.with_extension("");
            Line::named(name.to_string_lossy(), spans.points(what))
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
        [only] => only
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
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

fn read(path: &Path, on_record: impl FnMut(Record)) -> Result<(), Failure> {
    let name = || format!("cannot draw {}", path.display());
    let file = File::open(path)
        .with_context(name)
        .map_err(Failure::usage)?;
    let read = pathmark_qlog::read(BufReader::new(file), on_record);
    read.with_context(name).map_err(Failure::usage)?;
    Ok(())
}
