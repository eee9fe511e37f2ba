//! An allocator that counts what each thread takes and gives back, so that tests can run beside
//! each other. A test that shares the memory of its thread out to several sides says whose part
//! runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Side 0 is that of all parts which belong to no side.
const SIDES: usize = 3;

thread_local! {
    /// Whose part runs.
    static SIDE: Cell<usize> = const { Cell::new(0) };
    /// Bytes that each holds, and the most that it ever did.
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
// SAFETY: everything is handed on to the system's allocator unchanged; counting allocates nothing,
// as the cells of a thread need neither lazy initialisation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller's contract is the system allocator's.
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

/// Runs a part of `side` and counts what it takes and gives back as that side's.
pub(crate) fn of<T>(side: usize, part: impl FnOnce() -> T) -> T {
    SIDE.set(side);
    let result = part();
    SIDE.set(0);
    result
}

/// The most bytes that `side` of this thread ever held.
pub(crate) fn most(side: usize) -> isize {
    MOST.with(|most| most[side].get())
}

/// Counts `side` anew from what it holds, as if that were nothing.
pub(crate) fn forget(side: usize) {
    HELD.with(|held| held[side].set(0));
    MOST.with(|most| most[side].set(0));
}
