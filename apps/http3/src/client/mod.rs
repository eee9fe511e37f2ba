//! A client that fetches and stores files.

mod get;
mod list;
mod part;
mod plan;
mod put;
mod request;
mod resume;
mod store;
mod tree;
mod walk;

pub use get::Get;
pub use list::{Listed, ListingReader, parse_listing};
pub use plan::{Fetched, GetError, PutError, Refusal, TooMany};
pub use put::Stored;
pub use request::Ledger;
pub use request::{Client, ClientLimits, Progress};
pub use store::PutTree;
pub use tree::GetTree;
pub use walk::{Ended, Outcome, Skipped, TreeLimits};
