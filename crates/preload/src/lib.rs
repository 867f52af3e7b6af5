//! A library for `LD_PRELOAD`: what unmodified programs tell the kernel of their files is told to
//! `thermocline hint run` or `thermocline hint watch` too; and the functions of
//! `thermocline_hints.h`.
//!
//! 1. Each function here does what the C library's of the same name does: it calls that one first,
//!    with the same arguments, and returns its result ([`real`]).
//! 2. Then what was said goes out as one datagram with the file's descriptor ([`telling`]), if the
//!    environment named a socket when the program started.
//!
//! Invariants:
//! - `errno` is what the real function left. Nothing waits: a datagram for which there is no room
//!   is dropped and counted.
//! - No state but two addresses and a counter; no lock, no allocation and no descriptor between
//!   two calls. So a signal, a fork or another thread may come at any moment.
//! - No call is made for programs that do not give advice.
//!
//! It does not see who opens or writes files, decides nothing, and does not reach programs that
//! are linked statically or run with another user's rights (ld.so(8)).

#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // Functions of the C library, by their names and for its callers.

mod direct;
mod real;
mod telling;

pub use direct::{CHint, thermocline_hint_fd, thermocline_hint_path};

use libc::{c_int, c_long, c_void, off_t, size_t, ssize_t};
use real::Function;
use telling::{Errno, tell};
use thermocline_advice::{Advice, LIFE_MAX, Priority, Said};

/// `F_SET_RW_HINT` and `F_SET_FILE_RW_HINT` of `linux/fcntl.h`; the second is gone since Linux
/// 5.17.
const SET_LIFE: [c_int; 2] = [1024 + 12, 1024 + 14];
/// `IOPRIO_WHO_PROCESS` and `IOPRIO_WHO_PGRP` of `linux/ioprio.h`.
const WHO: (c_long, c_long) = (1, 2);
/// `IOPRIO_CLASS_SHIFT`.
const CLASS_SHIFT: u32 = 13;

#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

/// Before the program begins: what needs locks or memory is done here.
extern "C" fn prepare() {
    real::find_all();
    telling::find_socket();
}

/// `posix_fadvise(3)`.
///
/// # Safety
/// Any arguments; as the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fadvise(
    file: c_int,
    offset: off_t,
    length: off_t,
    advice: c_int,
) -> c_int {
    advise(Function::Advise, file, (offset, length), advice)
}

/// `posix_fadvise(3)` as programs with 64-bit offsets call it.
///
/// # Safety
/// Any arguments; as the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fadvise64(
    file: c_int,
    offset: off_t,
    length: off_t,
    advice: c_int,
) -> c_int {
    advise(Function::Advise64, file, (offset, length), advice)
}

fn advise(function: Function, file: c_int, range: (off_t, off_t), advice: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, off_t, off_t, c_int) -> c_int;
    let Some(address) = function.address() else { return libc::ENOSYS };
    // SAFETY: `address` is the C library's function of this name and type (posix_fadvise(3)).
    let real = unsafe { std::mem::transmute::<*mut c_void, Real>(address) };
    // SAFETY: four numbers; the function takes any.
    let answer = unsafe { real(file, range.0, range.1, advice) };
    let _kept = Errno::keep();
    let said = u32::try_from(advice).ok().and_then(Advice::numbered).map(Said::Advice);
    if let (Some(said), Ok(offset), Ok(length)) = (said, range.0.try_into(), range.1.try_into()) {
        tell(file, offset, length, said);
    }
    answer
}

/// `readahead(2)`.
///
/// # Safety
/// Any arguments; as the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readahead(file: c_int, offset: off_t, count: size_t) -> ssize_t {
    type Real = unsafe extern "C" fn(c_int, off_t, size_t) -> ssize_t;
    let Some(address) = Function::ReadAhead.address() else { return real::missing() as ssize_t };
    // SAFETY: `address` is the C library's function of this name and type (readahead(2)).
    let real = unsafe { std::mem::transmute::<*mut c_void, Real>(address) };
    // SAFETY: three numbers; the function takes any.
    let answer = unsafe { real(file, offset, count) };
    let _kept = Errno::keep();
    if let (Ok(offset), 1..) = (offset.try_into(), count) {
        tell(file, offset, count as u64, Said::ReadAhead);
    }
    answer
}

