//! Progress on a terminal, and silence in a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for work of known length; drawn on the standard error, and only if that is a terminal.
pub fn bar(what: &'static str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what);
    bar.set_style(style("{msg:<22} {wide_bar} {percent:>3} %  {eta} left"));
    bar
}

/// A bar for one of several things that are trained one after the other.
pub fn named(what: &'static str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length).with_prefix(what).with_message("begins");
    bar.set_style(style("{prefix:<10} {msg:<44} {wide_bar} {percent:>3} %"));
    bar
}

/// A spinner for work of unknown length.
pub fn spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.set_style(style("{spinner} {msg:<22} {human_pos}  {elapsed}"));
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// What a bar over epochs says after one of them.
pub fn after_epoch(bar: &ProgressBar, number: usize, train: f64, validation: f64) {
    bar.set_position(number as u64);
    bar.set_message(format!("epoch {number:>3}: loss {train:.4}, validation {validation:.4}"));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
