//! A client that fetches and stores files.

mod drive;
mod error;
mod get;
mod ledger;
mod list;
mod mark;
mod part;
mod plan;
mod put;
mod request;
mod resume;
mod store;
mod tree;
mod walk;
mod whole;

pub use drive::{Ended, Outcome};
pub use error::{GetError, PutError, Refusal};
pub use get::{Fetched, Get};
pub use ledger::Ledger;
pub use list::{Listed, ListingReader, parse_listing};
pub use put::Stored;
pub use request::{Client, ClientLimits, Progress};
pub use store::PutTree;
pub use tree::GetTree;
pub use walk::{Skipped, TooMany, TreeLimits};
