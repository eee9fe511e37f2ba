//! Rates of links: constant rates, recordings, models, and the capacity that their ports get.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pathmark_link::impair::Random;
use pathmark_link::keys::{ChangeSpec, Fault, Pace, RateValue, open_regular};
use pathmark_link::trace::Trace;
use toml::Spanned;

use super::super::model::Wish;
use super::super::schema::{CapacitySpec, Direction, RateSpec};
use super::Check;

/// The pace of a recording.
fn follows(trace: Trace, changes: Vec<ChangeSpec>) -> Pace {
    let bits = trace.mean_rate().saturating_mul(8);
    Pace {
        rate: Some(RateValue { bits }),
        trace: Some(Arc::new(trace)),
        changes,
        ..Pace::default()
    }
}

impl Check<'_> {
    /// The pace of a direction of a link: a rate, or a trace with its mean rate, and the
    /// capacity for its law.
    pub(super) fn pace(&self, keys: &Direction, link: &str) -> Result<Pace, Fault> {
        let mut pace = match &keys.rate {
            Some(given) => self.rate(given, keys, link)?,
            None => Pace::default(),
        };
        match keys.capacity.as_ref().map(Spanned::get_ref) {
            Some(CapacitySpec::Auto) => pace.follow = true,
            Some(CapacitySpec::Fixed(rate)) => pace.capacity = Some(*rate),
            None => {}
        }
        Ok(pace)
    }

    fn rate(&self, given: &Spanned<RateSpec>, keys: &Direction, link: &str) -> Result<Pace, Fault> {
        match given.get_ref() {
            RateSpec::Value(rate) => Ok(Pace {
                rate: Some(*rate),
                ..Pace::default()
            }),
            RateSpec::Trace(file) => self.recorded(given.span(), file),
            RateSpec::Model { model, mean } => {
                let wish = Wish {
                    model: *model,
                    mean: mean.bits,
                    length: self.duration,
                    delay: keys.delay.unwrap_or_default().0,
                };
                let random = Random::new(self.seed, &format!("{link}/model"));
                let made = wish.make(random);
                let made = made.map_err(|error| self.fault(given.span(), error.to_string()))?;
                Ok(follows(made.trace, made.delays))
            }
        }
    }

    fn recorded(&self, span: Range<usize>, file: &Path) -> Result<Pace, Fault> {
        // A relative path is relative to the scenario file's directory.
        let path = match self.source.path.parent() {
            Some(directory) => directory.join(file),
            None => file.to_owned(),
        };
        let fail = |error: &dyn std::fmt::Display| {
            let tried = std::path::absolute(&path);
            let tried = tried.as_ref().unwrap_or(&path).display();
            self.fault(span.clone(), format!("cannot read {tried}: {error}"))
        };
        let text = open_regular(&path).map_err(|error| fail(&error))?;
        let trace = Trace::read(std::io::BufReader::new(text)).map_err(|error| fail(&error))?;
        Ok(follows(trace, Vec::new()))
    }
}
