//! Ground truth on a share of the samples, as a measurement of everything.

use std::collections::BTreeMap;

use traffic::{LinkState, Step};

use super::measurement::States;
use traffic::Window;

/// Labels of some steps.
#[derive(Clone, Debug, PartialEq)]
pub struct SomeLabels {
    links: usize,
    /// 1/σ² of density and flow: how much a label's error counts.
    weights: [f64; 2],
    states: BTreeMap<Step, Vec<LinkState>>,
}

impl SomeLabels {
    /// The states of all links in some steps, with one over the variance of density and flow.
    pub fn new(
        links: usize,
        weights: [f64; 2],
        states: impl IntoIterator<Item = (Step, Vec<LinkState>)>,
    ) -> Self {
        let states = states.into_iter().filter(|(_, states)| states.len() == links);
        Self { links, weights, states: states.collect() }
    }

    pub(super) fn links(&self) -> usize {
        self.links
    }

    pub(super) fn add(
        &self,
        samples: &[Window],
        states: &States<&[f64]>,
        gradient: &mut States<&mut [f64]>,
        losses: &mut [f64],
    ) {
        for (at, (sample, loss)) in samples.iter().zip(losses).enumerate() {
            let Some(labels) = self.states.get(&sample.last) else { continue };
            for (place, label) in (at * self.links..).zip(labels) {
                let density = states.density[place] - label.density.get();
                let flow = states.flow[place] - label.flow.get();
                gradient.density[place] += self.weights[0] * density;
                gradient.flow[place] += self.weights[1] * flow;
                *loss += 0.5 * (self.weights[0] * density.powi(2) + self.weights[1] * flow.powi(2));
            }
        }
    }
}
