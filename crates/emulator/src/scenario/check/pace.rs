//! How fast links are: rates, recordings, models, and the capacity that their ports know.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pathmark_cc::Duration;
use pathmark_router::config::{ChangeSpec, Fault, RateValue, open_regular};
use pathmark_router::core::impair::Random;
use pathmark_router::core::trace::Trace;
use toml::Spanned;

use super::super::model::Wish;
use super::super::schema::{CapacitySpec, RateSpec};
use super::Check;

/// How fast a link is.
#[derive(Default)]
pub(super) struct Pace {
    pub(super) rate: Option<RateValue>,
    pub(super) trace: Option<Arc<Trace>>,
    /// Changes of delay that come with it.
    delays: Vec<ChangeSpec>,
}

impl Pace {
    fn of(trace: Trace) -> Self {
        let bits = trace.mean_rate().saturating_mul(8);
        Self {
            rate: Some(RateValue { bits }),
            trace: Some(Arc::new(trace)),
            delays: Vec::new(),
        }
    }

    /// The changes that come with it, and those that the file names.
    pub(super) fn with(&self, named: &[ChangeSpec]) -> Vec<ChangeSpec> {
        let mut all = self.delays.clone();
        all.extend_from_slice(named);
        all
    }
}

impl Check<'_> {
    /// A rate, or a trace with its mean rate.
    pub(super) fn pace(
        &self,
        given: Option<&Spanned<RateSpec>>,
        link: &str,
        delay: Duration,
    ) -> Result<Pace, Fault> {
        let Some(given) = given else {
            return Ok(Pace::default());
        };
        let made = match given.get_ref() {
            RateSpec::Value(rate) => {
                return Ok(Pace {
                    rate: Some(*rate),
                    ..Pace::default()
                });
            }
            RateSpec::Trace(file) => self.recorded(given.span(), file)?,
            RateSpec::Model { model, mean } => {
                let wish = Wish {
                    model: *model,
                    mean: mean.bits,
                    length: self.duration,
                    delay,
                };
                let random = Random::new(self.seed, &format!("{link}/model"));
                let made = wish.make(random);
                let made = made.map_err(|error| self.fault(given.span(), error.to_string()))?;
                Pace {
                    delays: made.delays,
                    ..Pace::of(made.trace)
                }
            }
        };
        Ok(made)
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
        Ok(Pace::of(trace))
    }

    /// What the port's law may reckon with, and whether it is what the link could send lately.
    pub(super) fn capacity(
        &self,
        given: Option<&Spanned<CapacitySpec>>,
    ) -> Result<(Option<RateValue>, bool), Fault> {
        let Some(given) = given else {
            return Ok((None, false));
        };
        match *given.get_ref() {
            CapacitySpec::Auto => Ok((None, true)),
            CapacitySpec::Fixed(rate) if rate.bytes() == 0 => Err(self.fault(
                given.span(),
                "the capacity must be at least 8bit; leave it out where `rate` says all",
            )),
            CapacitySpec::Fixed(rate) => Ok((Some(rate), false)),
        }
    }
}
