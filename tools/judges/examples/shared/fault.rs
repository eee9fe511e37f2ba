//! An error with the message of the other stack.

use std::fmt::Display;

#[derive(Debug)]
pub(crate) struct Fault(#[expect(dead_code, reason = "it is printed")] String);

impl<E: Display> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
