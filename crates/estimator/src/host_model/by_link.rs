//! Gradients of a host's model whose links do not hear of each other, link by link.
//!
//! A head without message passing computes density and flow of a link from what it is given of that link and from
//! what is the same for all of them. So the gradient of a link's estimate is that of a model of this link alone,
//! with the same weights: a seventeenth of the work, in a network of seventeen links.
//!
//! ```text
//! x = [same for all | of each link | flag | of each link …]   ►   x_l = [same for all | of l | flag | of l …]
//! ```

use neural::{Fusion, Layer, Layout, Learner, Noise, Plan, PulledBack};
use rayon::prelude::*;

use crate::architecture::{HostShape, Seat};
use crate::model_error::ModelError;

/// The model of one link.
pub(super) struct ByLink {
    links: usize,
    learner: Learner<Fusion>,
    parameters: Vec<Piece>,
    inputs: Vec<Piece>,
}

/// A run of numbers of the one link's model, and where they are in the whole.
struct Piece {
    /// In the whole: of the first link, or of all.
    whole: usize,
    /// In the model of one link.
    own: usize,
    len: usize,
    /// Whether each link has its own.
    of_link: bool,
}

impl Piece {
    fn at(&self, link: usize) -> usize {
        self.whole + if self.of_link { link * self.len } else { 0 }
    }
}

impl ByLink {
    /// For a model of this shape with these parameters; none if its links hear of each other.
    pub fn of(shape: &HostShape, links: usize, whole: &Layout) -> Result<Option<Self>, ModelError> {
        let Some(model) = shape.build_link()? else { return Ok(None) };
        let own = model.layout();
        let parts = whole.parameters().iter().zip(own.parameters());
        let parameters = parts.map(|(whole, own)| Piece {
            whole: whole.range.start,
            own: own.range.start,
            len: own.range.len(),
            of_link: whole.range.len() != own.range.len(),
        });
        let parameters = parameters.collect();
        let numbers = |seat: &Seat| seat.crossing.len(1);
        let given = shape.seats.iter().flat_map(|seat| [(1, false), (numbers(seat), true)]);
        let lens = [(shape.shared, false), (shape.channels, true)].into_iter().chain(given);
        let (mut whole, mut own) = (0, 0);
        let inputs = lens.map(|(len, of_link)| {
            let piece = Piece { whole, own, len, of_link };
            whole += if of_link { links * len } else { len };
            own += len;
            piece
        });
        let inputs = inputs.collect();
        let learner = Learner::new(model, 0, Plan::default());
        Ok(Some(Self { links, learner, parameters, inputs }))
    }

    /// As [`Learner::pull_back`] of the whole model with these parameters does it, for directions that are one
    /// link's density and flow each: `links` says whose, `slopes` how much of either, `[sample, direction]`.
    pub fn pull_back(
        &mut self,
        parameters: &[f32],
        x: &[f32],
        noise: Noise,
        (links, slopes): (&[usize], &[[f32; 2]]),
    ) -> PulledBack {
        let directions = links.len();
        let samples = slopes.len() / directions.max(1);
        let (width, each) = (x.len() / samples.max(1), parameters.len());
        let mut pulled = PulledBack {
            parameters: vec![0.0; samples * directions * each],
            inputs: vec![0.0; samples * directions * width],
        };
        let own_width = self.learner.model().input_len();
        let mut own_x = vec![0.0; samples * own_width];
        for link in 0..self.links {
            let own: Vec<usize> = (0..directions).filter(|&at| links[at] == link).collect();
            if own.is_empty() {
                continue;
            }
            self.learner.update(|to, _| {
                for piece in &self.parameters {
                    let from = &parameters[piece.at(link)..][..piece.len];
                    to[piece.own..][..piece.len].copy_from_slice(from);
                }
            });
            for (to, x) in own_x.chunks_exact_mut(own_width).zip(x.chunks_exact(width)) {
                for piece in &self.inputs {
                    to[piece.own..][..piece.len].copy_from_slice(&x[piece.at(link)..][..piece.len]);
                }
            }
            let of_link =
                self.learner.pull_back(&own_x, Some(noise), own.len(), |sample, i, dy| {
                    dy.copy_from_slice(&slopes[sample * directions + own[i]]);
                });
            let of = |all: &mut [f32], each: usize, from: &[f32], pieces: &[Piece]| {
                let from_each = from.len() / (samples * own.len()).max(1);
                let samples = all.par_chunks_mut(directions * each);
                let samples = samples.zip(from.par_chunks(own.len() * from_each));
                samples.for_each(|(all, from)| {
                    for (at, from) in own.iter().zip(from.chunks_exact(from_each)) {
                        let to = &mut all[at * each..][..each];
                        for piece in pieces {
                            let from = &from[piece.own..][..piece.len];
                            to[piece.at(link)..][..piece.len].copy_from_slice(from);
                        }
                    }
                });
            };
            of(&mut pulled.parameters, each, &of_link.parameters, &self.parameters);
            of(&mut pulled.inputs, width, &of_link.inputs, &self.inputs);
        }
        pulled
    }
}

