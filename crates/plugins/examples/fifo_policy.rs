//! FIFO, as a policy of one's own in Rust: `libfifo_policy.so` with the policy `fifo`.
//!
//! ```text
//! cargo build --release -p thermocline-plugins --example fifo_policy
//! thermocline lab cache web.csv.gz --policy ./target/release/examples/libfifo_policy.so:fifo
//! ```
//!
//! Declares the interface itself, as a crate of its own would. State: 4 B a cached line, 1 B a
//! distinct one.

#![allow(unsafe_code)] // The interface is C functions with raw pointers.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};

const HIT: u32 = u32::MAX;
const ADMITTED: u32 = u32::MAX - 1;

/// `thermocline_geometry`.
#[repr(C)]
pub struct Geometry {
    lines: u32,
    volumes: u32,
    line_bytes: u64,
    seed: u64,
}

/// `thermocline_policy`.
#[repr(C)]
pub struct Policy {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    summary: *const c_char,
    create: extern "C" fn(*const Geometry, *const c_char, *mut c_char, usize) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    reserve: extern "C" fn(*mut c_void, u32) -> c_int,
    access: extern "C" fn(*mut c_void, *const u32, *const u16, *mut u32, usize) -> c_int,
    invalidate: extern "C" fn(*mut c_void, u32) -> c_int,
    footprint: Option<extern "C" fn(*const c_void, *mut u64, *mut u64)>,
    end_epoch: Option<extern "C" fn(*mut c_void, u64) -> c_int>,
}

/// The exported array, a null pointer last.
#[repr(transparent)]
pub struct Policies([*const Policy; 2]);

// SAFETY: what it points to never changes.
unsafe impl Sync for Policies {}
// SAFETY: likewise.
unsafe impl Sync for Policy {}

struct Fifo {
    capacity: usize,
    queue: VecDeque<u32>,
    resident: Vec<bool>,
}

impl Fifo {
    fn access(&mut self, line: u32) -> u32 {
        if self.resident[line as usize] {
            return HIT;
        }
        self.resident[line as usize] = true;
        self.queue.push_back(line);
        if self.queue.len() <= self.capacity {
            return ADMITTED;
        }
        let victim = self.queue.pop_front().expect("it was just added to");
        self.resident[victim as usize] = false;
        victim
    }
}

/// The cache behind a pointer of ours.
fn fifo<'a>(cache: *mut c_void) -> &'a mut Fifo {
    // SAFETY: the caller passes what `create` returned, from one thread at a time.
    unsafe { &mut *cache.cast::<Fifo>() }
}

extern "C" fn create(
    geometry: *const Geometry,
    _settings: *const c_char,
    _error: *mut c_char,
    _error_bytes: usize,
) -> *mut c_void {
    // SAFETY: the caller passes a geometry.
    let capacity = unsafe { (*geometry).lines } as usize;
    Box::into_raw(Box::new(Fifo { capacity, queue: VecDeque::new(), resident: Vec::new() })).cast()
}

extern "C" fn destroy(cache: *mut c_void) {
    // SAFETY: the caller passes what `create` returned, for the last time.
    drop(unsafe { Box::from_raw(cache.cast::<Fifo>()) });
}

extern "C" fn reserve(cache: *mut c_void, universe: u32) -> c_int {
    fifo(cache).resident.resize(universe as usize, false);
    0
}

extern "C" fn access(
    cache: *mut c_void,
    lines: *const u32,
    _tags: *const u16,
    outcomes: *mut u32,
    count: usize,
) -> c_int {
    // SAFETY: the caller passes so many lines, and room for as many outcomes.
    let (lines, outcomes) = unsafe {
        (std::slice::from_raw_parts(lines, count), std::slice::from_raw_parts_mut(outcomes, count))
    };
    for (line, outcome) in lines.iter().zip(outcomes) {
        *outcome = fifo(cache).access(*line);
    }
    0
}

extern "C" fn invalidate(cache: *mut c_void, line: u32) -> c_int {
    let fifo = fifo(cache);
    fifo.resident[line as usize] = false;
    fifo.queue.retain(|queued| *queued != line);
    0
}

static FIFO: Policy = Policy {
    version: 1,
    struct_bytes: size_of::<Policy>() as u32,
    name: c"fifo".as_ptr(),
    summary: c"evicts the line that came first".as_ptr(),
    create,
    destroy,
    reserve,
    access,
    invalidate,
    footprint: None,
    end_epoch: None,
};

static POLICIES: Policies = Policies([&raw const FIFO, std::ptr::null()]);

/// The library's policies.
#[unsafe(no_mangle)]
pub extern "C" fn thermocline_policies() -> *const Policies {
    &raw const POLICIES
}
