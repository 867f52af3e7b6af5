//! Checks of a file's footer, on which the reading of pages relies.

use super::{schema, thrift};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;

/// The footer's length and the magic that end every file.
const TAIL_BYTES: u64 = 8;

/// Checks the shape of the footer before it is decoded; a file without one is the decoder's to
/// refuse.
pub(super) fn check_shape(input: &impl ChunkReader) -> Result<(), String> {
    let unread = |error: parquet::errors::ParquetError| error.to_string();
    let Some(tail_start) = input.len().checked_sub(TAIL_BYTES) else { return Ok(()) };
    let tail = input.get_bytes(tail_start, TAIL_BYTES as usize).map_err(unread)?;
    let Some((length, magic)) = tail.split_first_chunk::<4>() else { return Ok(()) };
    let length = u64::from(u32::from_le_bytes(*length));
    let (Some(start), b"PAR1") = (tail_start.checked_sub(length), magic) else { return Ok(()) };
    let footer = input.get_bytes(start, length as usize).map_err(unread)?;
    thrift::check(&footer).map_err(|problem| format!("the footer is damaged: {problem}"))
}

/// Checks what the footer says about sizes and places, on which everything later relies.
pub(super) fn check_layout(metadata: &ParquetMetaData, file_bytes: u64) -> Result<(), String> {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let mut bytes = 0u64;
    let mut rows = 0u64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let damaged =
            |what: String| format!("the footer is damaged: row group {} {what}", index + 1);
        let group_rows = u64::try_from(group.num_rows());
        let total = group_rows.ok().and_then(|more| rows.checked_add(more));
        rows = total.ok_or_else(|| damaged("has an impossible number of rows".to_string()))?;
        if group.columns().len() != leaves {
            return Err(damaged(format!("has {} of {leaves} columns", group.columns().len())));
        }
        for chunk in group.columns() {
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
            let end = range.and_then(|(start, length)| start.checked_add(length));
            let (Some((_, length)), Some(end)) = (range, end) else {
                return Err(damaged("has a column at a negative place".to_string()));
            };
            if end > file_bytes {
                return Err(damaged(format!(
                    "ends at byte {end} of {file_bytes}; was the file cut off?"
                )));
            }
            bytes = bytes.saturating_add(length);
        }
    }
    Ok(())
}

/// True if we wrote the file.
pub(super) fn check_version(metadata: &ParquetMetaData) -> Result<bool, String> {
    let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let Some(pair) = pairs.find(|pair| pair.key == schema::VERSION_KEY) else { return Ok(false) };
    let version = pair.value.as_deref().unwrap_or_default();
    match version.parse::<u32>() {
        Ok(number) if number <= schema::VERSION => Ok(true),
        Ok(number) => Err(format!(
            "layout version {number}; this program knows {} at most and is too old for the file",
            schema::VERSION
        )),
        Err(_) => Err(format!("`{version}` is not a layout version")),
    }
}

/// Refuses compressions that are not built in.
pub(super) fn check_compression(chunk: &ColumnChunkMetaData) -> Result<(), String> {
    match chunk.compression() {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::ZSTD(_) => Ok(()),
        other => Err(format!(
            "column `{}` is compressed with {other}; write the file with zstd, snappy, gzip or none",
            chunk.column_path().string()
        )),
    }
}
