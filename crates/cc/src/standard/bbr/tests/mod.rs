//! Tests BBR with the draft's known answers, a slow oracle, and paths that its model does not
//! cover.

mod answers;
mod malice;
mod marks;
mod path;
mod paths;
mod probes;
mod sampling;
mod startup;
