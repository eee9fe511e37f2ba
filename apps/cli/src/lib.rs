//! The `pathmark` command as a library. [`main`] runs the command with the laws that the calling
//! program has registered, and [`demo`] has the demonstration's runs.

#![forbid(unsafe_code)]

mod command;
pub mod demo;
mod explain;
mod report;

pub use command::main;
