//! The program's allocator: the system's, asking for 2 MiB pages where it pays.
//!
//! Replaying a trace makes random accesses to arrays far larger than what 4 KiB pages let the
//! processor translate without a walk (peers measured 361 against 212 ns a load over 128 MiB).
//! Every large allocation is advised `MADV_HUGEPAGE`; where the kernel has no such pages, or the
//! allocation holds no aligned 2 MiB, the advice does nothing.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// From this size on an allocation asks for huge pages.
const LARGE_BYTES: usize = 8 << 20;
/// The size of a page of this system at most; advice begins at a page's start.
const PAGE_BYTES: usize = 64 << 10;

/// The system's allocator with huge pages for large allocations.
pub(crate) struct HugePages;

/// Gives free memory back to the system, where the C library can do that: what was needed for many
/// clients at once would otherwise be kept when they have gone.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer; it looks at memory only that nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Advises the kernel on an allocation of `size` bytes at `address`, which may be null.
fn advise(address: *mut u8, size: usize) -> *mut u8 {
    #[cfg(target_os = "linux")]
    if !address.is_null() && size >= LARGE_BYTES {
        let skipped = address.align_offset(PAGE_BYTES);
        let whole = (size - skipped) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: the range is whole pages inside a live allocation; the advice changes no content,
        // and its failure is of no consequence.
        unsafe { libc::madvise(address.add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
    address
}

// SAFETY: every call is passed on to `System` unchanged; advice does not move or change memory.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        advise(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        advise(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if new_size < LARGE_BYTES || new_size <= layout.size() {
            // SAFETY: the caller's promise, passed on.
            return unsafe { System.realloc(address, layout, new_size) };
        }
        // The system would copy into memory that was not advised yet, and then has small pages.
        // SAFETY: the caller promises that the new size is valid for the alignment.
        let larger = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: as large as the old allocation, or larger, and not zero.
        let moved = unsafe { self.alloc(larger) };
        if !moved.is_null() {
            // SAFETY: both are live, distinct, and hold the old size at least; the old one is the
            // caller's to give up.
            unsafe {
                std::ptr::copy_nonoverlapping(address, moved, layout.size());
                self.dealloc(address, layout);
            }
        }
        moved
    }
}
