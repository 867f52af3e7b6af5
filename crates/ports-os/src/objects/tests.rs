//! The device on a bucket that keeps, loses, hides and forges what a test wants.

mod bucket;
mod crash;
mod mutants;
mod owners;
mod rig;
