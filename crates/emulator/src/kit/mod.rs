//! A test kit for authors of control laws, which checks the results of scenarios in
//! `cargo test`.
//!
//! ```
//! use pathmark_cc::{Algorithm, Duration};
//! use pathmark_emulator::kit::{Flow, Path, Trial};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let law: Algorithm = "newreno".parse()?;
//! let path = Path::new("10Mbit", Duration::from_millis(40)).queue("1bdp");
//! let figures = Trial::over(&path, &[Flow::new("own").count(2)], Duration::from_secs(30))?
//!     // Any `Controller`; here one of the library's.
//!     .controller("own", "my law", move |now, mtu| law.controller(now, mtu))
//!     .run()?;
//! figures
//!     .expect()
//!     .utilization_at_least("bottleneck", 0.9)
//!     .jain_at_least(0.9)
//!     .queue_at_most_bdp("bottleneck", 1.0)
//!     .met()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Trial`] is any [`Scenario`], from a file, text or a [`Path`], in which flows and ports
//! can run the caller's own controllers. Its [`Figures`] are the run's result and time series.
//! [`Figures::expect`] compares them with bounds, and reports for all bounds together which were
//! met and by how much. Because runs are deterministic, a bound that is met once is always met.

mod expect;
mod figures;
mod path;
mod trial;

pub use expect::{Expectations, Shortfall};
pub use figures::Figures;
pub use path::{Flow, Path};
pub use trial::{Trial, TrialError};

pub use crate::engine::LinkControllerFactory;

#[cfg(doc)]
use crate::Scenario;
