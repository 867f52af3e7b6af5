//! Parts of the platform by themselves.
