//! Decoding on a thread of its own, a few batches ahead of whoever uses them.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

/// Batches that may wait: enough that neither side stands still while the other waits for a
/// processor, few enough to stay small.
const WAITING: usize = 8;

/// Batches of something. The thread ends with them, at an error, or when this is dropped.
pub(crate) struct ReadAhead<B, E> {
    batches: Receiver<Result<B, E>>,
    used: Sender<B>,
}

impl<B: Default + Send + 'static, E: Send + 'static> ReadAhead<B, E> {
    /// Starts to read. `read` replaces what is in a used batch, and returns false at the end.
    pub(crate) fn start(
        mut read: impl FnMut(&mut B) -> Result<bool, E> + Send + 'static,
    ) -> io::Result<Self> {
        let ((send, batches), (used, reuse)) = (sync_channel(WAITING), channel::<B>());
        let decode = move || {
            loop {
                let mut batch = reuse.try_recv().unwrap_or_default();
                let batch = match read(&mut batch) {
                    Ok(false) => return,
                    Ok(true) => Ok(batch),
                    Err(error) => Err(error),
                };
                let failed = batch.is_err();
                if send.send(batch).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("decode".into()).spawn(decode)?;
        Ok(Self { batches, used })
    }

    /// Puts the next batch in the place of the last one; false at the end.
    pub(crate) fn next(&mut self, batch: &mut B) -> Result<bool, E> {
        let Ok(next) = self.batches.recv() else { return Ok(false) };
        let last = std::mem::replace(batch, next?);
        // The thread may have ended already: then nobody needs it.
        let _ = self.used.send(last);
        Ok(true)
    }
}
