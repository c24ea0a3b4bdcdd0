//! Progress: on a terminal for people, to a front end that watches, and silence in a pipe.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thiserror::Error;

thread_local! {
    static OBSERVER: RefCell<Option<Arc<Observer>>> = const { RefCell::new(None) };
}

/// A front end that follows work on another thread and may stop it.
#[derive(Default)]
pub struct Observer {
    bar: Mutex<Option<ProgressBar>>,
    stop: AtomicBool,
}

/// How far observed work has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub what: String,
    /// How much of it.
    pub done: u64,
    /// Of how much; none where nobody knows.
    pub total: Option<u64>,
}

/// Observed work was told to stop.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("stopped before the end")]
pub struct Stopped;

impl Observer {
    /// Does work on this thread and reports its progress to this observer.
    pub fn work<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = OBSERVER.replace(Some(Arc::clone(self)));
        let done = work();
        OBSERVER.set(before);
        done
    }

    /// How far it has come; none before it has begun to count.
    pub fn progress(&self) -> Option<Progress> {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Progress { what: bar.message(), done: bar.position(), total: bar.length() })
    }

    /// Tells the work to stop at its next check.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn show(&self, bar: &ProgressBar) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }
}

/// Whether nothing is drawn, whatever the standard error is.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Draws nothing from now on; front ends that watch still hear of everything.
pub fn hide() {
    HIDDEN.store(true, Ordering::Relaxed);
}

fn hidden_if_asked(bar: ProgressBar) -> ProgressBar {
    if HIDDEN.load(Ordering::Relaxed) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// The observer of the work on this thread, if there is one.
pub fn observer() -> Option<Arc<Observer>> {
    OBSERVER.with_borrow(Option::clone)
}

/// An error if the observer has told the work on this thread to stop.
pub fn check_stop() -> Result<(), Stopped> {
    let stopped = observer().is_some_and(|observer| observer.stop.load(Ordering::Relaxed));
    if stopped { Err(Stopped) } else { Ok(()) }
}

/// Does work on this thread that belongs to observed work on another.
pub fn observed_by<T>(observer: Option<&Arc<Observer>>, work: impl FnOnce() -> T) -> T {
    match observer {
        Some(observer) => observer.work(work),
        None => work(),
    }
}

/// Work of known length, as a front end counts it.
pub struct Counting(ProgressBar);

impl Counting {
    /// Begins to count.
    pub fn begin(what: &'static str, length: u64) -> Self {
        Self(bar(what, length))
    }

    /// Records how much is done; false if the work is to stop.
    pub fn at(&self, done: u64) -> bool {
        self.0.set_position(done);
        check_stop().is_ok()
    }
}

/// A bar for work of known length; drawn on the standard error, and only if that is a terminal.
pub fn bar(what: &'static str, length: u64) -> ProgressBar {
    let bar = hidden_if_asked(ProgressBar::new(length).with_message(what));
    bar.set_style(style("{msg:<22} {wide_bar} {percent:>3} %  {eta} left"));
    if let Some(observer) = observer() {
        observer.show(&bar);
    }
    bar
}

/// A bar for one of several things that are trained one after the other.
pub fn named(what: &'static str, length: u64) -> ProgressBar {
    let bar = hidden_if_asked(ProgressBar::new(length).with_prefix(what).with_message("begins"));
    bar.set_style(style("{prefix:<10} {msg:<44} {wide_bar} {percent:>3} %"));
    bar
}

/// A spinner for work of unknown length.
pub fn spinner(what: &'static str) -> ProgressBar {
    let spinner = hidden_if_asked(ProgressBar::new_spinner().with_message(what));
    spinner.set_style(style("{spinner} {msg:<22} {human_pos}  {elapsed}"));
    match observer() {
        Some(observer) => observer.show(&spinner),
        None => spinner.enable_steady_tick(Duration::from_millis(120)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_sees_how_far_it_is_and_can_stop_it() {
        let observer = Arc::new(Observer::default());
        assert_eq!(observer.progress(), None);
        let stopped = observer.work(|| {
            let bar = bar("counting", 3);
            bar.set_position(2);
            assert_eq!(check_stop(), Ok(()));
            let shown = observer.progress();
            let expected = Progress { what: "counting".into(), done: 2, total: Some(3) };
            assert_eq!(shown, Some(expected));
            observer.stop();
            check_stop()
        });
        assert_eq!(stopped, Err(Stopped));
        // Other work is none of its business.
        assert_eq!(check_stop(), Ok(()));
    }
}
