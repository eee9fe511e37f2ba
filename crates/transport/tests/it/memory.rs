//! An allocator that counts memory per thread, so that tests can run in parallel. A test that
//! simulates several sides in one thread declares which side's code is running.

use std::alloc::{GlobalAlloc, Layout, System};
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

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    let side = SIDE.get();
    let held = HELD.with(|held| {
        held[side].set(held[side].get() + bytes);
        held[side].get()
    });
    MOST.with(|most| most[side].set(most[side].get().max(held)));
}

fn size(layout: Layout) -> isize {
    layout.size().cast_signed()
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: everything is passed unchanged to the system's allocator. Counting doesn't allocate,
// because these thread-local cells need neither lazy initialization nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-size(layout));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(new.cast_signed() - size(layout));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new) }
    }
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

/// Restarts counting for `side`, treating what it holds as zero.
pub(crate) fn forget(side: usize) {
    HELD.with(|held| held[side].set(0));
    MOST.with(|most| most[side].set(0));
}
