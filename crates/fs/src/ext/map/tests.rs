//! Bounds of what is held of a map.

use super::{Map, Run};

/// A tree whose every entry names the same block held 8 B for each read of it.
#[test]
fn a_map_holds_no_more_runs_and_nodes_than_are_allowed() {
    let mut map = Map::default();
    for number in 0..5 {
        map.node(100, 2);
        map.add(Run { logical: number * 9, block: 7, count: 1, preallocated: false }, 3);
    }
    assert_eq!((map.nodes.len(), map.runs.len(), map.cut), (2, 3, 3 + 2));
}
