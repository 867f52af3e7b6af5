//! Loading a library, reading its tables, and calling the functions of its cache policies.
//!
//! Libraries stay loaded until the process ends: their policies may be in use anywhere. Not here:
//! whether answers are true (`thermocline_policy::cache::ForeignCache`).

#![allow(unsafe_code)] // C functions of somebody else's, through pointers.

use crate::placement::{self, LoadedPlacements};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use thermocline_policy::Footprint;
use thermocline_policy::cache::{ForeignCache, ForeignPolicy, Outcome, Tag};
use thermocline_policy::registry::Geometry;
use thermocline_units::{LineId, Nanos};

/// Policies of a library, or placements, at most: tables without a null pointer at their end are
/// not read for ever.
const POLICIES_MAX: usize = 256;

/// Bytes of an error message of a library, with its zero.
pub(crate) const ERROR_BYTES: usize = 512;

const SYMBOL: &CStr = c"thermocline_policies";

/// `thermocline_geometry`.
#[repr(C)]
struct CGeometry {
    lines: u32,
    volumes: u32,
    line_bytes: u64,
    seed: u64,
}

type Create =
    unsafe extern "C" fn(*const CGeometry, *const c_char, *mut c_char, usize) -> *mut c_void;
type Access = unsafe extern "C" fn(*mut c_void, *const u32, *const u16, *mut u32, usize) -> c_int;

/// The first fields of every table, the same in every version.
#[repr(C)]
pub(crate) struct Head {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    summary: *const c_char,
}

/// A table of functions, as a header of ours describes it.
///
/// # Safety
/// It is `repr(C)` and begins with a [`Head`].
pub(crate) unsafe trait Versioned {
    /// Functions that were found to be there.
    type Functions;
    /// Version of the interface.
    const VERSION: u32;
    /// Family, as messages call it.
    const KIND: &str;
    /// The header that describes it.
    const HEADER: &str;

    /// Its first fields.
    fn head(&self) -> &Head;

    /// Its functions.
    ///
    /// # Errors
    /// When one that it must have is missing.
    fn functions(&self, name: &str) -> Result<Self::Functions, String>;
}

/// `thermocline_policy`, version 1.
#[repr(C)]
struct Table {
    head: Head,
    create: Option<Create>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    reserve: Option<unsafe extern "C" fn(*mut c_void, u32) -> c_int>,
    access: Option<Access>,
    invalidate: Option<unsafe extern "C" fn(*mut c_void, u32) -> c_int>,
    footprint: Option<unsafe extern "C" fn(*const c_void, *mut u64, *mut u64)>,
    end_epoch: Option<unsafe extern "C" fn(*mut c_void, u64) -> c_int>,
}

/// Functions that a policy must have, and those that it may have.
#[derive(Clone, Copy)]
struct Functions {
    create: Create,
    destroy: unsafe extern "C" fn(*mut c_void),
    reserve: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
    access: Access,
    invalidate: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
    footprint: Option<unsafe extern "C" fn(*const c_void, *mut u64, *mut u64)>,
    end_epoch: Option<unsafe extern "C" fn(*mut c_void, u64) -> c_int>,
}

// SAFETY: it begins with a head, and is `repr(C)`.
unsafe impl Versioned for Table {
    type Functions = Functions;
    const VERSION: u32 = 1;
    const KIND: &str = "policy";
    const HEADER: &str = "thermocline_policy.h";

    fn head(&self) -> &Head {
        &self.head
    }

    fn functions(&self, name: &str) -> Result<Functions, String> {
        let missing = |function| missing(Self::KIND, name, function);
        Ok(Functions {
            create: self.create.ok_or_else(|| missing("create"))?,
            destroy: self.destroy.ok_or_else(|| missing("destroy"))?,
            reserve: self.reserve.ok_or_else(|| missing("reserve"))?,
            access: self.access.ok_or_else(|| missing("access"))?,
            invalidate: self.invalidate.ok_or_else(|| missing("invalidate"))?,
            footprint: self.footprint,
            end_epoch: self.end_epoch,
        })
    }
}

/// Message about a function that a table lacks.
pub(crate) fn missing(kind: &str, name: &str, function: &str) -> String {
    format!("its {kind} `{name}` has no function `{function}`")
}

/// A library's policies and placements: name and functions of each.
pub(crate) struct Library {
    policies: Vec<(String, Functions)>,
    placements: Vec<(String, placement::Functions)>,
}

/// A policy or a placement that a name of a library stands for.
pub(crate) enum Named {
    Policy(LoadedPolicy),
    Placement(LoadedPlacements),
}

