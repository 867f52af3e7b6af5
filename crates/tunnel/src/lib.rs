//! t

mod decoder;
mod encoder;
mod format;
mod shared;
mod store;
pub use store::*;

#[cfg(test)]
mod tests;
