//! A client that fetches and stores files.

mod get;
mod get_tree;
mod list;
mod part;
mod plan;
mod put;
mod put_tree;
mod request;
mod resume_upload;
mod walk;

pub use get::Get;
pub use get_tree::GetTree;
pub use list::{Listed, ListingReader, parse_listing};
pub use plan::{Fetched, GetError, PutError, Refusal, TooMany};
pub use put::Stored;
pub use put_tree::PutTree;
pub use request::Ledger;
pub use request::{Client, ClientLimits, Progress};
pub use walk::{Ended, Outcome, Skipped, TreeLimits};
