//! XCP's router written straight from the papers in `f64`, without regard to speed. Tests compare
//! the integer implementation with it.

/// The fields of a packet's header: inter-packet time and RTT in seconds, feedback in bytes per
/// second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) x: f64,
    pub(crate) rtt: f64,
    pub(crate) delta: f64,
    pub(crate) bytes: f64,
}

/// A router (draft-falk-xcp-spec-03, section 4; Katabi et al., section 3.5).
#[derive(Clone, Debug, Default)]
pub(crate) struct Router {
    capacity: f64,
    input: f64,
    sum_x: f64,
    sum_x_rtt: f64,
    /// The values of the interval that just ended.
    frozen_x: f64,
    frozen_input: f64,
    pub(crate) mean_rtt: f64,
    pub(crate) aggregate: f64,
    pub(crate) positive: f64,
    pub(crate) negative: f64,
    positive_left: f64,
    negative_left: f64,
}

impl Router {
    pub(crate) fn new(capacity: f64) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    pub(crate) fn arrival(&mut self, header: &Header) {
        self.input += header.bytes;
        self.sum_x += header.x;
        self.sum_x_rtt += header.x * header.rtt;
    }

    pub(crate) fn close(&mut self, elapsed: f64, queue: f64) {
        if self.sum_x > 0.0 {
            self.mean_rtt = self.sum_x_rtt / self.sum_x;
        }
        let y = self.input / elapsed;
        self.aggregate = if self.input > 0.0 {
            0.4 * (self.capacity - y) - 0.226 * queue / self.mean_rtt
        } else {
            0.0
        };
        let shuffle = (0.1 * y - self.aggregate.abs()).max(0.0);
        self.positive = shuffle + self.aggregate.max(0.0);
        self.negative = shuffle + (-self.aggregate).max(0.0);
        (self.positive_left, self.negative_left) = (self.positive, self.negative);
        (self.frozen_x, self.frozen_input) = (self.sum_x, self.input);
        (self.input, self.sum_x, self.sum_x_rtt) = (0.0, 0.0, 0.0);
    }

    /// The feedback with which the packet leaves.
    pub(crate) fn departure(&mut self, header: &Header) -> f64 {
        let share = |pool: f64, part: f64, whole: f64, left: f64| {
            if whole > 0.0 {
                (pool * part / whole).min(left)
            } else {
                0.0
            }
        };
        let mut positive = share(self.positive, header.x, self.frozen_x, self.positive_left);
        let (bytes, left) = (header.bytes, self.negative_left);
        let mut negative = share(self.negative, bytes, self.frozen_input, left);
        let own = positive - negative;
        let delta = if header.delta >= own {
            own
        } else {
            negative = (negative + own - header.delta).min(self.negative_left);
            positive = (header.delta + negative).max(0.0);
            header.delta
        };
        self.positive_left = (self.positive_left - positive).max(0.0);
        self.negative_left = (self.negative_left - negative).max(0.0);
        delta
    }
}

/// The window form (Katabi et al., section 3.5): ξ_p and ξ_n of one interval, with windows in
/// bytes.
pub(crate) struct WindowRouter {
    per_p: f64,
    per_n: f64,
}

impl WindowRouter {
    /// `packets` contains the (RTT, window, size) of each packet in the interval.
    pub(crate) fn new(
        packets: &[(f64, f64, f64)],
        capacity: f64,
        queue: f64,
        elapsed: f64,
    ) -> Self {
        let sum = |f: &dyn Fn(&(f64, f64, f64)) -> f64| packets.iter().map(f).sum::<f64>();
        let sum_rs_w = sum(&|(r, w, s)| r * s / w);
        let d = sum(&|(r, w, s)| r * r * s / w) / sum_rs_w;
        let bytes = sum(&|(_, _, s)| *s);
        // φ and h are in bytes per mean RTT; the interval can be longer or shorter than that.
        let y = bytes / elapsed * d;
        let phi = 0.4 * d * (capacity - bytes / elapsed) - 0.226 * queue;
        let h = (0.1 * y - phi.abs()).max(0.0);
        // Scales sums to one mean RTT.
        let scale = d / elapsed;
        Self {
            per_p: (h + phi.max(0.0)) / (d * sum_rs_w * scale) * scale,
            per_n: (h + (-phi).max(0.0)) / (d * bytes * scale) * scale,
        }
    }

    /// H_feedback in bytes of window.
    pub(crate) fn feedback(&self, rtt: f64, window: f64, size: f64) -> f64 {
        self.per_p * rtt * rtt * size / window - self.per_n * rtt * size
    }
}
