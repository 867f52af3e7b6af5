//! The program's allocator: the system's, asking for 2 MiB pages where it pays.
//!
//! Replaying a trace makes random accesses to arrays far larger than what 4 KiB pages let the
//! processor translate without a walk (peers measured 361 against 212 ns a load over 128 MiB). Large
//! allocations are aligned to 2 MiB and advised `MADV_HUGEPAGE`; where the kernel has no such pages
//! the advice does nothing. Smaller ones go to the system unchanged.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// From this size on an allocation asks for huge pages.
const LARGE_BYTES: usize = 8 << 20;
/// The size of a huge page on x86-64 and on aarch64 with 4 KiB base pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The system's allocator with huge pages for large allocations.
pub(crate) struct HugePages;

/// What the system is asked for: large layouts are aligned to a huge page.
fn widened(layout: Layout) -> Layout {
    if layout.size() < LARGE_BYTES {
        return layout;
    }
    layout.align_to(HUGE_PAGE_BYTES).unwrap_or(layout)
}

/// Advises the kernel on a fresh allocation.
///
/// # Safety
/// `address` is null or the start of a live allocation of `layout`.
unsafe fn advise(address: *mut u8, layout: Layout) -> *mut u8 {
    #[cfg(target_os = "linux")]
    if !address.is_null() && layout.size() >= LARGE_BYTES {
        // SAFETY: the range is our own live allocation, rounded down to whole huge pages; the advice
        // changes no content, and its failure is of no consequence.
        unsafe {
            let whole = layout.size() / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
            libc::madvise(address.cast(), whole, libc::MADV_HUGEPAGE);
        }
    }
    address
}

// SAFETY: every call is passed on to `System` with a layout that is the same function of the caller's
// layout on allocation and release, of at least its size and alignment; `realloc` of anything large
// on either side copies through `alloc` and `dealloc`.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` holds for the wider one.
        unsafe { advise(System.alloc(widened(layout)), layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE_BYTES {
            // SAFETY: the caller's promise, passed on.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise; a fresh allocation is writable over its whole size.
        unsafe {
            let address = self.alloc(layout);
            if !address.is_null() {
                address.write_bytes(0, layout.size());
            }
            address
        }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: it was allocated with the same widened layout.
        unsafe { System.dealloc(address, widened(layout)) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.size() < LARGE_BYTES && new_size < LARGE_BYTES {
            // SAFETY: the caller's promise, passed on; neither layout is widened.
            return unsafe { System.realloc(address, layout, new_size) };
        }
        // SAFETY: `new_size` is valid for `layout.align()` by the caller's promise; both blocks are
        // live and apart while the smaller size is copied; the old one is released once.
        unsafe {
            let fresh = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !fresh.is_null() {
                fresh.copy_from_nonoverlapping(address, layout.size().min(new_size));
                self.dealloc(address, layout);
            }
            fresh
        }
    }
}
