//! A packet socket (packet(7)): whole frames of one interface, past the network stack. Linux only;
//! needs CAP_NET_RAW.
//!
//! Each frame has a `struct virtio_net_hdr` before it. With it the kernel says which checksum it
//! left to the hardware, and which frames are several in one. `interface` reads and writes it; here
//! are the system calls alone.
#![allow(unsafe_code)]

use libc::c_int;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of a buffer: the header, an Ethernet header and the largest IP packet.
pub(crate) const BUFFER_BYTES: usize = 10 + 14 + 65_535;
/// Memory that the kernel may use for frames that wait at a socket, in each direction. Its default
/// of some 200 KiB is three frames of a local sender, and every frame more is lost.
const QUEUE_BYTES: c_int = 16 << 20;
/// Frames of one system call.
pub(crate) const BATCH: usize = 32;

/// An open socket, bound to an interface.
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    name: CString,
    index: u32,
}

/// Facts about an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) address: [u8; 6],
    pub(crate) mtu: usize,
}

/// `struct ifreq`, as the requests here use it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: [u8; 24],
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl PacketSocket {
    /// Opens a socket on the interface of this name. It neither blocks nor hears what is sent.
    ///
    /// # Errors
    /// There is no such interface, it is not Ethernet, or the system refuses.
    pub(crate) fn open(name: &str) -> io::Result<(PacketSocket, Facts)> {
        let wrong = |text: &str| {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}`: {text}")))
        };
        let Ok(terminated) = CString::new(name) else { return wrong("no interface's name") };
        if name.is_empty() || name.len() > 15 {
            return wrong("an interface's name has 1 to 15 bytes");
        }
        let index = index_of(&terminated);
        if index == 0 {
            return wrong("there is no such interface; `ip link` lists them");
        }
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is handed over. Protocol 0 hears nothing until the socket is bound.
        let socket = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was made above and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let socket = PacketSocket { socket, name: terminated, index };
        let facts = socket.facts(name)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Beyond the system's limits where we may, else up to them.
        for (forced, asked) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            let set = |option| socket.set(libc::SOL_SOCKET, option, QUEUE_BYTES);
            set(forced).or_else(|_| set(asked))?;
        }
        socket.bind(index)?;
        Ok((socket, facts))
    }

    /// True if the interface still exists: its name has the same number.
    pub(crate) fn is_there(&self) -> bool {
        index_of(&self.name) == self.index
    }

    fn set(&self, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
        let length = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the pointer is to an integer of the length that is told, which lives on.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                length,
            )
        };
        checked(result).map(|_| ())
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer is to a `sockaddr_ll` of the length that is told, which lives on.
        let result =
            unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) };
        checked(result).map(|_| ())
    }

    fn facts(&self, name: &str) -> io::Result<Facts> {
        let asked = |request: libc::Ioctl| {
            let mut asks = Request { name: [0; 16], data: [0; 24] };
            asks.name[..name.len()].copy_from_slice(name.as_bytes());
            // SAFETY: both requests read a name and write at most a `struct ifreq` of 40 bytes,
            // which `Request` is.
            checked(unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut asks) })?;
            Ok::<_, io::Error>(asks.data)
        };
        // The types of such numbers differ among C libraries.
        let hardware = asked(libc::SIOCGIFHWADDR as _)?;
        if u16::from_ne_bytes([hardware[0], hardware[1]]) != libc::ARPHRD_ETHER {
            let text =
                format!("`{name}` is not an Ethernet interface; for a TUN device write tun:");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut address = [0; 6];
        address.copy_from_slice(&hardware[2..8]);
        let mtu = asked(libc::SIOCGIFMTU as _)?;
        let mtu = i32::from_ne_bytes([mtu[0], mtu[1], mtu[2], mtu[3]]);
        Ok(Facts { address, mtu: usize::try_from(mtu).unwrap_or(1500) })
    }

    /// Receives frames into `buffers`, at most [`BATCH`]; their lengths, in order. None are there:
    /// none.
    ///
    /// # Errors
    /// Whatever the system says, such as that the interface is down.
    pub(crate) fn receive(&self, buffers: &mut [Vec<u8>]) -> io::Result<Vec<usize>> {
        let mut parts: Vec<libc::iovec> = buffers
            .iter_mut()
            .take(BATCH)
            .map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            })
            .collect();
        let mut messages = messages(&mut parts);
        // SAFETY: each message has one part, a buffer that nobody else uses until the call ends;
        // no address or control data is asked for.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        match checked(count) {
            Ok(count) => Ok(messages[..count as usize]
                .iter()
                .map(|message| message.msg_len as usize)
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Sends frames, at most [`BATCH`]; how many of them were taken.
    ///
    /// # Errors
    /// The first one was not taken.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let mut parts: Vec<libc::iovec> = frames
            .iter()
            .take(BATCH)
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages = messages(&mut parts);
        // SAFETY: each message has one part, a frame that outlives the call and that the kernel
        // only reads.
        let count = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        checked(count).map(|count| count as usize)
    }
}

/// Number of the interface of this name; 0 if there is none.
fn index_of(name: &CStr) -> u32 {
    // SAFETY: the pointer is to a string that ends in a zero and outlives the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// A message for each part.
fn messages(parts: &mut [libc::iovec]) -> Vec<libc::mmsghdr> {
    let message = |part: &mut libc::iovec| {
        // SAFETY: all fields of `mmsghdr` are integers and pointers, for which zero is a value.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message
    };
    parts.iter_mut().map(message).collect()
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
