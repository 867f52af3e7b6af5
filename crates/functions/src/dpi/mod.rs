//! Inspection by rules (placeholder while building).
