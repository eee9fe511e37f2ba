//! State of one network path: validation, MTU, ECN, amplification limit, and feedback.
//!
//! The parts are independent of each other. Each is notified of packets, by number, and of their
//! fates.

mod ecn;
mod feedback;
mod mtud;
mod one_way;
mod plain;
mod validation;

#[cfg(test)]
mod feedback_tests;
#[cfg(test)]
mod mtud_tests;
#[cfg(test)]
mod plain_tests;

pub use ecn::{EcnAck, EcnFailure, EcnReceived, EcnState, EcnValidation};
pub use feedback::{ArrivalRate, Cadence, Counting, Disbelieved, Returned};
pub(crate) use mtud::LEAST_BASE;
pub use mtud::{BASE_MTU, ETHERNET_MTU, LARGEST_MTU, Mtud};
pub use one_way::{OneWayDelay, Sample};
pub use plain::PlainPath;
pub use validation::{AmplificationLimit, PathResponses, PathValidation, Validated};