impl Library {
    /// Loads a library and reads its tables.
    ///
    /// # Errors
    /// When it cannot be loaded, has no tables, or they are not of this version, or a policy and a
    /// placement have one name.
    pub(crate) fn load(path: &Path) -> Result<Library, String> {
        // Without a slash the system would look in its own folders only.
        let here =
            if path.components().count() == 1 { Path::new(".").join(path) } else { path.into() };
        let name = CString::new(here.as_os_str().as_bytes()).map_err(|_| "a zero in its name")?;
        // SAFETY: the name ends with a zero. Loading runs the library's initialisers, which the
        // user asked for by naming it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("it cannot be loaded: {}", last_error()));
        }
        // SAFETY: the handle is of a loaded library, and functions of these names return tables of
        // these types, by their headers.
        let (policies, placements) = unsafe {
            (
                tables::<Table>(handle, SYMBOL)?,
                tables::<placement::Table>(handle, placement::SYMBOL)?,
            )
        };
        if policies.is_none() && placements.is_none() {
            return Err(
                "it has neither a function `thermocline_policies` nor `thermocline_placements`; \
                 thermocline_policy.h and thermocline_placement.h say what they do"
                    .to_string(),
            );
        }
        let (policies, placements) = (policies.unwrap_or_default(), placements.unwrap_or_default());
        let known = |name: &str| policies.iter().any(|(policy, _)| policy == name);
        match placements.iter().find(|(name, _)| known(name)) {
            Some((name, _)) => Err(format!(
                "it has a cache policy and a placement `{name}`; give them different names"
            )),
            None => Ok(Library { policies, placements }),
        }
    }

    /// A policy or a placement of the library, with its settings.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(crate) fn named(self, name: &str, settings: &str) -> Result<Named, String> {
        let settings = CString::new(settings).map_err(|_| "a zero in the settings")?;
        if let Some((_, functions)) = self.policies.iter().find(|(known, _)| known == name) {
            return Ok(Named::Policy(LoadedPolicy { functions: *functions, settings }));
        }
        if let Some((_, functions)) = self.placements.iter().find(|(known, _)| known == name) {
            return Ok(Named::Placement(LoadedPlacements { functions: *functions, settings }));
        }
        let policies = self.policies.iter().map(|(name, _)| name.as_str());
        let names = policies.chain(self.placements.iter().map(|(name, _)| name.as_str()));
        let names: Vec<&str> = names.collect();
        Err(format!("it has no policy `{name}`; it has: {}", names.join(", ")))
    }
}

/// Names and functions of tables.
type Tables<T> = Vec<(String, <T as Versioned>::Functions)>;

/// The tables that a library's function of this name returns; `None`: it has no such function.
///
/// # Safety
/// The handle is of a loaded library, and a function of this name returns an array of pointers to
/// tables of this type.
unsafe fn tables<T: Versioned>(
    handle: *mut c_void,
    symbol: &CStr,
) -> Result<Option<Tables<T>>, String> {
    // SAFETY: the handle is of a loaded library, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if symbol.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says that it is a function of this type.
    let tables =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *const *const T>(symbol) }();
    read_tables(tables).map(Some)
}

fn read_tables<T: Versioned>(tables: *const *const T) -> Result<Tables<T>, String> {
    let mut read = Vec::new();
    let (kind, wanted) = (T::KIND, T::VERSION);
    if tables.is_null() {
        return Err("its function returned no tables".to_string());
    }
    for index in 0..POLICIES_MAX {
        // SAFETY: by the header, pointers to tables up to a null pointer; this is not beyond it.
        let table = unsafe { *tables.add(index) };
        // SAFETY: a pointer to a table, or null; a table begins with a head in every version.
        let Some(head) = (unsafe { table.cast::<Head>().as_ref() }) else { return Ok(read) };
        let (version, bytes) = (head.version, head.struct_bytes as usize);
        if version != wanted || bytes < size_of::<T>() {
            return Err(format!(
                "its {kind} {index} is of version {version} with a table of {bytes} B; expected \
                 version {wanted} with {} B: compile it with this {}",
                size_of::<T>(),
                T::HEADER
            ));
        }
        // SAFETY: it says of itself that it is as large as a table of this type.
        let table = unsafe { &*table };
        read.push(read_table(index, table)?);
    }
    let most = "no null pointer ends its tables, or there are more than";
    Err(format!("{most} {POLICIES_MAX} ({kind})"))
}

