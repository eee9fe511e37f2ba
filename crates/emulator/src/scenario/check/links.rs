//! Checks of links: names, media, queues, and rates: constant ones, recordings, models, and the
//! capacity that their ports get.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pathmark_link::impair::Random;
use pathmark_link::keys::{
    ChangeSpec, Fault, LinkCheck, LinkSpec, Pace, RateValue, Reader, open_regular,
};
use pathmark_link::trace::Trace;
use toml::Spanned;

use super::Check;
use crate::scenario::LinkSetup;
use crate::scenario::model::Wish;
use crate::scenario::schema::{CapacitySpec, Direction, FileLink, RateSpec};

impl Check<'_> {
    pub(super) fn links(&mut self, files: &[FileLink]) -> Result<Vec<LinkSetup>, Fault> {
        let Some(_) = files.first() else {
            return Err(self
                .source
                .locate(None, "a scenario needs at least one [[link]]"));
        };
        let mut names = HashSet::new();
        let mut links = Vec::new();
        for file in files {
            let name = file.own.name.get_ref().clone();
            let (from, to) = (self.node(&file.own.from), self.node(&file.own.to));
            if from == to {
                return Err(self.fault(file.own.to.span(), "the link leads to where it comes from"));
            }
            let reversed = format!("{name}.reverse");
            let medium = self.medium(file)?;
            let taken =
                !names.insert(name.clone()) || (file.own.duplex && !names.insert(reversed.clone()));
            if taken || name.is_empty() {
                let message = format!("another link is called `{name}` already");
                return Err(self.fault(file.own.name.span(), message));
            }
            links.push(LinkSetup {
                spec: self.direction(&file.link, &name, file.own.name.span())?,
                name,
                from,
                to,
                medium,
                capture: file.own.capture,
                rtt: None,
            });
            let own = file.own.reverse.as_ref().map(Spanned::get_ref);
            if file.own.duplex {
                links.push(LinkSetup {
                    spec: self.direction(&backward(file), &reversed, file.own.name.span())?,
                    name: reversed,
                    from: to,
                    to: from,
                    medium,
                    capture: own.is_some_and(|own| own.own.capture),
                    rtt: None,
                });
            } else if let Some(reverse) = &file.own.reverse {
                return Err(self.fault(
                    reverse.span(),
                    "`reverse` changes the other direction of a duplex link: add duplex = true",
                ));
            }
        }
        Ok(links)
    }

    /// The index of a node. Nodes exist by being named.
    fn node(&mut self, name: &Spanned<String>) -> usize {
        let name = name.get_ref();
        self.nodes
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.nodes.push(name.clone());
                self.nodes.len() - 1
            })
    }

    /// The index of the medium that a link shares.
    fn medium(&mut self, file: &FileLink) -> Result<Option<usize>, Fault> {
        let Some(given) = &file.own.medium else {
            return Ok(None);
        };
        let fail = |message: &str| Err(self.fault(given.span(), message));
        let own = file.own.reverse.as_ref().map(Spanned::get_ref);
        let rates = [&file.link.rate, own.map_or(&None, |own| &own.link.rate)];
        if file.link.rate.is_none() {
            return fail("links that share a medium take turns at a rate: add `rate`");
        }
        let traced = |rate: &Spanned<RateSpec>| !matches!(rate.get_ref(), RateSpec::Value(_));
        if rates.into_iter().flatten().any(traced) {
            return fail("a link that follows a trace shares no medium: leave one of them out");
        }
        let name = given.get_ref();
        if name.is_empty() {
            return fail("the medium needs a name");
        }
        let known = self.media.iter().position(|known| known == name);
        Ok(Some(known.unwrap_or_else(|| {
            self.media.push(name.clone());
            self.media.len() - 1
        })))
    }

    /// The link in one direction.
    fn direction(
        &self,
        keys: &Direction,
        name: &str,
        place: Range<usize>,
    ) -> Result<LinkSpec, Fault> {
        let pace = self.pace(keys, name)?;
        self.keys(keys, place).link(pace)
    }

    fn keys<'a>(
        &'a self,
        keys: &'a Direction,
        place: Range<usize>,
    ) -> LinkCheck<'a, RateSpec, CapacitySpec> {
        LinkCheck {
            reader: Reader::Emulator,
            source: self.source,
            keys,
            place,
        }
    }

    /// Checks the queues once bandwidth-delay products are known.
    pub(super) fn queues(&self, files: &[FileLink], links: &[LinkSetup]) -> Result<(), Fault> {
        let mut link = links.iter();
        for file in files {
            let backward = file.own.duplex.then(|| backward(file));
            for keys in [Some(&file.link), backward.as_ref()].into_iter().flatten() {
                let Some(link) = link.next() else { continue };
                let packet = u64::from(self.packet) + u64::from(link.spec.frame_overhead);
                let check = self.keys(keys, file.own.name.span());
                check.queue(&link.spec, packet, link.rtt)?;
            }
        }
        Ok(())
    }
}

/// The keys of the other direction of a duplex link: its own ones, with some defaults from the
/// first direction.
fn backward(file: &FileLink) -> Direction {
    let there = &file.link;
    let own = file.own.reverse.as_ref();
    let own = own.map_or_else(Direction::default, |own| own.get_ref().link.clone());
    Direction {
        rate: own.rate.or_else(|| there.rate.clone()),
        delay: own.delay.or(there.delay),
        frame_overhead: own.frame_overhead.or(there.frame_overhead),
        ..own
    }
}

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
    fn pace(&self, keys: &Direction, link: &str) -> Result<Pace, Fault> {
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
