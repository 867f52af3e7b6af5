//! The workshop: `cargo xtask ci|tidy|oracle|bench`.

fn main() {}
