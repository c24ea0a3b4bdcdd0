//! The extension module behind the Python package `fedtse`.
//!
//! 1. `network`: networks as objects.
//! 2. `commands`: what the command line does, as functions that return what they have made; `options`: their
//!    keyword arguments as typed structs.
//! 3. `frame`: features of a table in memory.
//! 4. `guests`: training, with Python objects as sub-models (`sub_model`); the built-in ones as such
//!    objects (`built_in`).
//!
//! Long work runs on a thread of its own without Python's lock, while the calling thread looks for signals
//! and tells how far it is (`watched`). Errors become Python's (`errors`).

#![allow(unreachable_pub, reason = "Python calls these items, not another crate")]

mod built_in;
mod commands;
mod errors;
mod frame;
mod guests;
mod network;
mod options;
mod sub_model;
mod watched;

use pyo3::prelude::*;

#[pymodule]
mod _fedtse {
    #[pymodule_export]
    use crate::built_in::BuiltIn;
    #[pymodule_export]
    use crate::commands::{audit, estimate, features, main, reproduce, simulate};
    #[pymodule_export]
    use crate::frame::{frame_features, store_frame};
    #[pymodule_export]
    use crate::guests::{guest, host, live_guest, live_host, train};
    #[pymodule_export]
    use crate::network::Network;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
