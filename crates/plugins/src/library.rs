//! Loading a library, and calling the functions of its tables.
//!
//! Libraries stay loaded until the process ends: their policies may be in use anywhere. Not here:
//! whether answers are true (`thermocline_policy::cache::ForeignCache`).

#![allow(unsafe_code)] // C functions of somebody else's, through pointers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use thermocline_policy::Footprint;
use thermocline_policy::cache::{ForeignCache, ForeignPolicy, Outcome, Tag};
use thermocline_policy::registry::Geometry;
use thermocline_units::{LineId, Nanos};

/// `THERMOCLINE_POLICY_VERSION` of the header.
const VERSION: u32 = 1;

/// Policies of a library, at most: a table without its null pointer is not read for ever.
const POLICIES_MAX: usize = 256;

/// Bytes of an error message of a library, with its zero.
const ERROR_BYTES: usize = 512;

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

/// `thermocline_policy`, version 1.
#[repr(C)]
struct Table {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    summary: *const c_char,
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

/// A library's policies: name and functions of each.
pub(crate) struct Library {
    policies: Vec<(String, Functions)>,
}

impl Library {
    /// Loads a library and reads its tables.
    ///
    /// # Errors
    /// When it cannot be loaded, or its tables are not of this version.
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
        // SAFETY: the handle is of a loaded library, and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(handle, SYMBOL.as_ptr()) };
        if symbol.is_null() {
            return Err(
                "it has no function `thermocline_policies`; thermocline_policy.h says what \
                        it does"
                    .to_string(),
            );
        }
        // SAFETY: a symbol of this name is a function of this type, by the header.
        let tables = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn() -> *const *const Table>(symbol)
        }();
        read_tables(tables).map(|policies| Library { policies })
    }

    /// A policy of the library, with its settings.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(crate) fn policy(self, name: &str, settings: &str) -> Result<LoadedPolicy, String> {
        let settings = CString::new(settings).map_err(|_| "a zero in the settings")?;
        match self.policies.iter().find(|(known, _)| known == name) {
            Some((_, functions)) => Ok(LoadedPolicy { functions: *functions, settings }),
            None => {
                let names: Vec<&str> =
                    self.policies.iter().map(|(name, _)| name.as_str()).collect();
                Err(format!("it has no policy `{name}`; it has: {}", names.join(", ")))
            }
        }
    }
}

fn read_tables(tables: *const *const Table) -> Result<Vec<(String, Functions)>, String> {
    let mut policies = Vec::new();
    for index in 0..POLICIES_MAX {
        if tables.is_null() {
            break;
        }
        // SAFETY: by the header, pointers to tables up to a null pointer; this is not beyond it.
        let table = unsafe { *tables.add(index) };
        // SAFETY: a pointer to a table, or null; the first 8 bytes are the same in every version.
        let Some(table) = (unsafe { table.as_ref() }) else { return Ok(policies) };
        let (version, bytes) = (table.version, table.struct_bytes as usize);
        if version != VERSION || bytes < size_of::<Table>() {
            return Err(format!(
                "its policy {index} is of version {version} with a table of {bytes} B; expected \
                 version {VERSION} with {} B: compile it with this thermocline_policy.h",
                size_of::<Table>()
            ));
        }
        policies.push(read_table(index, table)?);
    }
    Err(format!("no null pointer ends its tables, or it has more than {POLICIES_MAX} policies"))
}

fn read_table(index: usize, table: &Table) -> Result<(String, Functions), String> {
    if table.name.is_null() {
        return Err(format!("its policy {index} has no name"));
    }
    // SAFETY: by the header, a text that ends with a zero and stays.
    let name = unsafe { CStr::from_ptr(table.name) }.to_string_lossy().into_owned();
    let missing = |function: &str| format!("its policy `{name}` has no function `{function}`");
    let functions = Functions {
        create: table.create.ok_or_else(|| missing("create"))?,
        destroy: table.destroy.ok_or_else(|| missing("destroy"))?,
        reserve: table.reserve.ok_or_else(|| missing("reserve"))?,
        access: table.access.ok_or_else(|| missing("access"))?,
        invalidate: table.invalidate.ok_or_else(|| missing("invalidate"))?,
        footprint: table.footprint,
        end_epoch: table.end_epoch,
    };
    Ok((name, functions))
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
        let (settings, message) = (self.settings.as_ptr(), error.as_mut_ptr());
        // SAFETY: pointers to a geometry, a text with its zero and room for a message of this size.
        let cache =
            unsafe { (self.functions.create)(&raw const geometry, settings, message, ERROR_BYTES) };
        match NonNull::new(cache) {
            Some(cache) => Ok(Box::new(LoadedCache { functions: self.functions, cache })),
            None => {
                error[ERROR_BYTES - 1] = 0;
                // SAFETY: the last byte is a zero.
                let message = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy();
                Err(format!("it cannot be made: {message}"))
            }
        }
    }
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
