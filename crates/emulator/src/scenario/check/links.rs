//! Links: names, rates, media, queues that can work.

use std::collections::HashSet;
use std::ops::Range;

use pathmark_cc::{Duration, LinkAlgorithm};
use pathmark_link::keys::{Fault, LimitSpec, LinkSpec, Percent, QueueSpec};
use pathmark_link::queue::Limit;
use toml::Spanned;

use super::super::LinkSetup;
use super::super::schema::{FileLink, FileReverse, RateSpec};
use super::Check;

/// A share that was given, or none.
fn share(given: Option<&Spanned<Percent>>) -> Percent {
    given.map(|given| *given.get_ref()).unwrap_or_default()
}

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
            let name = file.name.get_ref().clone();
            let (from, to) = (self.node(&file.from), self.node(&file.to));
            if from == to {
                return Err(self.fault(file.to.span(), "the link leads to where it comes from"));
            }
            let reversed = format!("{name}.reverse");
            let medium = self.medium(file)?;
            let taken =
                !names.insert(name.clone()) || (file.duplex && !names.insert(reversed.clone()));
            if taken || name.is_empty() {
                let message = format!("another link is called `{name}` already");
                return Err(self.fault(file.name.span(), message));
            }
            links.push(LinkSetup {
                name,
                from,
                to,
                spec: self.forward(file)?,
                medium,
                capture: file.capture,
                rtt: None,
            });
            let own = file.reverse.as_ref().map(Spanned::get_ref);
            if file.duplex {
                links.push(LinkSetup {
                    name: reversed,
                    from: to,
                    to: from,
                    spec: self.backward(file)?,
                    medium,
                    capture: own.is_some_and(|own| own.capture),
                    rtt: None,
                });
            } else if let Some(reverse) = &file.reverse {
                return Err(self.fault(
                    reverse.span(),
                    "`reverse` changes the other direction of a duplex link: add duplex = true",
                ));
            }
        }
        Ok(links)
    }

    /// The index of a node, which exists by being named.
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
        let Some(given) = &file.medium else {
            return Ok(None);
        };
        let fail = |message: &str| Err(self.fault(given.span(), message));
        let own = file.reverse.as_ref().map(Spanned::get_ref);
        let rates = [&file.rate, own.map_or(&None, |own| &own.rate)];
        if file.rate.is_none() {
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

    fn forward(&self, file: &FileLink) -> Result<LinkSpec, Fault> {
        let name = file.name.get_ref();
        let delay = file.delay.unwrap_or_default().0;
        let pace = self.pace(file.rate.as_ref(), name, delay)?;
        let (capacity, follow) = self.capacity(file.capacity.as_ref())?;
        let mut spec = LinkSpec {
            rate: pace.rate,
            trace: pace.trace.clone(),
            capacity,
            follow,
            delay: file.delay.unwrap_or_default(),
            queue: file
                .queue
                .as_ref()
                .map(|q| *q.get_ref())
                .unwrap_or_default(),
            controller: self.law(file.controller.as_ref())?,
            corruption: share(file.corruption.as_ref()),
            frame_overhead: file.frame_overhead.unwrap_or(0),
            loss: file.loss,
            jitter: file.jitter,
            at: pace.with(&file.at),
        };
        self.rate(&spec, file.rate.as_ref().map(Spanned::span), file)?;
        self.corruption(&spec, file.corruption.as_ref())?;
        self.grant(&mut spec, file.grant.as_ref())?;
        Ok(spec)
    }

    fn backward(&self, file: &FileLink) -> Result<LinkSpec, Fault> {
        let default = FileReverse::default();
        let own = file.reverse.as_ref().map_or(&default, Spanned::get_ref);
        let rate = own.rate.as_ref().or(file.rate.as_ref());
        let name = format!("{}.reverse", file.name.get_ref());
        let delay = own.delay.or(file.delay).unwrap_or_default();
        let pace = self.pace(rate, &name, delay.0)?;
        let (capacity, follow) = self.capacity(own.capacity.as_ref())?;
        let mut spec = LinkSpec {
            rate: pace.rate,
            trace: pace.trace.clone(),
            capacity,
            follow,
            delay,
            queue: own.queue.as_ref().map(|q| *q.get_ref()).unwrap_or_default(),
            controller: self.law(own.controller.as_ref())?,
            corruption: share(own.corruption.as_ref()),
            frame_overhead: own.frame_overhead.or(file.frame_overhead).unwrap_or(0),
            loss: own.loss,
            jitter: own.jitter,
            at: pace.with(&own.at),
        };
        self.rate(&spec, rate.map(Spanned::span), file)?;
        self.corruption(&spec, own.corruption.as_ref())?;
        self.grant(&mut spec, own.grant.as_ref())?;
        Ok(spec)
    }

    fn rate(
        &self,
        spec: &LinkSpec,
        span: Option<Range<usize>>,
        file: &FileLink,
    ) -> Result<(), Fault> {
        let span = span.unwrap_or_else(|| file.name.span());
        if spec.trace.is_some() && spec.at.iter().any(|change| change.rate.is_some()) {
            return Err(self.fault(
                span,
                "the rate follows a trace: leave `rate` out of `at`, or write a rate here",
            ));
        }
        match spec.rate {
            Some(rate) if rate.bytes() == 0 => Err(self.fault(
                span,
                "the rate must be at least 8bit; leave it out for an unlimited link",
            )),
            None if spec.follow => Err(self.fault(
                span,
                "what a link without a rate may send has no bound: add `rate`, or tell `capacity`",
            )),
            None if spec.controller.is_some() && spec.capacity.is_none() => Err(self.fault(
                span,
                "a controller measures load against the link's rate: add `rate`, \
                 or `capacity` if the link behind the port is the slow one",
            )),
            _ => Ok(()),
        }
    }

    fn grant(&self, spec: &mut LinkSpec, given: Option<&Spanned<bool>>) -> Result<(), Fault> {
        let Some(given) = given else { return Ok(()) };
        spec.set_grants(*given.get_ref())
            .map_err(|message| self.fault(given.span(), message))
    }

    fn corruption(&self, spec: &LinkSpec, given: Option<&Spanned<Percent>>) -> Result<(), Fault> {
        match (given, spec.bad_corruption()) {
            (Some(given), Some(message)) => Err(self.fault(given.span(), message)),
            _ => Ok(()),
        }
    }

    fn law(&self, given: Option<&Spanned<String>>) -> Result<Option<LinkAlgorithm>, Fault> {
        let Some(given) = given else {
            return Ok(None);
        };
        let law: LinkAlgorithm =
            given
                .get_ref()
                .parse()
                .map_err(|error: pathmark_cc::ParseError| {
                    self.fault(given.span(), error.to_string())
                })?;
        Ok((law.name() != "none").then_some(law))
    }

    /// Queues that cannot work, now that it is known what a bandwidth-delay product is.
    pub(super) fn queues(&self, files: &[FileLink], links: &[LinkSetup]) -> Result<(), Fault> {
        let mut link = links.iter();
        for file in files {
            let queues = [
                Some(file.queue.as_ref()),
                file.duplex.then(|| {
                    let own = file.reverse.as_ref().map(Spanned::get_ref);
                    own.and_then(|reverse| reverse.queue.as_ref())
                }),
            ];
            for queue in queues.into_iter().flatten() {
                if let (Some(link), Some(queue)) = (link.next(), queue) {
                    self.queue(queue, link)?;
                }
            }
        }
        Ok(())
    }

    fn queue(&self, given: &Spanned<QueueSpec>, link: &LinkSetup) -> Result<(), Fault> {
        let fail = |message: &str| Err(self.fault(given.span(), message));
        let queue = given.get_ref();
        let packet = u64::from(self.packet) + u64::from(link.spec.frame_overhead);
        let limit = match (queue.limit, link.spec.rate) {
            (Some(LimitSpec::MilliBdp(_)), None) => {
                return fail(
                    "`bdp` needs the link's rate: add `rate`, or write the limit in packets or \
                     bytes",
                );
            }
            // As it was asked for, before the router rounds it up to what works.
            (Some(LimitSpec::MilliBdp(milli)), Some(rate)) => {
                let rtt = queue.rtt.map(|rtt| rtt.0).or(link.rtt);
                Limit::bdp(milli, rate.bytes(), rtt.unwrap_or(Duration::MAX))
            }
            _ => link.spec.limit(link.rtt),
        };
        match limit {
            Limit::Packets(0) => return fail("a queue needs room for a packet: raise `limit`"),
            Limit::Bytes(bytes) if bytes < packet => {
                return fail("the queue cannot hold one packet: raise `limit`");
            }
            _ => {}
        }
        match queue.unfit() {
            Some(message) => fail(&message),
            None => Ok(()),
        }
    }
}
