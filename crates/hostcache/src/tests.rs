//! Parts by themselves: the index, the table of numbers, the layout.
