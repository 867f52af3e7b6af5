//! The functions of `thermocline_hints.h`, for programs that know what hints are.

use crate::real;
use crate::telling::{Errno, try_tell};
use libc::{c_char, c_int, c_long};
use std::mem::size_of;
use thermocline_advice::{Hint, Said};

/// `struct thermocline_hint`; the header tells what each field means.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CHint {
    size: u32,
    wishes: u32,
    offset: u64,
    length: u64,
    stream: u16,
    usage: u8,
    life: u8,
    background_ms: u32,
    expires_ms: u64,
}

const _: () = assert!(size_of::<CHint>() == 40, "as the header has it");

/// The caller's hint, if it is sound.
///
/// # Safety
/// `hint` is null, or points to a `struct thermocline_hint` whose `size` is right.
unsafe fn taken(hint: *const CHint) -> Option<(u64, u64, Said)> {
    // SAFETY: the caller's promise; only the size is read, which is in every version.
    let size = unsafe { hint.cast::<u32>().as_ref() }?;
    if *size as usize != size_of::<CHint>() {
        return None;
    }
    // SAFETY: the caller's promise, and it is as large as we read.
    let CHint { wishes, offset, length, stream, usage, life, background_ms, expires_ms, .. } =
        unsafe { hint.read() };
    let hint = Hint { stream, usage, life, background_ms, expires_ms, ..Hint::default() };
    let hint = hint.with_flags(wishes).filter(Hint::is_sound)?;
    Some((offset, length, Said::Hint(hint)))
}

/// Gives a hint of an open file: 0, or the number of an error; `errno` stays.
///
/// # Safety
/// `hint` points to a `struct thermocline_hint` whose `size` is right.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_hint_fd(file: c_int, hint: *const CHint) -> c_int {
    let _kept = Errno::keep();
    // SAFETY: the caller's promise, passed on.
    match unsafe { taken(hint) } {
        None => libc::EINVAL,
        Some((offset, length, said)) => {
            try_tell(Some(file), offset, length, said).err().unwrap_or(0)
        }
    }
}

/// Gives a hint of a file by its path: 0, or the number of an error; `errno` stays. The file is not
/// opened for reading or writing: it need not be readable, and nothing happens to it.
///
/// # Safety
/// `path` is a text that ends with a zero; `hint` as in [`thermocline_hint_fd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thermocline_hint_path(path: *const c_char, hint: *const CHint) -> c_int {
    let _kept = Errno::keep();
    let Some(call) = real::system_call() else { return libc::ENOSYS };
    let (here, how) = (c_long::from(libc::AT_FDCWD), libc::O_PATH | libc::O_CLOEXEC);
    let (path, how) = (path as c_long, c_long::from(how));
    // SAFETY: openat(2) reads the caller's text; an address that is none is an error.
    let file = unsafe { call(libc::SYS_openat, here, path, how, 0, 0, 0) };
    if file < 0 {
        return Errno::keep().number();
    }
    // SAFETY: the caller's promise, passed on.
    let outcome = unsafe { thermocline_hint_fd(file as c_int, hint) };
    // SAFETY: close(2) takes the number of the descriptor that we made.
    let _ = unsafe { call(libc::SYS_close, file, 0, 0, 0, 0, 0) };
    outcome
}
