//! A client that fetches and stores files.

mod error;
mod get;
mod part;
mod plan;
mod put;
mod request;

pub use error::{GetError, PutError, Refusal};
pub use get::Fetched;
pub use put::Stored;
pub use request::{Client, ClientLimits};
