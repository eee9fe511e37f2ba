//! The `pathmark` command.

fn main() {}
