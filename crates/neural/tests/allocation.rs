//! After a first step, training allocates nothing.
//!
//! The counting allocator needs unsafe code: it hands every call on to the system's allocator
//! unchanged.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use neural::{
    Adam, Average, Decay, DropoutRng, Fusion, Layer, Learner, Plan, Sparse, Squared, StgcnShape,
    clip_norm, head, scaled_laplacian, stgcn,
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to `System` with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn training_allocates_nothing_after_the_first_step() {
    let road: Vec<_> = (1..17).map(|n| (n - 1, n, 0.9)).collect();
    let laplacian = scaled_laplacian(&Sparse::new(17, &road).unwrap(), 1.0);
    let part = |channels| stgcn(&StgcnShape::paper(channels), &laplacian).unwrap();
    let joint = Fusion::new(head(18, 272, 34)).with("host", part(1)).with("guest", part(2));
    let mut learner = Learner::new(joint, 1, Plan::default());
    let mut adam = Adam::new(learner.parameters().len(), Decay::InGradient(1e-3));
    let mut average = Average::new(learner.parameters(), 0.99);
    let x = vec![0.5; 128 * learner.model().input_len()];
    let mut y = vec![0.0; 128 * 34];
    let (target, weights) = (vec![0.1; 128 * 34], vec![1.0; 34]);

    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    // Inside the pool: entering it from outside queues a job, which allocates now and then.
    let allocations = pool.install(|| {
        let mut before = 0;
        for step in 0..6 {
            if step == 1 {
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
            let rng = Some(DropoutRng { seed: 1, step, first_sample: 0 });
            learner.train(&x, &Squared::new(&target, &weights), rng);
            clip_norm(learner.gradient_mut(), 1.0);
            learner.step(&mut adam, 3e-4);
            average.update(learner.parameters());
            learner.infer(&x, &mut y);
            learner.forward(&x, &mut y, rng);
            learner.backward(&x, &target, None, rng);
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    });
    assert_eq!(allocations, 0);
}
