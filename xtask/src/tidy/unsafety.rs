//! `unsafe` only in the files that the layer table of ARCHITECTURE.md lists.
//!
//! That each block says why it is sound is clippy's part (`undocumented_unsafe_blocks`).

use super::{Finding, LayerTable, Source};

pub(super) fn check(source: &Source, table: &LayerTable) -> Vec<Finding> {
    if table.may_be_unsafe(source.path) {
        return Vec::new();
    }
    let places = source.words("unsafe");
    places
        .map(|at| {
            let message = "`unsafe` lives only in files that ARCHITECTURE.md lists: find a safe \
                           way, or add the file there and a decision record";
            Finding::new(source.path, source.line_of(at), "unsafe", message)
        })
        .collect()
}

#[cfg(test)]
mod tests;
