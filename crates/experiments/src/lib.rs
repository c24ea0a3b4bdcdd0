//! Experiments, as the command line and the Python wheel run them.
//!
//! 1. [`data`]: datasets are simulated or imported, and get link-time features.
//! 2. [`train`]: a method is fitted to a dataset and scored; [`estimate`]: a trained model estimates all links.
//! 3. [`reproduce`]: the paper's tables and figures. A table is data (`reproduce/plan.rs`); one renderer prints all of them.
//! 4. [`audit`]: what has left a party, and what attacks recover from it.
//! 5. [`run_record`], [`compare`] and [`report`]: a run as a file, beside others, and as a page.
//! 6. [`link_table`] and [`plot`]: what was on each link, as a table and as pictures.
//!
//! This is application code shared by two front ends: options derive `clap`'s traits for the command line and
//! `serde`'s for Python, with one `Default` and one `check` for both. Errors are `anyhow`'s, as in the binary.

#![allow(missing_docs, reason = "application code: its callers are in this workspace")]
#![allow(rustdoc::private_intra_doc_links, reason = "module texts name their files")]

use training::{InvalidOption, TrainingError};

pub mod audit;
pub mod compare;
pub mod data;
pub mod estimate;
pub mod link_table;
pub mod plot;
pub mod report;
pub mod reproduce;
pub mod run_record;
pub mod train;

#[cfg(test)]
mod tests;

/// An error with its causes, each once: many of ours quote their cause already.
pub fn error_chain(error: &anyhow::Error) -> String {
    joined(error.chain().map(ToString::to_string))
}

/// The same for whoever gives options as keywords: `warm_up`, not `--warm-up`.
pub fn error_chain_by_keyword(error: &anyhow::Error) -> String {
    joined(error.chain().map(|cause| {
        let option = match cause.downcast_ref() {
            Some(TrainingError::Option(option)) => Some(option),
            _ => cause.downcast_ref::<InvalidOption>(),
        };
        match option {
            Some(InvalidOption { name, problem }) => format!("{name}: {problem}"),
            None => cause.to_string(),
        }
    }))
}

fn joined(causes: impl Iterator<Item = String>) -> String {
    causes.fold(String::new(), |text, cause| {
        if text.is_empty() {
            cause
        } else if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}
