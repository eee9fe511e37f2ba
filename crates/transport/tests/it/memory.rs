//! An allocator that counts memory per thread, so that tests can run in parallel. A test that
//! simulates several sides in one thread declares which side's code is running.

mod sys;

use std::cell::Cell;

/// Side 0 is for code that belongs to no side.
const SIDES: usize = 3;

thread_local! {
    /// The side whose code is running.
    static SIDE: Cell<usize> = const { Cell::new(0) };
    /// Bytes that each side holds, and the maximum so far.
    static HELD: [Cell<isize>; SIDES] = const { [const { Cell::new(0) }; SIDES] };
    static MOST: [Cell<isize>; SIDES] = const { [const { Cell::new(0) }; SIDES] };
}

fn count(bytes: isize) {
    let side = SIDE.get();
    let held = HELD.with(|held| {
        held[side].set(held[side].get() + bytes);
        held[side].get()
    });
    MOST.with(|most| most[side].set(most[side].get().max(held)));
}

/// Runs `part`, and counts its allocations for `side`.
pub(crate) fn of<T>(side: usize, part: impl FnOnce() -> T) -> T {
    SIDE.set(side);
    let result = part();
    SIDE.set(0);
    result
}

/// Returns the largest number of bytes that `side` of this thread has held.
pub(crate) fn most(side: usize) -> isize {
    MOST.with(|most| most[side].get())
}

/// Restarts counting for `side`, as if it held no memory now.
pub(crate) fn forget(side: usize) {
    HELD.with(|held| held[side].set(0));
    MOST.with(|most| most[side].set(0));
}
