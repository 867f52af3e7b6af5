//! Migration: how fast operations copy beside the requests of clients, and whether one goes on.
//!
//! - [`Copying`]: the settings. [`Allowance`]: bytes that operations may move on one pool.
//! - [`Throttle`]: may a piece go now? [`RateControl`]: the rate that the SLAs of volumes allow.
//! - [`WearBudget`]: what moves may write to a pool in a day.
//! - [`Trial`]: was the part of a chunk that was moved first any faster there?
//!
//! `thermocline_volume` holds these and carries out what they say. Which chunks move is
//! [`crate::placement`].

mod allowance;
mod copying;
mod rate;
#[cfg(test)]
mod tests;
mod throttle;
mod trial;
mod wear;

pub use allowance::Allowance;
pub use copying::{
    CONCURRENTS, Copying, DISK_PIECE, OUTSTANDINGS, PATIENCE_MAX, PIECE_UNIT, PIECES, RATE,
    RATE_MIN, RATE_TEXT, YIELDS,
};
pub use rate::{Answered, RateControl};
pub use throttle::{Held, Pools, Throttle};
pub use trial::{Trial, Tried};
pub use wear::WearBudget;
