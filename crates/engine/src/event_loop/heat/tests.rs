//! Accesses that a heat map counts, and rows that it forgets.

use super::{COLUMNS, HeatMap, ROWS};

#[test]
fn an_access_counts_in_every_column_that_it_touches_and_no_other() {
    let mut heat = HeatMap::new(COLUMNS * 100);
    heat.note(0, 100);
    heat.note(99, 2);
    heat.note(COLUMNS * 100 - 1, 1);
    heat.note(COLUMNS * 100, 1); // Beyond the end: the volume was grown a moment ago.
    heat.close_row();
    let (first, rows) = heat.rows_from(0);
    assert_eq!((first, rows.len()), (0, 1));
    assert_eq!((rows[0][0], rows[0][1], rows[0][2]), (2, 1, 0));
    assert_eq!(rows[0][COLUMNS as usize - 1], 1);
    assert_eq!(rows[0].iter().sum::<u32>(), 4);
}

#[test]
fn old_rows_are_forgotten_and_rows_keep_their_numbers() {
    let mut heat = HeatMap::new(1 << 30);
    for row in 0..ROWS as u64 + 7 {
        for _ in 0..row {
            heat.note(0, 1);
        }
        heat.close_row();
    }
    let (first, rows) = heat.rows_from(0);
    assert_eq!((first, rows.len(), rows[0][0]), (7, ROWS, 7));
    let (first, rows) = heat.rows_from(ROWS as u64 + 5);
    assert_eq!((first, rows.len(), rows[0][0]), (ROWS as u64 + 5, 2, ROWS as u32 + 5));
    let (first, rows) = heat.rows_from(1 << 40);
    assert_eq!((first, rows.len()), (ROWS as u64 + 7, 0));
}
