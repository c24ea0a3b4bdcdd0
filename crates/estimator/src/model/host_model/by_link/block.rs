//! Gradients of some samples, link by link.

use std::ops::Range;

use neural::{DropoutRng, Layer, OneSample};

use super::{ByLink, Context, along};

/// The gradients, and the memory for computing them.
pub(super) struct Block {
    samples: Range<usize>,
    /// Of the whole model: `[parameter, (sample, entry)]`.
    parameters: Vec<f32>,
    /// By density and flow, of the inputs of each link's head: `[sample, link, input]`.
    pub inputs: Vec<[f32; 2]>,
    context: Option<ContextWork>,
    head: OneSample,
    /// Input of one link's head.
    x: Vec<f32>,
    by_density: Gradient,
    by_flow: Gradient,
}

/// Of one link's head.
struct Gradient {
    parameters: Vec<f32>,
    inputs: Vec<f32>,
}

/// Of one sample.
struct ContextWork {
    one: OneSample,
    /// Gradients of its numbers: `[number, parameter]`.
    gradients: Vec<f32>,
    /// How the loss depends on its numbers by each entry: `[number, entry]`.
    slopes: Vec<f32>,
}

impl Block {
    pub(super) fn new(of: &ByLink) -> Self {
        let work = |context: &Context| ContextWork {
            one: OneSample::new(&context.layer),
            gradients: vec![0.0; context.layer.output_len() * context.own.parameters.len()],
            slopes: Vec::new(),
        };
        let head = &of.head;
        let gradient = || Gradient {
            parameters: vec![0.0; head.layout().len()],
            inputs: vec![0.0; head.input_len()],
        };
        Self {
            samples: 0..0,
            parameters: Vec::new(),
            inputs: Vec::new(),
            context: of.context.as_ref().map(work),
            head: OneSample::new(head),
            x: vec![0.0; head.input_len()],
            by_density: gradient(),
            by_flow: gradient(),
        }
    }

    /// Gradients of one parameter of the whole model, sample by sample.
    pub(super) fn row(&self, parameter: usize, entries: usize) -> impl Iterator<Item = &[f32]> {
        let each = self.samples.len() * entries;
        self.parameters[parameter * each..][..each].chunks_exact(entries.max(1))
    }

    pub(super) fn fill(
        &mut self,
        of: &ByLink,
        x: &[f32],
        samples: Range<usize>,
        noise: DropoutRng,
    ) {
        self.samples = samples;
        let (entries, links, inputs) = (&of.entries, of.links.len(), of.head.input_len());
        // Whatever has no slope has no gradient.
        self.parameters.clear();
        self.parameters.resize(of.count * self.samples.len() * entries.all, 0.0);
        self.inputs.clear();
        self.inputs.resize(self.samples.len() * links * inputs, [0.0; 2]);
        for (place, x) in x.chunks_exact(of.width.max(1)).enumerate() {
            let sample = self.samples.start + place;
            let noise = DropoutRng { first_sample: noise.first_sample + sample as u64, ..noise };
            let slopes = entries.slopes_of(sample);
            self.begin_context(of, x, noise);
            for (link, own) in entries.by_link.iter().enumerate() {
                if own.iter().all(|&at| slopes[at] == [0.0; 2]) {
                    continue;
                }
                self.pull_back(of, link, x, noise);
                let to = &mut self.inputs[(place * links + link) * inputs..][..inputs];
                let by = self.by_density.inputs.iter().zip(&self.by_flow.inputs);
                to.iter_mut().zip(by).for_each(|(to, (density, flow))| *to = [*density, *flow]);
                for &at in own {
                    self.write_column(of, link, slopes[at], (place, at));
                }
            }
            self.write_context(of, place);
        }
    }

    /// What is the same for all links of a sample.
    fn begin_context(&mut self, of: &ByLink, x: &[f32], noise: DropoutRng) {
        let (Some(context), Some(work)) = (&of.context, &mut self.context) else { return };
        let (layer, pass) = (&context.layer, context.own.pass(noise));
        let (x, len) = (&x[..layer.input_len()], of.context_len());
        self.x[..len].copy_from_slice(work.one.forward(layer, &pass, x));
        let gradients = work.gradients.chunks_exact_mut(context.own.parameters.len());
        for (number, gradient) in gradients.enumerate() {
            let direction = |dy: &mut [f32]| dy[number] = 1.0;
            work.one.backward(layer, &pass, x, direction, None, gradient);
        }
        work.slopes.clear();
        work.slopes.resize(len * of.entries.all, 0.0);
    }

    /// Density and flow of one link.
    fn pull_back(&mut self, of: &ByLink, link: usize, x: &[f32], noise: DropoutRng) {
        for piece in &of.inputs {
            self.x[piece.own..][..piece.len].copy_from_slice(&x[piece.at(link)..][..piece.len]);
        }
        let pass = of.links[link].pass(noise);
        self.head.forward(&of.head, &pass, &self.x);
        for (output, gradient) in [&mut self.by_density, &mut self.by_flow].into_iter().enumerate()
        {
            let direction = |dy: &mut [f32]| dy[output] = 1.0;
            let (dx, gradient) = (Some(&mut *gradient.inputs), &mut *gradient.parameters);
            self.head.backward(&of.head, &pass, &self.x, direction, dx, gradient);
        }
    }

    /// The gradients of a link's head, and of the context's numbers, by one entry.
    fn write_column(
        &mut self,
        of: &ByLink,
        link: usize,
        slopes: [f32; 2],
        (place, entry): (usize, usize),
    ) {
        let columns = self.samples.len() * of.entries.all;
        for piece in &of.parameters {
            let mut to = piece.at(link) * columns + place * of.entries.all + entry;
            let by_density = &self.by_density.parameters[piece.own..][..piece.len];
            let by_flow = &self.by_flow.parameters[piece.own..][..piece.len];
            for (density, flow) in by_density.iter().zip(by_flow) {
                self.parameters[to] = along(slopes, [*density, *flow]);
                to += columns;
            }
        }
        let Some(work) = &mut self.context else { return };
        for (number, to) in work.slopes.chunks_exact_mut(of.entries.all).enumerate() {
            let gradient = [self.by_density.inputs[number], self.by_flow.inputs[number]];
            to[entry] = along(slopes, gradient);
        }
    }

    /// The gradients of the context's parameters, by all entries of a sample.
    fn write_context(&mut self, of: &ByLink, place: usize) {
        let (Some(context), Some(work)) = (&of.context, &self.context) else { return };
        let (entries, parameters) = (of.entries.all, context.own.parameters.len());
        let columns = self.samples.len() * entries;
        for parameter in 0..parameters {
            let to = &mut self.parameters[parameter * columns + place * entries..][..entries];
            let slopes = work.slopes.chunks_exact(entries.max(1));
            for (gradient, slopes) in work.gradients.chunks_exact(parameters).zip(slopes) {
                let gradient = gradient[parameter];
                to.iter_mut().zip(slopes).for_each(|(to, slope)| *to += gradient * slope);
            }
        }
    }
}
