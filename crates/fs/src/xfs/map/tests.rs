//! Bounds of what is held of a map.

use super::Map;

/// A tree whose every entry names the same block held 8 B for each read of it.
#[test]
fn a_map_holds_no_more_nodes_than_are_allowed() {
    let mut map = Map::default();
    for _ in 0..5 {
        map.keep(100, 2);
    }
    assert_eq!((map.nodes.len(), map.cut), (2, 3));
}
