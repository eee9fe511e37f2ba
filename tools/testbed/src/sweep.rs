//! Sweeps whose cells take too long for each run of the tests.

/// Returns each `every`th cell of a sweep, from the first on. If the environment has
/// `PATHMARK_SWEEPS=whole`, as under `cargo xtask soak`, it returns all of them.
///
/// # Panics
///
/// If `every` is 0.
pub fn sampled<T>(every: usize, cells: impl IntoIterator<Item = T>) -> Vec<T> {
    let whole = std::env::var_os("PATHMARK_SWEEPS").is_some_and(|part| part == "whole");
    let step = if whole { 1 } else { every };
    cells.into_iter().step_by(step).collect()
}
