//! The control law of a port.

use pathmark_cc::{Answer, Arrival, Instant, LinkController};

use crate::core::queue::Limit;

/// The control law with its deadline at hand, so that most packets ask it for nothing but their
/// answer.
pub(super) struct Law {
    pub(super) controller: Option<Box<dyn LinkController>>,
    pub(super) timer: Instant,
}

impl Law {
    #[inline]
    pub(super) fn admits(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        self.controller.as_mut().is_none_or(|controller| {
            if packets == 1 {
                controller.admits(now, run)
            } else {
                controller.admits_all(now, run, packets)
            }
        })
    }

    #[inline]
    pub(super) fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        if let Some(controller) = &mut self.controller {
            if packets == 1 {
                controller.on_arrival(now, run, queue);
            } else {
                controller.on_arrivals(now, run, packets, queue);
            }
            self.refresh();
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
