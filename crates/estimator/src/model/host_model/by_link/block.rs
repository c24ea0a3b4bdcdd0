//! Gradients of some samples, link by link.

use std::ops::Range;

use neural::{DropoutRng, Layer, OneSample};

use super::{ByLink, Columns, Context, Kept, along};

/// The gradients, and the memory for computing them.
pub(super) struct Block {
    samples: Range<usize>,
    /// Of parameters that all links share: `[parameter, (sample, entry)]`.
    shared: Vec<f32>,
    /// Of parameters that the entry's link has of its own: `[sample, entry, parameter]`.
    of_link: Vec<f32>,
    /// Of the context's parameters: `[sample, number, parameter]`; and how its numbers depend on entries,
    /// `[sample, number, entry]`.
    context_gradients: Vec<f32>,
    context_slopes: Vec<f32>,
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
            shared: Vec::new(),
            of_link: Vec::new(),
            context_gradients: Vec::new(),
            context_slopes: Vec::new(),
            inputs: Vec::new(),
            context: of.context.as_ref().map(work),
            head: OneSample::new(head),
            x: vec![0.0; head.input_len()],
            by_density: gradient(),
            by_flow: gradient(),
        }
    }

    /// Whether an entry of these columns has a gradient by a parameter of the whole model.
    pub(super) fn touches(&self, of: &ByLink, parameter: usize, columns: &Columns) -> bool {
        let mut samples = 0..self.samples.len();
        let all = of.entries.all;
        match of.kept[parameter] {
            Kept::Context(own) => samples.any(|place| {
                columns.range().any(|entry| self.of_context(of, own, (place, entry)) != 0.0)
            }),
            Kept::Shared(own) => samples.any(|place| {
                let row = &self.shared[(own * self.samples.len() + place) * all..][..all];
                columns.of(row).iter().any(|gradient| *gradient != 0.0)
            }),
            Kept::OfLink(link, own) => samples.any(|place| {
                let mut entries = of.entries.of(link, columns);
                entries.any(|at| self.of_link[(place * all + at) * of.of_link + own] != 0.0)
            }),
        }
    }

    /// Gradients of a parameter of the whole model by the entries of these columns, `[sample, entry]`.
    pub(super) fn write_row(
        &self,
        of: &ByLink,
        parameter: usize,
        columns: &Columns,
        to: &mut [f64],
    ) {
        let all = of.entries.all;
        for (place, to) in to.chunks_exact_mut(columns.entries.max(1)).enumerate() {
            match of.kept[parameter] {
                Kept::Context(own) => {
                    for (to, entry) in to.iter_mut().zip(columns.range()) {
                        *to = f64::from(self.of_context(of, own, (place, entry)));
                    }
                }
                Kept::Shared(own) => {
                    let row = &self.shared[(own * self.samples.len() + place) * all..][..all];
                    let pairs = to.iter_mut().zip(columns.of(row));
                    pairs.for_each(|(to, from)| *to = f64::from(*from));
                }
                Kept::OfLink(link, own) => {
                    to.fill(0.0);
                    for at in of.entries.of(link, columns) {
                        let from = self.of_link[(place * all + at) * of.of_link + own];
                        to[at - columns.first] = f64::from(from);
                    }
                }
            }
        }
    }

    /// The gradient of one of the context's parameters by an entry of a sample.
    fn of_context(&self, of: &ByLink, own: usize, (place, entry): (usize, usize)) -> f32 {
        let Some(context) = &of.context else { return 0.0 };
        let (all, parameters) = (of.entries.all, context.own.parameters.len());
        let numbers = place * of.context_len()..(place + 1) * of.context_len();
        numbers.fold(0.0, |sum, number| {
            let gradient = self.context_gradients[number * parameters + own];
            sum + gradient * self.context_slopes[number * all + entry]
        })
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
        let columns = self.samples.len() * entries.all;
        for (to, each) in [(&mut self.shared, of.shared), (&mut self.of_link, of.of_link)] {
            to.clear();
            to.resize(each * columns, 0.0);
        }
        self.context_gradients.clear();
        self.context_slopes.clear();
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
            if let Some(work) = &self.context {
                self.context_gradients.extend(&work.gradients);
                self.context_slopes.extend(&work.slopes);
            }
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
        let at = place * of.entries.all + entry;
        let columns = self.samples.len() * of.entries.all;
        for piece in &of.parameters {
            // Pieces are kept in this order, one after the other.
            let (to, mut next, step) = match of.kept[piece.at(link)] {
                Kept::OfLink(_, own) => (&mut self.of_link, at * of.of_link + own, 1),
                Kept::Shared(own) | Kept::Context(own) => {
                    (&mut self.shared, own * columns + at, columns)
                }
            };
            let by_density = &self.by_density.parameters[piece.own..][..piece.len];
            let by_flow = &self.by_flow.parameters[piece.own..][..piece.len];
            for (density, flow) in by_density.iter().zip(by_flow) {
                to[next] = along(slopes, [*density, *flow]);
                next += step;
            }
        }
        let Some(work) = &mut self.context else { return };
        for (number, to) in work.slopes.chunks_exact_mut(of.entries.all).enumerate() {
            let gradient = [self.by_density.inputs[number], self.by_flow.inputs[number]];
            to[entry] = along(slopes, gradient);
        }
    }
}
