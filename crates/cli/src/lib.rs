//! The `pathmark` command, as a library: [`main`] is the command with the laws that the calling
//! program has registered, and [`demo`] is the demonstration's runs.

#![forbid(unsafe_code)]

mod command;
pub mod demo;
mod report;

pub use command::main;
