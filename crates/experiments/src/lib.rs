//! Experiments, as the command line and the Python wheel run them.
//!
//! 1. [`data`]: datasets are simulated or imported, and get link-time features.
//! 2. [`link_table`] and [`plot`]: what was on each link, as a table and as pictures.
//!
//! Application code shared by two front ends: errors are `anyhow`'s, as in the binary.

pub mod data;
pub mod link_table;
pub mod plot;
