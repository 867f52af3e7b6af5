//! A TUN device: packets of the network's layer, as a file. Linux only; needs CAP_NET_ADMIN.
#![allow(unsafe_code)]

use rustix::ioctl::{self, Setter, opcode};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Bytes of an interface's name, its end included (`IFNAMSIZ`).
const NAME_BYTES: usize = 16;
/// `IFF_TUN | IFF_NO_PI`: packets without a header of the device's own.
const FLAGS: u16 = 0x0001 | 0x1000;
/// `O_NONBLOCK`.
const NONBLOCK: i32 = 0o4000;
/// `TUNSETIFF`: what is at the address is 4 bytes long as the number says, and 40 in fact.
const TUNSETIFF: ioctl::Opcode = opcode::write::<u32>(b'T', 202);

/// `struct ifreq`, as this request uses it.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

/// Opens the device of this name, or makes it for as long as the file is open. Reads give a packet
/// each, or [`io::ErrorKind::WouldBlock`].
///
/// # Errors
/// The name does not fit, or the system refuses.
pub(crate) fn open(name: &str) -> io::Result<File> {
    if name.is_empty() || name.len() >= NAME_BYTES {
        let text = format!("`{name}`: an interface's name has 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(NONBLOCK).open("/dev/net/tun")?;
    let mut request = Request { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads a `struct ifreq` of 40 bytes, which `Request` is, and writes at most
    // the same back into rustix's own copy of it.
    unsafe { ioctl::ioctl(&file, Setter::<TUNSETIFF, Request>::new(request)) }?;
    Ok(file)
}
