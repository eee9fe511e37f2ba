//! Protocols side by side.

mod own;
mod tunnel;
