//! Miss-ratio curves in one pass.

mod stack_distance;

pub use stack_distance::{StackDistances, StackHistogram};
