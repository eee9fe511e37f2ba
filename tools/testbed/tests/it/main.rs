//! Namespaces of the test bed.

mod nodes;
