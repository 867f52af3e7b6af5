//! The C library's own functions, behind ours of the same names.
//!
//! All of them are looked up before the program begins, since looking up takes locks. A call that
//! comes before that, from another library's start, looks up its one.

use libc::{c_long, c_void};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that we stand before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Function {
    Advise,
    Advise64,
    ReadAhead,
    Control,
    Control64,
    SystemCall,
}

const NAMES: [&CStr; 6] =
    [c"posix_fadvise", c"posix_fadvise64", c"readahead", c"fcntl", c"fcntl64", c"syscall"];

static FOUND: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

impl Function {
    /// Address of the real function; `None`: this C library has none.
    pub(crate) fn address(self) -> Option<*mut c_void> {
        let found = FOUND[self as usize].load(Ordering::Relaxed);
        let found = if found.is_null() { self.find() } else { found };
        (!found.is_null()).then_some(found)
    }

    #[cold]
    fn find(self) -> *mut c_void {
        // SAFETY: a name that ends with a zero; the next object's symbol is looked up, not ours.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[self as usize].as_ptr()) };
        FOUND[self as usize].store(found, Ordering::Relaxed);
        found
    }
}

/// Looks all of them up.
pub(crate) fn find_all() {
    let all = [
        Function::Advise,
        Function::Advise64,
        Function::ReadAhead,
        Function::Control,
        Function::Control64,
        Function::SystemCall,
    ];
    for function in all {
        function.find();
    }
}

/// `syscall(2)`, which is no place where threads are cancelled, as its likes are.
pub(crate) type SystemCall =
    unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// The C library's `syscall`.
pub(crate) fn system_call() -> Option<SystemCall> {
    let address = Function::SystemCall.address()?;
    // SAFETY: it is the C library's function of this name; that its arguments may be fixed ones is
    // told at our own `syscall`.
    Some(unsafe { std::mem::transmute::<*mut c_void, SystemCall>(address) })
}

/// The answer of a function that the C library does not have.
pub(crate) fn missing() -> i32 {
    // SAFETY: the address of this thread's own number.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}