/// `fcntl(2)`, with its optional argument as a fixed one.
///
/// On x86-64 (System V) and aarch64 (AAPCS64, Linux) an optional argument that is a number or an
/// address travels in the register that a fixed one in its place would have. Where the caller gave
/// none, that register holds anything, which is passed on, and which the real function does not
/// look at either.
///
/// # Safety
/// As the C library's: what `argument` points to must be what `command` asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise, passed on.
    unsafe { control(Function::Control, file, command, argument) }
}

/// `fcntl(2)` as programs with 64-bit offsets call it.
///
/// # Safety
/// As [`fcntl`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise, passed on.
    unsafe { control(Function::Control64, file, command, argument) }
}

/// # Safety
/// As [`fcntl`].
unsafe fn control(function: Function, file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, ...) -> c_int;
    let Some(address) = function.address() else { return real::missing() as c_int };
    // SAFETY: `address` is the C library's function of this name and type (fcntl(2)).
    let real = unsafe { std::mem::transmute::<*mut c_void, Real>(address) };
    // SAFETY: the caller's promise, passed on.
    let answer = unsafe { real(file, command, argument) };
    if answer == 0 && SET_LIFE.contains(&command) {
        let _kept = Errno::keep();
        // SAFETY: the kernel has just read this number there (fcntl(2): a `uint64_t *`).
        let life = unsafe { argument.cast::<u64>().read_unaligned() };
        if let Some(life) = u8::try_from(life).ok().filter(|life| *life <= LIFE_MAX) {
            tell(file, 0, 0, Said::Life(life));
        }
    }
    answer
}

/// `syscall(2)`, with its optional arguments as fixed ones: glibc has no `ioprio_set`.
///
/// The first six arguments travel as in [`fcntl`]. The seventh does too on aarch64; on x86-64 it
/// is on the stack above the return address, where a caller that gave fewer has something of its
/// own, which can be read and means nothing: so does glibc's own function.
///
/// # Safety
/// As the C library's: whatever the system call of this number asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let Some(real) = real::system_call() else { return real::missing() as c_long };
    if number == libc::SYS_ioprio_set {
        return set_priority(real, a, b, c);
    }
    // SAFETY: the caller's promise, passed on. Nothing is left to do here afterwards, so that an
    // optimised build jumps there: even a call that returns twice finds the stack as it was.
    unsafe { real(number, a, b, c, d, e, f) }
}

#[cold]
fn set_priority(real: real::SystemCall, which: c_long, who: c_long, priority: c_long) -> c_long {
    // SAFETY: three numbers; ioprio_set(2) takes any.
    let answer = unsafe { real(libc::SYS_ioprio_set, which, who, priority, 0, 0, 0) };
    if answer == 0 {
        let _kept = Errno::keep();
        tell_priority(which, who, priority);
    }
    answer
}

/// Tells of a priority that a process took for itself, or for its group. That of a single thread
/// says nothing of the process.
fn tell_priority(which: c_long, who: c_long, priority: c_long) {
    // Callers give numbers of 32 bits; the registers' upper halves are anything.
    let (which, who, priority) = (c_long::from(which as c_int), who as c_int, priority as u32);
    // SAFETY: three calls that take nothing, change nothing and cannot fail.
    let (process, thread, group) = unsafe { (libc::getpid(), libc::gettid(), libc::getpgrp()) };
    let is_ours = (which == WHO.0 && (who == process || who == 0 && thread == process))
        || (which == WHO.1 && (who == group || who == 0));
    if let Some(class) = Priority::numbered(priority >> CLASS_SHIFT).filter(|_| is_ours) {
        telling::tell_of_process(Said::Priority(class));
    }
}
