//! Rows of numbers by window: the one trait through which training reads data.

use std::sync::Arc;

use rayon::prelude::*;
use traffic::Window;

/// Rows of numbers by window: inputs of a sub-model, or targets of the loss.
pub trait WindowSource: Send + Sync {
    /// Numbers of a row.
    fn row_len(&self) -> usize;
    /// Writes the row of a window that the source holds.
    fn write_row(&self, window: Window, to: &mut [f32]);
}

impl<S: WindowSource + ?Sized> WindowSource for Arc<S> {
    fn row_len(&self) -> usize {
        (**self).row_len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        (**self).write_row(window, to);
    }
}

impl<S: WindowSource + ?Sized> WindowSource for &S {
    fn row_len(&self) -> usize {
        (**self).row_len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        (**self).write_row(window, to);
    }
}

/// The rows of some windows, side by side.
pub fn gather_rows(source: &impl WindowSource, windows: &[Window], to: &mut Vec<f32>) {
    let each = source.row_len();
    to.resize(windows.len() * each, 0.0);
    let rows = to.par_chunks_exact_mut(each.max(1)).zip(windows).with_min_len(16);
    rows.for_each(|(row, &window)| source.write_row(window, row));
}
