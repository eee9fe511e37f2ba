//! pathmark.
