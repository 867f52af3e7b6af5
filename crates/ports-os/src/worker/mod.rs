//! Accelerators outside: another process over shared memory and a socket, or threads of this one.
//!
//! 1. [`Process`] starts a program with a socket as its standard input and shared memory as its
//!    standard output. Buffers and positions lie in slots of that memory, messages of fixed size go
//!    over the socket; docs/formats/accelerator.md draws both. What the program is (a Verilated
//!    core, a card's driver) is nobody's matter here.
//! 2. A program that ends, writes nonsense or does not answer in time is a failed unit: its jobs
//!    end with an error, it is killed, and everything later is answered with `Gone`. The engine
//!    goes on.
//! 3. [`Serving`] is the other side of it, for workers in Rust.
//! 4. [`Threads`] is the same port on threads that compute with this processor's SIMD ([`simd()`]).
//!
//! The memory is a file without a name that is read and written, not mapped: no pointer is shared
//! with a program that may write to it at any time.

mod format;
mod process;
mod serving;
mod simd;
mod threads;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verilated;

pub use process::{Process, ProcessError, ProcessOptions};
pub use serving::Serving;
pub use simd::simd;
pub use threads::Threads;
