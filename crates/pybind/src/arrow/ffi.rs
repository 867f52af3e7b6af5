//! The three C structs of the Arrow interface, written by hand, and what fills them.
//!
//! 1. A [`Stream`] owns its source of batches. Whoever takes it out of its capsule marks the
//!    original as released (`release` is null) and calls `release` of the copy; otherwise dropping
//!    the capsule releases it.
//! 2. `get_schema` and `get_next` fill structs of the caller's. Each owns what it points to through
//!    `private_data`, a `Box` of a holder here, until its `release` is called, once.
//! 3. A batch is a struct array whose children are the columns. A consumer may move children out;
//!    it then releases them itself, and finds null in the parent, as the specification asks.
//!
//! Source: Apache Arrow, The Arrow C data interface and The Arrow C stream interface (2023).

#![allow(unsafe_code)] // The interface is C structs with raw pointers.

use super::{Batches, Field, Filled, Kind, Values};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// Result of `get_next` and `get_schema` on failure.
const EIO: c_int = 5;

/// Flag of a schema: values may be null.
const NULLABLE: i64 = 2;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub(crate) struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

// SAFETY: the only pointer is to a `Source`, whose batches are `Send`; it is used by one thread at
// a time, as the interface asks of consumers.
unsafe impl Send for Stream {}

/// Contents of a stream's private data.
struct Source {
    batches: Box<dyn Batches>,
    ended: bool,
    error: CString,
}

impl Stream {
    /// Name of the capsule that a stream is handed over in.
    pub(crate) const CAPSULE: &'static CStr = c"arrow_array_stream";

    /// A stream that hands out `batches`.
    pub(crate) fn new(batches: Box<dyn Batches>) -> Stream {
        let source = Source { batches, ended: false, error: CString::default() };
        Stream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(Box::new(source)).cast(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, so the private data is ours to give up.
            unsafe { release(self) };
        }
    }
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the caller passes a stream that was not released; its private data came from
    // `Box::into_raw` in `Stream::new`, and is taken once because `release` is cleared.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Source>()));
        (*stream).private_data = null_mut();
        (*stream).release = None;
    }
}

unsafe extern "C" fn get_last_error(stream: *mut Stream) -> *const c_char {
    // SAFETY: the stream is not released, so its private data is a `Source`, which nobody changes
    // before the next call.
    let source = unsafe { &*(*stream).private_data.cast::<Source>() };
    if source.error.is_empty() { null() } else { source.error.as_ptr() }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: as in `get_last_error`; one thread at a time uses a stream.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    let fields = source.batches.fields();
    let children = fields.iter().map(|field| Box::into_raw(Box::new(schema(field)))).collect();
    // SAFETY: `out` is the caller's room for a schema, whose contents need no dropping.
    unsafe { out.write(schema_of(c"+s", "", 0, children)) };
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    let next = match source.ended {
        true => Ok(None),
        // A panic may not cross into C.
        false => catch_unwind(AssertUnwindSafe(|| source.batches.next_batch()))
            .unwrap_or_else(|_| Err("thermocline panicked; this is a bug of ours".to_string())),
    };
    match next {
        Ok(Some(batch)) => {
            // SAFETY: `out` is the caller's room for an array.
            unsafe { out.write(record_batch(batch)) };
            0
        }
        Ok(None) => {
            source.ended = true;
            // SAFETY: likewise; a released array says that the stream has ended.
            unsafe { out.write(released()) };
            0
        }
        Err(message) => {
            source.ended = true;
            source.error = CString::new(message.replace('\0', " ")).unwrap_or_default();
            EIO
        }
    }
}

/// Contents of a schema's private data.
struct SchemaHolder {
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

fn schema(field: &Field) -> ArrowSchema {
    let format = match field.kind {
        Kind::Integer => c"l",
        Kind::Number => c"g",
        Kind::Flag => c"b",
        Kind::Text => c"u",
    };
    schema_of(format, &field.name, if field.nullable { NULLABLE } else { 0 }, Vec::new())
}

fn schema_of(
    format: &'static CStr,
    name: &str,
    flags: i64,
    children: Vec<*mut ArrowSchema>,
) -> ArrowSchema {
    let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
    let name_pointer = name.as_ptr();
    let mut holder = Box::new(SchemaHolder { _name: name, children });
    ArrowSchema {
        format: format.as_ptr(),
        name: name_pointer,
        metadata: null(),
        flags,
        n_children: holder.children.len() as i64,
        children: holder.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(holder).cast(),
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller passes a schema that was not released; its private data came from
    // `schema_of`. Children are boxes of ours, which are released unless they were moved out.
    unsafe {
        let holder = Box::from_raw((*schema).private_data.cast::<SchemaHolder>());
        for child in &holder.children {
            let child = *child;
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

/// Contents of an array's private data.
struct ArrayHolder {
    /// The buffers' memory.
    _filled: Option<Filled>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

fn record_batch(batch: Vec<Filled>) -> ArrowArray {
    let length = batch.first().map_or(0, Filled::len);
    assert!(batch.iter().all(|filled| filled.len() == length), "columns have the same length");
    let children =
        batch.into_iter().map(|filled| Box::into_raw(Box::new(column(filled)))).collect();
    // A batch itself has one buffer, for nulls, and has none.
    array_of(length, 0, ArrayHolder { _filled: None, buffers: vec![null()], children })
}

fn column(filled: Filled) -> ArrowArray {
    let known = filled.known.as_ref().map_or(null(), |known| known.bytes.as_ptr().cast());
    let mut buffers: Vec<*const c_void> = vec![known];
    match &filled.values {
        Values::Integers(values) => buffers.push(values.as_ptr().cast()),
        Values::Numbers(values) => buffers.push(values.as_ptr().cast()),
        Values::Flags(bits) => buffers.push(bits.bytes.as_ptr().cast()),
        Values::Texts(texts) => {
            buffers.push(texts.ends.as_ptr().cast());
            buffers.push(texts.bytes.as_ptr().cast());
        }
    }
    let (length, unknown) = (filled.len(), filled.unknown());
    array_of(length, unknown, ArrayHolder { _filled: Some(filled), buffers, children: Vec::new() })
}

fn array_of(length: usize, unknown: usize, holder: ArrayHolder) -> ArrowArray {
    // Moving the holder into its box moves no buffer: those are on the heap already.
    let mut holder = Box::new(holder);
    ArrowArray {
        length: length as i64,
        null_count: unknown as i64,
        offset: 0,
        n_buffers: holder.buffers.len() as i64,
        n_children: holder.children.len() as i64,
        buffers: holder.buffers.as_mut_ptr(),
        children: holder.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(holder).cast(),
    }
}

fn released() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: null_mut(),
        children: null_mut(),
        dictionary: null_mut(),
        release: None,
        private_data: null_mut(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as in `release_schema`, with `array_of`.
    unsafe {
        let holder = Box::from_raw((*array).private_data.cast::<ArrayHolder>());
        for child in &holder.children {
            let child = *child;
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}
