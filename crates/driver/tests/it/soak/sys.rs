//! Counts what is allocated. The process's size shows less: it keeps what is freed for later, in
//! pieces.
#![expect(
    unsafe_code,
    reason = "an allocator is unsafe to write; this one hands all on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, and a count.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that are allocated and not freed.
pub(crate) fn allocated() -> u64 {
    ALLOCATED.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
