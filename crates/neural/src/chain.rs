//! Layers one after the other.
//!
//! ```
//! use neural::{Activation, Chain, Learner, Linear, Plan};
//! let chain = Chain::new()
//!     .then("hidden", Linear::new(1, 1, 1).then(Activation::Relu))
//!     .then("out", Linear::new(1, 1, 1));
//! let mut chain = Learner::new(chain, 0, Plan::default());
//! chain.set_parameters(&[2.0, -1.0, 3.0, 0.5]).unwrap(); // max(0, 2x − 1)·3 + 0.5
//! let mut y = [0.0; 2];
//! chain.infer(&[2.0, 0.0], &mut y); // two samples
//! assert_eq!(y, [9.5, 0.5]);
//! ```

use std::ops::Range;

use crate::layer::{BackwardPass, Given, Layer, Memory, Pass, carve};
use crate::layout::Layout;
use crate::random::Draw;

/// The layers, see the [module](self).
#[derive(Default)]
pub struct Chain {
    links: Vec<ChainLink>,
    layout: Layout,
    prepared: usize,
}

struct ChainLink {
    layer: Box<dyn Layer>,
    parameters: Range<usize>,
    prepared: Range<usize>,
}

impl Chain {
    /// An empty chain.
    pub fn new() -> Self {
        Chain::default()
    }

    /// Appends a layer; its parameters get this name before theirs.
    ///
    /// # Panics
    /// If the layer does not take what the last one gives.
    pub fn then(mut self, name: &str, layer: impl Layer + 'static) -> Self {
        if let Some(last) = self.links.last() {
            assert_eq!(
                last.layer.output_len(),
                layer.input_len(),
                "layer {name} does not fit the one before it"
            );
        }
        let parameters = self.layout.add_part(name, &layer.layout());
        let prepared = self.prepared..self.prepared + layer.prepared_len();
        self.prepared = prepared.end;
        self.links.push(ChainLink { layer: Box::new(layer), parameters, prepared });
        self
    }

    /// Values of one sample in the widest place between two layers.
    fn widest(&self) -> usize {
        self.links.iter().skip(1).map(|link| link.layer.input_len()).max().unwrap_or(0)
    }
}

impl ChainLink {
    fn pass<'a>(&self, pass: &Pass<'a>) -> Pass<'a> {
        pass.part(self.parameters.clone(), self.prepared.clone())
    }
}

impl Layer for Chain {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.links.first().map_or(0, |link| link.layer.input_len())
    }
    fn output_len(&self) -> usize {
        self.links.last().map_or(0, |link| link.layer.output_len())
    }
    fn prepared_len(&self) -> usize {
        self.prepared
    }
    fn saved_len(&self, samples: usize) -> usize {
        let own: usize = self.links.iter().map(|link| link.layer.saved_len(samples)).sum();
        let between: usize = self.links.iter().skip(1).map(|link| link.layer.input_len()).sum();
        own + samples * between
    }
    fn scratch_len(&self, samples: usize) -> usize {
        let own = self.links.iter().map(|link| link.layer.scratch_len(samples)).max();
        own.unwrap_or(0) + 2 * samples * self.widest()
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        for link in &self.links {
            link.layer.initialise(draw, &mut parameters[link.parameters.clone()]);
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        for link in &self.links {
            let (from, to) = (link.parameters.clone(), link.prepared.clone());
            link.layer.prepare(&parameters[from], &mut prepared[to]);
        }
    }

    /// `saved` holds, layer by layer, what the layer keeps and then its output.
    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let Some((last, before)) = self.links.split_last() else { return };
        let Memory { mut saved, scratch } = memory;
        let mut x = x;
        for link in before {
            let (own, rest) = saved.split_at_mut(link.layer.saved_len(pass.samples));
            let (between, rest) = rest.split_at_mut(pass.samples * link.layer.output_len());
            let memory = Memory { saved: own, scratch: &mut *scratch };
            link.layer.forward(&link.pass(pass), x, between, memory);
            (x, saved) = (between, rest);
        }
        last.layer.forward(&last.pass(pass), x, y, Memory { saved, scratch });
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, memory } = work;
        let wide = pass.samples * self.widest();
        let (gradients, scratch) = memory.scratch.split_at_mut(2 * wide);
        let [mut next, mut current] = carve(gradients, [wide, wide]);
        let mut saved = &mut memory.saved[..self.saved_len(pass.samples)];
        let mut y = given.y;
        for (i, link) in self.links.iter().enumerate().rev() {
            let layer = &link.layer;
            let (rest, own) = saved.split_at_mut(saved.len() - layer.saved_len(pass.samples));
            let input = pass.samples * layer.input_len();
            let (x, rest): (&[f32], _) = if i == 0 {
                (given.x, rest)
            } else {
                let (rest, between) = rest.split_at_mut(rest.len() - input);
                (between, rest)
            };
            let dx = if i == 0 { dx.take() } else { Some(&mut next[..input]) };
            let dy = if i + 1 == self.links.len() { &mut *dy } else { &mut current[..y.len()] };
            let gradient = &mut gradient[link.parameters.clone()];
            let memory = Memory { saved: own, scratch: &mut *scratch };
            layer.backward(
                &link.pass(pass),
                BackwardPass { given: Given { x, y }, dy, dx, gradient, memory },
            );
            std::mem::swap(&mut next, &mut current);
            (y, saved) = (x, rest);
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        for link in &self.links {
            link.layer.finish_gradient(&mut gradient[link.parameters.clone()]);
        }
    }
}
