//! Random bytes that nobody can guess: for tokens, seeds and names.

use std::fs::File;
use std::io::{self, Read};

/// `N` bytes of the system's generator.
///
/// # Errors
/// When the system has none.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let source = "/dev/urandom";
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| io::Error::new(error.kind(), format!("{source}: {error}")))?;
    Ok(bytes)
}

/// A number of 64 random bits.
///
/// # Errors
/// When the system has none.
pub fn random_number() -> io::Result<u64> {
    random_bytes().map(u64::from_ne_bytes)
}
