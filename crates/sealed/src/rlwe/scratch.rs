//! Scratch buffers for multiplications, pooled: allocating new memory costs as much time as a product.

use std::sync::{Mutex, PoisonError};

use super::accumulate::{Expanded, Sums};
use super::hiding::Hiding;
use super::ring::Poly;

/// What one thread needs for one polynomial of products.
pub(super) struct Work {
    pub(super) weights: Poly,
    pub(super) scratch: Poly,
    pub(super) sums: Sums,
    pub(super) hiding: Hiding,
    /// Made when a block is not kept with both halves.
    pub(super) ciphertext: Option<Expanded>,
}

/// Work that nobody does at the moment: at most as much as threads have done at once.
#[derive(Default)]
pub(super) struct ScratchPool(Mutex<Vec<Work>>);

impl ScratchPool {
    /// Work without sums.
    pub(super) fn take(&self) -> Work {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut work = idle.unwrap_or_else(|| {
            let (weights, scratch) = (Poly::zero(), Poly::zero());
            Work { weights, scratch, sums: Sums::new(), hiding: Hiding::new(), ciphertext: None }
        });
        work.sums.clear();
        work
    }

    pub(super) fn give_back(&self, work: Work) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}
