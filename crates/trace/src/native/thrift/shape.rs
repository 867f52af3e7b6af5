//! The kinds of the footer's known fields, from parquet-format 2.11, `parquet.thrift`.
//!
//! The library reads a known field as the kind the format gives it, whatever kind the file
//! declares; a file that declares another makes it read at the wrong place. Unknown fields are
//! skipped as declared and need no entry. 16, 32 and 64-bit numbers are written alike.

/// Type that a known field must have.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Boolean,
    Byte,
    Number,
    Double,
    Binary,
    Struct(Shape),
    List(&'static Kind),
}

/// Known fields of a struct, by number.
pub(super) type Shape = &'static [(u64, Kind)];

use Kind::{Binary, Boolean, Byte, Double, List, Number, Struct};

pub(super) const FILE: Shape = &[
    (1, Number),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, Number),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(&[(1, Struct(&[])), (2, Struct(&[]))]))),
];

const KEY_VALUE: Shape = &[(1, Binary), (2, Binary)];

const SCHEMA_ELEMENT: Shape = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Binary),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Struct(LOGICAL_TYPE)),
];

const TIME: Shape = &[(1, Boolean), (2, Struct(UNIT))];
const UNIT: Shape = &[(1, Struct(&[])), (2, Struct(&[])), (3, Struct(&[]))];
const GEO: Shape = &[(1, Binary), (2, Number)];

/// A union: one field of a struct each.
const LOGICAL_TYPE: Shape = &[
    (1, Struct(&[])),
    (2, Struct(&[])),
    (3, Struct(&[])),
    (4, Struct(&[])),
    (5, Struct(&[(1, Number), (2, Number)])),
    (6, Struct(&[])),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Boolean)])),
    (11, Struct(&[])),
    (12, Struct(&[])),
    (13, Struct(&[])),
    (14, Struct(&[])),
    (15, Struct(&[])),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(GEO)),
    (18, Struct(GEO)),
];

const ROW_GROUP: Shape = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Number),
    (3, Number),
    (4, List(&Struct(&[(1, Number), (2, Boolean), (3, Boolean)]))),
    (5, Number),
    (6, Number),
    (7, Number),
];

const COLUMN_CHUNK: Shape = &[
    (1, Binary),
    (2, Number),
    (3, Struct(COLUMN)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Struct(&[])),
    (9, Binary),
];

const COLUMN: Shape = &[
    (1, Number),
    (2, List(&Number)),
    (3, List(&Binary)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, List(&Struct(KEY_VALUE))),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Number),
    (15, Number),
    (16, Struct(&[(1, Number), (2, List(&Number)), (3, List(&Number))])),
    (17, Struct(&[(1, Struct(BOX)), (2, List(&Number))])),
];

const STATISTICS: Shape = &[
    (1, Binary),
    (2, Binary),
    (3, Number),
    (4, Number),
    (5, Binary),
    (6, Binary),
    (7, Boolean),
    (8, Boolean),
    (9, Number),
];

const BOX: Shape = &[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
];
