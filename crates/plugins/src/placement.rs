//! Placements of a library: their tables, and calling their functions.
//!
//! Not here: whether a proposal makes sense (`thermocline_policy::placement::foreign`).

#![allow(unsafe_code)] // C functions of somebody else's, through pointers.

use crate::library::{ERROR_BYTES, Head, Versioned, made, missing};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use thermocline_policy::Footprint;
use thermocline_policy::placement::{
    ChunkFacts, EpochFacts, ForeignPlacement, ForeignPlacements, PoolFacts, Wish,
};

/// The function that a library with placements exports.
pub(crate) const SYMBOL: &CStr = c"thermocline_placements";

/// `thermocline_epoch`.
#[repr(C)]
struct CEpoch {
    struct_bytes: usize,
    now_ns: u64,
    epoch_ns: u64,
    chunk_bytes: u64,
    chunks: *const ChunkFacts,
    chunk_count: usize,
    pools: *const PoolFacts,
    pool_count: usize,
}

type Create = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Propose =
    unsafe extern "C" fn(*mut c_void, *const CEpoch, *mut Wish, usize, *mut usize) -> c_int;
type Memory = unsafe extern "C" fn(*const c_void) -> u64;

/// `thermocline_placement`, version 1.
#[repr(C)]
pub(crate) struct Table {
    head: Head,
    create: Option<Create>,
    destroy: Option<Destroy>,
    propose: Option<Propose>,
    footprint: Option<Memory>,
}

/// Functions of a placement.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    create: Create,
    destroy: Destroy,
    propose: Propose,
    footprint: Option<Memory>,
}

// SAFETY: it begins with a head, and is `repr(C)`.
unsafe impl Versioned for Table {
    type Functions = Functions;
    const VERSION: u32 = 1;
    const KIND: &str = "placement";
    const HEADER: &str = "thermocline_placement.h";

    fn head(&self) -> &Head {
        &self.head
    }

    fn functions(&self, name: &str) -> Result<Functions, String> {
        let missing = |function| missing(Self::KIND, name, function);
        Ok(Functions {
            create: self.create.ok_or_else(|| missing("create"))?,
            destroy: self.destroy.ok_or_else(|| missing("destroy"))?,
            propose: self.propose.ok_or_else(|| missing("propose"))?,
            footprint: self.footprint,
        })
    }
}

/// A placement of a library, with its settings.
pub(crate) struct LoadedPlacements {
    pub(crate) functions: Functions,
    pub(crate) settings: CString,
}

impl ForeignPlacements for LoadedPlacements {
    fn create(&self) -> Result<Box<dyn ForeignPlacement>, String> {
        let mut error: [c_char; ERROR_BYTES] = [0; ERROR_BYTES];
        // SAFETY: a text with its zero, and room for a message of this size.
        let placement = unsafe {
            (self.functions.create)(self.settings.as_ptr(), error.as_mut_ptr(), ERROR_BYTES)
        };
        let placement = made(placement, error)?;
        Ok(Box::new(LoadedPlacement { functions: self.functions, placement }))
    }
}

/// A placement of a run.
struct LoadedPlacement {
    functions: Functions,
    placement: NonNull<c_void>,
}

// SAFETY: the header says that a placement is used by one thread at a time, but not always by the
// same one.
unsafe impl Send for LoadedPlacement {}

impl Drop for LoadedPlacement {
    fn drop(&mut self) {
        // SAFETY: `create` made it, and this is the last use.
        unsafe { (self.functions.destroy)(self.placement.as_ptr()) }
    }
}

impl ForeignPlacement for LoadedPlacement {
    fn propose(&mut self, epoch: &EpochFacts<'_>, moves: &mut Vec<Wish>) -> Result<(), String> {
        let facts = CEpoch {
            struct_bytes: size_of::<CEpoch>(),
            now_ns: epoch.now.0,
            epoch_ns: epoch.length.0,
            chunk_bytes: epoch.chunk_size.0,
            chunks: epoch.chunks.as_ptr(),
            chunk_count: epoch.chunks.len(),
            pools: epoch.pools.as_ptr(),
            pool_count: epoch.pools.len(),
        };
        let room = epoch.moves_max;
        let mut wishes = vec![Wish::NOTHING; room];
        // What is left as it is was not said.
        let mut count = usize::MAX;
        // SAFETY: a placement of this library's, facts whose arrays have these lengths and are
        // `repr(C)` as the header has them, and room for so many moves.
        let status = unsafe {
            (self.functions.propose)(
                self.placement.as_ptr(),
                &raw const facts,
                wishes.as_mut_ptr(),
                room,
                &raw mut count,
            )
        };
        match (status, count) {
            (0, usize::MAX) => Err("its `propose` did not say how many moves it wrote".to_string()),
            (0, count) if count > room => {
                Err(format!("its `propose` wrote {count} moves where there was room for {room}"))
            }
            (0, count) => {
                moves.extend(&wishes[..count]);
                Ok(())
            }
            (status, _) => Err(format!("its `propose` failed with {status}")),
        }
    }

    fn footprint(&self) -> Footprint {
        let index = match self.functions.footprint {
            // SAFETY: a placement of this library's.
            Some(footprint) => unsafe { footprint(self.placement.as_ptr()) },
            None => 0,
        };
        Footprint { resident: 0, index }
    }
}
