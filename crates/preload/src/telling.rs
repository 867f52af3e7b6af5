//! One datagram out, with a descriptor beside it.
//!
//! 1. Only of regular files and block devices: another process that holds a pipe or a socket, even
//!    for a moment, would be noticed.
//! 2. A socket is made for each datagram and closed at once. One that is kept could be closed, and
//!    its number given to something else, by programs that tidy up their descriptors.
//! 3. Descriptors travel with the datagram (unix(7), SCM_RIGHTS) and arrive although the program
//!    has closed its own, or has ended.
//! 4. What cannot be sent at once is dropped; the next datagram that can tells how many were.
//!
//! System calls are made by `syscall`, so that no thread is cancelled in a function that is no
//! place for it.

use crate::real::{self, SystemCall};
use libc::{c_int, c_long};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, Ordering};
use thermocline_advice::{DATAGRAM_BYTES, Datagram, SOCKET_VARIABLE, Said};

/// Keeps `errno` as it is until dropped.
pub(crate) struct Errno(c_int);

impl Errno {
    pub(crate) fn keep() -> Errno {
        // SAFETY: the address of this thread's own number.
        Errno(unsafe { *libc::__errno_location() })
    }

    /// The error that it stands for.
    pub(crate) fn number(&self) -> c_int {
        self.0
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: the address of this thread's own number.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// The address that the environment named, written once before the program begins.
struct Address {
    /// Bytes of the address; 0: nobody listens.
    length: AtomicU32,
    address: UnsafeCell<libc::sockaddr_un>,
}

// SAFETY: the address is written before `length` is raised (release), by one thread, once, and read
// only after that was seen (acquire).
unsafe impl Sync for Address {}

static ADDRESS: Address = Address {
    length: AtomicU32::new(0),
    address: UnsafeCell::new(libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    }),
};
/// Datagrams that were not sent since one was.
static UNSENT: AtomicU32 = AtomicU32::new(0);

/// Takes the socket's path from the environment, unless the program has more rights than who
/// started it; one that is too long is none.
pub(crate) fn find_socket() {
    // SAFETY: takes a number, answers with one.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    let mut name = [0_u8; SOCKET_VARIABLE.len() + 1];
    name[..SOCKET_VARIABLE.len()].copy_from_slice(SOCKET_VARIABLE.as_bytes());
    // SAFETY: a name that ends with a zero, before any other thread is there.
    let path = unsafe { libc::getenv(name.as_ptr().cast()) };
    if path.is_null() || ADDRESS.length.load(Ordering::Acquire) > 0 {
        return;
    }
    // SAFETY: the environment's texts end with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    // SAFETY: nobody reads it yet, since its length is 0; see `Address`.
    let place = unsafe { &mut (*ADDRESS.address.get()).sun_path };
    if path.len() < 2 || path.len() > place.len() {
        return;
    }
    for (to, from) in place.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + path.len();
    ADDRESS.length.store(length as u32, Ordering::Release);
}

/// Tells what was said of a file, if it is one; what came of it is nobody's business.
pub(crate) fn tell(file: c_int, offset: u64, length: u64, said: Said) {
    let _ = try_tell(Some(file), offset, length, said);
}

/// Tells what the process said of itself.
pub(crate) fn tell_of_process(said: Said) {
    let _ = try_tell(None, 0, 0, said);
}

/// The same, and says what came of it: an error's number, `errno` itself may change.
pub(crate) fn try_tell(
    file: Option<c_int>,
    offset: u64,
    length: u64,
    said: Said,
) -> Result<(), c_int> {
    if ADDRESS.length.load(Ordering::Acquire) == 0 {
        return Err(libc::ENOTCONN);
    }
    if let Some(file) = file {
        may_go_along(file)?;
    }
    let call = real::system_call().ok_or(libc::ENOSYS)?;
    let unsent = UNSENT.swap(0, Ordering::Relaxed);
    let datagram = Datagram { offset, length, unsent, said };
    let outcome = send(call, file, &datagram.encode());
    if outcome.is_err() {
        UNSENT.fetch_add(unsent.saturating_add(1), Ordering::Relaxed);
    }
    outcome
}

fn may_go_along(file: c_int) -> Result<(), c_int> {
    // SAFETY: plain numbers, of which all bits may be 0.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is ours and as large as the call expects.
    if unsafe { libc::fstat(file, &raw mut status) } < 0 {
        return Err(Errno::keep().number());
    }
    match status.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK => Ok(()),
        _ => Err(libc::ESPIPE),
    }
}

/// The result of a system call.
fn checked(answer: c_long) -> Result<c_long, c_int> {
    if answer < 0 { Err(Errno::keep().number()) } else { Ok(answer) }
}

/// Room for one descriptor beside a datagram, aligned as its head must be.
#[repr(C)]
struct Beside {
    head: libc::cmsghdr,
    file: c_int,
    _padding: c_int,
}

fn send(call: SystemCall, file: Option<c_int>, bytes: &[u8; DATAGRAM_BYTES]) -> Result<(), c_int> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let (family, kind) = (c_long::from(libc::AF_UNIX), c_long::from(kind));
    // SAFETY: socket(2) takes three numbers.
    let socket = checked(unsafe { call(libc::SYS_socket, family, kind, 0, 0, 0, 0) })?;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: plain numbers and addresses, of which all bits may be 0.
    let mut beside: Beside = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = ADDRESS.address.get().cast();
    message.msg_namelen = ADDRESS.length.load(Ordering::Acquire);
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(file) = file {
        beside.head.cmsg_level = libc::SOL_SOCKET;
        beside.head.cmsg_type = libc::SCM_RIGHTS;
        beside.head.cmsg_len = (offset_of!(Beside, file) + size_of::<c_int>()) as _;
        beside.file = file;
        message.msg_control = (&raw mut beside).cast();
        message.msg_controllen = size_of::<Beside>() as _;
    }
    let flags = c_long::from(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let at = (&raw mut message) as c_long;
    // SAFETY: sendmsg(2) reads `message` and what it points to: the datagram, the address, which
    // nobody writes any more, and `beside`, a whole `cmsghdr` with its descriptor; all outlive it.
    let sent = checked(unsafe { call(libc::SYS_sendmsg, socket, at, flags, 0, 0, 0) });
    // SAFETY: close(2) takes the number of the socket that we made, and that nobody else knows.
    let _ = unsafe { call(libc::SYS_close, socket, 0, 0, 0, 0, 0) };
    sent.map(|_| ())
}
