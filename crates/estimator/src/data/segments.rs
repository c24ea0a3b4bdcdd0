//! The order in which samples are learned from: central training and a federation draw alike.
//!
//! A traffic model ties consecutive steps together, so samples are taken in *segments* of T
//! consecutive steps, seen alike, none of which crosses a gap. Segments are shuffled, what is inside
//! stays. With T = 1 that is a plain shuffle.

use neural::hash;
use neural::random::shuffle;

use traffic::Window;

/// Samples as segments of some length, one after the other: each run of that many is a segment.
///
/// A run of consecutive steps is cut from its first step on; where its length is no multiple, the last
/// segment ends with it and shares samples with the one before. Shorter runs are left out.
pub fn segments(samples: &[Window], length: usize) -> Vec<Window> {
    let length = length.max(1);
    if length == 1 {
        return samples.to_vec();
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by_key(|sample| (sample.view, sample.last));
    let mut all = Vec::with_capacity(sorted.len());
    for run in sorted.chunk_by(|one, next| one.leads_to(*next)) {
        let whole = run.chunks_exact(length);
        let rest = whole.remainder().len();
        whole.for_each(|segment| all.extend_from_slice(segment));
        if rest > 0 && run.len() > length {
            all.extend_from_slice(&run[run.len() - length..]);
        }
    }
    all
}

/// The order of an epoch, from 1, of samples that lie in segments of some length.
pub fn epoch_order<S: Copy>(samples: &[S], length: usize, seed: u64, epoch: u64) -> Vec<S> {
    let mut segments: Vec<&[S]> = samples.chunks(length.max(1)).collect();
    shuffle(&mut segments, hash([seed, epoch]));
    segments.concat()
}

/// Samples of a batch: as many as are wanted, in whole segments, and at least one of these.
pub fn whole_batch(wanted: usize, length: usize) -> usize {
    let length = length.max(1);
    (wanted / length).max(1) * length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use traffic::Step;

    use super::*;
    use traffic::FleetView;

    fn at(view: u16, last: i64) -> Window {
        Window { last: Step(last), view: FleetView(view) }
    }

    #[test]
    fn no_segment_crosses_a_gap_or_mixes_views() {
        let samples: Vec<Window> =
            [0, 1, 2, 3, 4, 7, 8, 20].iter().flat_map(|&step| [at(1, step), at(2, step)]).collect();
        let of_view = |view| [0, 1, 2, 2, 3, 4].map(|step| at(view, step));
        assert_eq!(segments(&samples, 3), [of_view(1), of_view(2)].concat());
        assert_eq!(segments(&samples, 1), samples);
        assert_eq!(segments(&samples, 6), []);
    }

    #[test]
    fn segments_of_one_are_shuffled_as_samples_are() {
        let samples: Vec<u32> = (0..50).collect();
        let mut expected = samples.clone();
        shuffle(&mut expected, hash([7, 3]));
        assert_eq!(epoch_order(&samples, 1, 7, 3), expected);
        assert_ne!(epoch_order(&samples, 1, 7, 4), expected);
    }

    proptest! {
        /// Whatever the runs: segments are whole, hold every sample of a run that is long enough, and
        /// stay whole when they are shuffled.
        #[test]
        fn segments_are_whole(
            gaps in prop::collection::vec(1i64..4, 0..60),
            length in 1usize..8,
            seed in any::<u64>(),
        ) {
            let mut last = 0;
            let samples: Vec<Window> = gaps.iter().map(|gap| { last += gap; at(0, last) }).collect();
            let cut = segments(&samples, length);
            let order = epoch_order(&cut, length, seed, 1);
            prop_assert_eq!(order.len() % length, 0);
            for segment in order.chunks(length) {
                prop_assert!(segment.windows(2).all(|pair| pair[0].leads_to(pair[1])));
            }
            for run in samples.chunk_by(|one, next| one.leads_to(*next)) {
                let held = run.iter().all(|sample| order.contains(sample));
                let any = run.iter().any(|sample| order.contains(sample));
                prop_assert_eq!((held, any), (run.len() >= length, run.len() >= length));
            }
        }
    }

    #[test]
    fn batches_hold_whole_segments() {
        assert_eq!([128, 100, 5].map(|wanted| whole_batch(wanted, 12)), [120, 96, 12]);
        assert_eq!(whole_batch(128, 1), 128);
    }
}
