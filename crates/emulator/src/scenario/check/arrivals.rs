//! Starts of flows, and the bytes that each must transfer.

use pathmark_cc::Duration;
use pathmark_link::impair::Random;
use pathmark_link::keys::{Fault, Span};
use toml::Spanned;

use super::super::model::exponential;
use super::super::schema::{FileFlow, Sizes, Starts};
use super::Check;

const MAX_FLOWS: u32 = 1 << 16;

impl Check<'_> {
    /// A start for each flow, relative to the start of the run.
    pub(super) fn starts(&self, file: &FileFlow) -> Result<Vec<Duration>, Fault> {
        if let Some(given) = &file.count
            && !(1..=MAX_FLOWS).contains(given.get_ref())
        {
            let message = format!("`count` is from 1 to {MAX_FLOWS}");
            return Err(self.fault(given.span(), message));
        }
        match &file.start_gap {
            Some(gap) => self.poisson_starts(file, gap),
            None => self.given_starts(file),
        }
    }

    /// Starts as a Poisson process: either `count` starts, or all starts before the flows' stop or
    /// the run's end.
    fn poisson_starts(&self, file: &FileFlow, gap: &Spanned<Span>) -> Result<Vec<Duration>, Fault> {
        let mean = gap.get_ref().0;
        if mean.is_zero() {
            return Err(self.fault(gap.span(), "`start_gap` must be longer than 0"));
        }
        if let Some(spread) = &file.start_spread {
            let message = "`start_gap` draws the starts already: leave out `start_spread`";
            return Err(self.fault(spread.span(), message));
        }
        let mut at = match &file.start {
            None => Duration::ZERO,
            Some(start) => match start.get_ref() {
                Starts::One(start) => start.0,
                Starts::List(_) => {
                    let message = "`start_gap` draws the starts already: give `start` one time";
                    return Err(self.fault(start.span(), message));
                }
            },
        };
        let count = file.count.as_ref().map(|count| *count.get_ref());
        let stop = file.stop.as_ref().map(|stop| stop.get_ref().0);
        let end = self.duration.min(stop.unwrap_or(self.duration));
        let mut random = Random::new(self.seed, &format!("{} start", file.name.get_ref()));
        let wanted = count.map_or(MAX_FLOWS as usize + 1, |count| count as usize);
        let mut starts = Vec::new();
        while starts.len() < wanted {
            at = at.saturating_add(mean.mul_f64(exponential(&mut random)));
            if at >= end {
                break;
            }
            starts.push(at);
        }
        let message = match (starts.len(), count) {
            (begun, Some(count)) if begun < wanted => format!(
                "only {begun} of {count} flows start before the end with this seed: raise \
                 `duration`, or `stop`, or leave out `count`"
            ),
            (0, None) => "no flow starts before the end: raise `duration`, or `stop`".to_owned(),
            (begun, None) if begun == wanted => {
                format!("more than {MAX_FLOWS} flows: raise `start_gap`")
            }
            _ => return Ok(starts),
        };
        Err(self.fault(gap.span(), message))
    }

    fn given_starts(&self, file: &FileFlow) -> Result<Vec<Duration>, Fault> {
        let count = file.count.as_ref().map(|count| *count.get_ref());
        let copies = count.unwrap_or(1) as usize;
        let mut starts = match file.start.as_ref().map(|start| (start, start.get_ref())) {
            None => vec![Duration::ZERO; copies],
            Some((_, Starts::One(start))) => vec![start.0; copies],
            Some((given, Starts::List(list))) => {
                let wanted = count.map_or(list.len(), |count| count as usize);
                if list.is_empty() || list.len() != wanted || list.len() > MAX_FLOWS as usize {
                    let message = format!(
                        "`start` lists {} times for {wanted} flows: give one for each",
                        list.len()
                    );
                    return Err(self.fault(given.span(), message));
                }
                list.iter().map(|start| start.0).collect()
            }
        };
        let spread = file.start_spread.as_ref().map(|spread| spread.get_ref().0);
        let latest = starts.iter().max().copied().unwrap_or_default() + spread.unwrap_or_default();
        let given = [
            file.start.as_ref().map(Spanned::span),
            file.start_spread.as_ref().map(Spanned::span),
        ];
        if let (true, Some(span)) = (
            latest >= self.duration,
            given.into_iter().flatten().next_back(),
        ) {
            return Err(self.fault(span, "the flow starts after the run: raise `duration`"));
        }
        if let Some(spread) = spread {
            let mut random = Random::new(self.seed, &format!("{} start", file.name.get_ref()));
            let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
            for start in &mut starts {
                *start += Duration::from_nanos(random.below(nanos));
            }
        }
        Ok(starts)
    }

    /// The bytes of each of `count` flows; `None`: as many as possible.
    pub(super) fn sizes(&self, file: &FileFlow, count: usize) -> Result<Vec<Option<u64>>, Fault> {
        let Some(given) = &file.bytes else {
            return Ok(vec![None; count]);
        };
        let list = match given.get_ref() {
            Sizes::One(bytes) => return Ok(vec![Some(bytes.0); count]),
            Sizes::List(list) => list,
        };
        if list.is_empty() || list.len() > MAX_FLOWS as usize {
            let message = format!("`bytes` lists 1 to {MAX_FLOWS} sizes, of which each flow draws");
            return Err(self.fault(given.span(), message));
        }
        let mut random = Random::new(self.seed, &format!("{} bytes", file.name.get_ref()));
        let draw = |_| {
            let drawn = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
            list.get(drawn).map(|bytes| bytes.0)
        };
        Ok((0..count).map(draw).collect())
    }
}
