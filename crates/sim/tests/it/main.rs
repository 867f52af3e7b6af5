//! Whole-crate claims of the laboratory, checked against what others published.

mod arc_paper;
mod fixtures;
mod oracle_counts;
