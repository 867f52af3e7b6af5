//! Claims about the laboratory of accelerators.
