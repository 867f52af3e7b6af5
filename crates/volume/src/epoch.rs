//! Knowledge for placements, and what they make of it.
//!
//! [`epochs`] has the placement, its shadows and an [`observer`], who are all told of each access;
//! at the end of an epoch a placement is shown the group ([`view`], [`pool_traits`]) and says what
//! shall move. [`hinting`] acts on hints, [`slas`] judges answers.

pub(crate) mod epochs;
pub(crate) mod hinting;
pub(crate) mod observer;
pub(crate) mod pool_traits;
pub(crate) mod slas;
pub(crate) mod view;
