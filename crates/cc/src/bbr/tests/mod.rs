//! BBR against the draft's known answers, a slow oracle, and paths that its model leaves out.

mod answers;
mod malice;
mod path;
mod paths;
mod sampling;
mod startup;
