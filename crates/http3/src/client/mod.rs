//! A client that fetches and stores files.

mod error;
mod get;
mod list;
mod part;
mod plan;
mod put;
mod request;

pub use error::{GetError, PutError, Refusal};
pub use get::{Fetched, Get};
pub use list::{Listed, parse_listing};
pub use put::Stored;
pub use request::{Client, ClientLimits, Progress};
