//! Pages of results: tables and pictures of scenarios next to the papers' statements.

mod chapter;
mod figure;
mod labels;
mod milestones;
mod page;

pub use chapter::Chapter;
pub use figure::figure;
pub use page::{index, page};
