//! Errors as Python exceptions, with the words of the command line, but options by their keywords.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Which of the exceptions of `fedtse.errors` an error is.
fn class(error: &anyhow::Error) -> &'static str {
    let of_files = error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some());
    if of_files { "FedtseOSError" } else { "FedtseValueError" }
}

/// An error of the library.
pub(crate) fn raised(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    exception(py, class(error), fedtse::error_chain_by_keyword(error))
}

/// A mistake of the caller's.
pub fn wrong(py: Python<'_>, text: impl Into<String>) -> PyErr {
    exception(py, "FedtseValueError", text.into())
}

/// A panic: a mistake of ours.
pub fn internal(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    exception(py, "FedtseInternalError", format!("this is a mistake in fedtse: {text}"))
}

fn exception(py: Python<'_>, name: &str, text: String) -> PyErr {
    let made = py.import("fedtse.errors").and_then(|errors| errors.getattr(name)?.call1((&text,)));
    // Without the package around it, the module still says what is wrong.
    made.map_or_else(|_| PyRuntimeError::new_err(text), PyErr::from_value)
}
