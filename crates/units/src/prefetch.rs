//! Asking the processor to fetch a cache line before it is needed.
//!
//! Replaying a trace is bound by memory latency; the ids of the next accesses are known, so their
//! state can be on its way. The one `unsafe` of this crate.

/// Starts loading `slice[index]` into the processor's caches. A hint: does nothing when `index` is
/// out of range or on processors without such an instruction.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = slice.as_ptr().wrapping_add(index).cast::<i8>();
        // SAFETY: PREFETCHT0 never faults, whatever the address; nothing is read or written.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}
