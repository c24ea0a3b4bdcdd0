//! Long work without Python's lock: it can be watched and stopped.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fedtse::Observer;
use pyo3::prelude::*;

use crate::errors;

/// How often the calling thread looks for signals and tells how far the work is.
const LOOK: Duration = Duration::from_millis(10);
/// As much as a program's first thread has.
const STACK: usize = 8 << 20;

/// Does something on a thread of its own, and returns or raises what comes of it.
///
/// `progress` is called with what is done, how much of it, and of how much (or none). If it raises, or a
/// signal does (Ctrl-C), the work is told to stop, and what was raised is raised here once it has.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    let watched = Arc::new(Observer::default());
    let ended = Ended::default();
    let mut interrupted = None;
    let result = std::thread::scope(|scope| {
        let run = || {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| watched.work(work)));
            ended.say();
            result
        };
        let thread = std::thread::Builder::new().name("fedtse".into()).stack_size(STACK);
        let worker = thread.spawn_scoped(scope, run)?;
        while !py.detach(|| ended.within(LOOK)) {
            if interrupted.is_none()
                && let Err(error) = look(py, &watched, progress)
            {
                watched.stop();
                interrupted = Some(error);
            }
        }
        Ok::<_, std::io::Error>(py.detach(|| worker.join()))
    })?;
    if let Some(error) = interrupted {
        return Err(error);
    }
    // Short work may have come to its end unseen.
    look(py, &watched, progress)?;
    match result {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(error))) => Err(errors::raised(py, &error)),
        Ok(Err(panic)) | Err(panic) => Err(errors::internal(py, &*panic)),
    }
}

fn look(py: Python<'_>, watched: &Observer, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(call), Some(now)) = (progress, watched.progress()) {
        call.call1((now.what, now.done, now.total))?;
    }
    Ok(())
}

/// Whether the work has ended.
#[derive(Default)]
struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    fn say(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn within(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
