//! The control law of a port.

use pathmark_cc::{Answer, Arrival, Duration, Instant, LinkController};

use crate::core::queue::Limit;

/// The control law with its deadline at hand, so that most packets ask it for nothing but their
/// answer.
pub(super) struct Law {
    pub(super) controller: Option<Box<dyn LinkController>>,
    pub(super) timer: Instant,
}

impl Law {
    /// A packet, or a run of them, arrives. False if the law holds it back: it then goes no
    /// further.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) -> bool {
        let Some(controller) = &mut self.controller else {
            return true;
        };
        if packets > 1 {
            return self.takes_run(now, run, packets, queue);
        }
        match controller.take(now, run, queue) {
            Some(timer) => {
                self.timer = timer;
                true
            }
            None => false,
        }
    }

    fn takes_run(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) -> bool {
        if let Some(controller) = &mut self.controller {
            if !controller.admits_all(now, run, packets) {
                return false;
            }
            controller.on_arrivals(now, run, packets, queue);
            self.refresh();
        }
        true
    }

    /// A packet, or a run of them, arrives that the law does not hear of.
    #[inline]
    pub(super) fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        if let Some(controller) = &mut self.controller {
            controller.on_unheard(now, arrival);
        }
    }

    #[inline]
    pub(super) fn on_departure(&mut self, now: Instant, arrival: &Arrival, queue: u64) -> Answer {
        match &mut self.controller {
            Some(controller) => controller.on_departure(now, arrival, queue),
            None => Answer::None,
        }
    }

    pub(super) fn on_drop(&mut self, now: Instant, arrival: &Arrival) {
        if let Some(controller) = &mut self.controller {
            controller.on_drop(now, arrival);
        }
    }

    #[cold]
    pub(super) fn on_set_aside(&mut self, now: Instant) {
        if let Some(controller) = &mut self.controller {
            controller.on_set_aside(now);
        }
        self.refresh();
    }

    pub(super) fn on_timer(&mut self, now: Instant, queue: u64) {
        if let Some(controller) = &mut self.controller {
            controller.on_timer(now, queue);
        }
        self.refresh();
    }

    pub(super) fn on_capacity(&mut self, now: Instant, rate: Option<u64>) {
        if let (Some(controller), Some(rate)) = (&mut self.controller, rate) {
            controller.on_capacity(now, rate);
        }
        self.refresh();
    }

    pub(super) fn on_variation(&mut self, wait: Duration) {
        if let Some(controller) = &mut self.controller {
            controller.on_variation(wait);
        }
    }

    pub(super) fn on_buffer(&mut self, limit: Limit) {
        if let Some(controller) = &mut self.controller {
            controller.on_buffer(limit.bytes());
        }
    }

    #[inline]
    pub(super) fn refresh(&mut self) {
        self.timer = self
            .controller
            .as_ref()
            .and_then(|controller| controller.deadline())
            .unwrap_or(Instant::FAR_FUTURE);
    }
}
