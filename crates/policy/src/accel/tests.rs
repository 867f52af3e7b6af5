//! Schedulers: what they plan.