fn read_table<T: Versioned>(index: usize, table: &T) -> Result<(String, T::Functions), String> {
    let name = table.head().name;
    if name.is_null() {
        return Err(format!("its {} {index} has no name", T::KIND));
    }
    // SAFETY: by the header, a text that ends with a zero and stays.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let functions = table.functions(&name)?;
    Ok((name, functions))
}

/// Message that a library wrote, or did not write.
fn message(mut error: [c_char; ERROR_BYTES]) -> String {
    error[ERROR_BYTES - 1] = 0;
    // SAFETY: the last byte is a zero.
    let message = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy();
    if message.is_empty() { "it does not say why".to_string() } else { message.into_owned() }
}

/// The loader's last message in this thread.
fn last_error() -> String {
    // SAFETY: returns null or a text of this thread's that stays until the next call of its kind.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return "the system does not say why".to_string();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
}

/// A policy of a library, with its settings.
pub(crate) struct LoadedPolicy {
    functions: Functions,
    settings: CString,
}

impl ForeignPolicy for LoadedPolicy {
    fn create(&self, geometry: &Geometry) -> Result<Box<dyn ForeignCache>, String> {
        let geometry = CGeometry {
            lines: geometry.lines,
            volumes: geometry.volumes,
            line_bytes: geometry.line_bytes.0,
            seed: geometry.seed,
        };
        let mut error: [c_char; ERROR_BYTES] = [0; ERROR_BYTES];
        let (settings, said) = (self.settings.as_ptr(), error.as_mut_ptr());
        // SAFETY: pointers to a geometry, a text with its zero and room for a message of this size.
        let cache =
            unsafe { (self.functions.create)(&raw const geometry, settings, said, ERROR_BYTES) };
        let cache = made(cache, error)?;
        Ok(Box::new(LoadedCache { functions: self.functions, cache }))
    }
}

/// The object that a `create` returned, which has written an error if it returned none.
pub(crate) fn made(
    object: *mut c_void,
    error: [c_char; ERROR_BYTES],
) -> Result<NonNull<c_void>, String> {
    NonNull::new(object).ok_or_else(|| format!("it cannot be made: {}", message(error)))
}

/// A cache of a library's policy.
struct LoadedCache {
    functions: Functions,
    cache: NonNull<c_void>,
}

// SAFETY: the header says that a cache is used by one thread at a time, but not always by the same.
unsafe impl Send for LoadedCache {}

impl LoadedCache {
    fn done(function: &str, status: c_int) -> Result<(), String> {
        match status {
            0 => Ok(()),
            status => Err(format!("its `{function}` failed with {status}")),
        }
    }
}

impl Drop for LoadedCache {
    fn drop(&mut self) {
        // SAFETY: `create` made it, and this is the last use.
        unsafe { (self.functions.destroy)(self.cache.as_ptr()) }
    }
}

impl ForeignCache for LoadedCache {
    fn reserve(&mut self, universe: u32) -> Result<(), String> {
        // SAFETY: a cache of this policy's.
        Self::done("reserve", unsafe { (self.functions.reserve)(self.cache.as_ptr(), universe) })
    }

    fn access_batch(
        &mut self,
        lines: &[LineId],
        tags: &[Tag],
        out: &mut [Outcome],
    ) -> Result<(), String> {
        let count = lines.len().min(tags.len()).min(out.len());
        // SAFETY: `LineId`, `Tag` and `Outcome` are transparent around u32, u16 and u32; `count` of
        // each are there, and any number is an `Outcome`.
        let status = unsafe {
            (self.functions.access)(
                self.cache.as_ptr(),
                lines.as_ptr().cast(),
                tags.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                count,
            )
        };
        Self::done("access", status)
    }

    fn invalidate(&mut self, line: LineId) -> Result<(), String> {
        // SAFETY: a cache of this policy's.
        Self::done("invalidate", unsafe {
            (self.functions.invalidate)(self.cache.as_ptr(), line.0)
        })
    }

    fn end_epoch(&mut self, now: Nanos) -> Result<(), String> {
        let Some(end_epoch) = self.functions.end_epoch else { return Ok(()) };
        // SAFETY: a cache of this policy's.
        Self::done("end_epoch", unsafe { end_epoch(self.cache.as_ptr(), now.0) })
    }

    fn footprint(&self) -> Footprint {
        let (mut resident, mut index) = (0, 0);
        if let Some(footprint) = self.functions.footprint {
            // SAFETY: a cache of this policy's, and room for two numbers.
            unsafe { footprint(self.cache.as_ptr(), &raw mut resident, &raw mut index) }
        }
        Footprint { resident, index }
    }
}