#[cfg(test)]
mod tests {
    use neural::Noise;
    use traffic::corridor;

    use crate::architecture::{Architecture, HostShape};
    use crate::host_model::HostModel;
    use crate::party_block::UpdateRule;
    use crate::recipe::Recipe;
    use crate::sizes::Sizes;
    use crate::test_models::{guests_of, some};

    fn host(shape: &HostShape) -> HostModel {
        let rule = UpdateRule::of(&Recipe::of(Architecture::Link));
        let mut host = HostModel::new(shape, &corridor().unwrap(), 5, rule).unwrap();
        // Away from the start, where many weights are zero and would hide others.
        let moved = some(host.parameter_count(), 1);
        host.block.learner.update(|parameters, _| {
            parameters.iter_mut().zip(moved).for_each(|(p, by)| *p += 0.3 * by);
        });
        host
    }

    /// The gradients of each link's model are those of the whole, with guests that are absent now and then, and
    /// entries of some links only.
    #[test]
    fn link_by_link_they_are_the_gradients_of_the_whole() {
        let mut shape = guests_of(Sizes::default().for_products(), 3).host;
        shape.party_dropout = 0.3;
        let mut host = host(&shape);
        let samples = 7;
        let mut x = some(samples * host.block.model().input_len(), 2);
        let width = host.block.model().input_len();
        for (sample, x) in x.chunks_exact_mut(width).enumerate() {
            host.seats.iter().for_each(|seat| x[seat.flag] = f32::from(u8::from(sample != 3)));
        }
        let links = [3, 0, 16, 3, 7];
        let slopes: Vec<[f32; 2]> = some(2 * samples * links.len(), 3).as_chunks::<2>().0.to_vec();
        let noise = Noise { seed: 1, step: 2, first_sample: 0 };
        let learner = &host.block.learner;
        let expected = learner.pull_back(&x, Some(noise), links.len(), |sample, number, dy| {
            dy[2 * links[number]..][..2].copy_from_slice(&slopes[sample * links.len() + number]);
        });
        let by_link = host.by_link.as_mut().unwrap();
        let found = by_link.pull_back(learner.parameters(), &x, noise, (&links, &slopes));
        let (all, zeros) = (found.parameters.len(), found.parameters.iter().filter(|g| **g == 0.0));
        assert!(zeros.count() < 4 * all / 5, "gradients that are mostly nothing");
        let pairs = found.parameters.iter().zip(&expected.parameters);
        for (found, expected) in pairs.chain(found.inputs.iter().zip(&expected.inputs)) {
            // Sums of some ten numbers of about 1, perhaps in another order.
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert_eq!(found.parameters.len(), expected.parameters.len());
        assert_eq!(found.inputs.len(), expected.inputs.len());
    }

    #[test]
    fn links_that_hear_of_each_other_are_not_taken_apart() {
        let shape = guests_of(Sizes { units: 4, ..Sizes::default() }, 1).host;
        assert!(host(&shape).by_link.is_none());
    }
}
