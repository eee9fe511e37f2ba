//! The allocator of the tests, which counts the allocated bytes.

use std::alloc::{GlobalAlloc, Layout, System};

use super::count;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
