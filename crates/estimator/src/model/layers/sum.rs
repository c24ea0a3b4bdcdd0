//! Two layers on the same input, added: `y = f(x) + g(x)`.

use std::ops::Range;

use neural::{BackwardPass, Draw, Given, Layer, Layout, Memory, Pass, carve};

/// The layer, see the [module](self). Parameters: those of the first, then of the second.
pub(crate) struct Sum {
    layers: [Box<dyn Layer>; 2],
    layout: Layout,
    parameters: [Range<usize>; 2],
    prepared: [Range<usize>; 2],
}

impl Sum {
    /// Of two named layers.
    ///
    /// # Panics
    /// If their inputs or outputs differ in length.
    pub(crate) fn new(
        (first_name, first): (&str, impl Layer + 'static),
        (second_name, second): (&str, impl Layer + 'static),
    ) -> Self {
        assert_eq!(first.input_len(), second.input_len(), "both must take the same input");
        assert_eq!(first.output_len(), second.output_len(), "both must give outputs of one length");
        let mut layout = Layout::default();
        let parameters = [
            layout.add_part(first_name, &first.layout()),
            layout.add_part(second_name, &second.layout()),
        ];
        let middle = first.prepared_len();
        let prepared = [0..middle, middle..middle + second.prepared_len()];
        Sum { layers: [Box::new(first), Box::new(second)], layout, parameters, prepared }
    }

    fn each<'a>(&'a self, pass: &Pass<'a>) -> [(&'a dyn Layer, Pass<'a>, Range<usize>); 2] {
        [0, 1].map(|i| {
            let range = self.parameters[i].clone();
            (&*self.layers[i], pass.part(range.clone(), self.prepared[i].clone()), range)
        })
    }
}

impl Layer for Sum {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.layers[0].input_len()
    }
    fn output_len(&self) -> usize {
        self.layers[0].output_len()
    }
    fn prepared_len(&self) -> usize {
        self.prepared[1].end
    }
    /// Both outputs, then what each layer keeps.
    fn saved_len(&self, samples: usize) -> usize {
        let own: usize = self.layers.iter().map(|layer| layer.saved_len(samples)).sum();
        own + 2 * samples * self.output_len()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        let own = self.layers.iter().map(|layer| layer.scratch_len(samples)).max();
        own.unwrap_or(0) + samples * (self.output_len() + self.input_len())
    }
    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        for (layer, range) in self.layers.iter().zip(&self.parameters) {
            layer.initialise(draw, &mut parameters[range.clone()]);
        }
    }
    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        for ((layer, from), to) in self.layers.iter().zip(&self.parameters).zip(&self.prepared) {
            layer.prepare(&parameters[from.clone()], &mut prepared[to.clone()]);
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let length = y.len();
        y.fill(0.0);
        let (outputs, mut saved) = memory.saved.split_at_mut(2 * length);
        let each = self.each(pass);
        for ((layer, pass, _), own_y) in each.iter().zip(outputs.chunks_exact_mut(length.max(1))) {
            let (own, rest) = saved.split_at_mut(layer.saved_len(pass.samples));
            let memory = Memory { saved: own, scratch: &mut *memory.scratch };
            layer.forward(pass, x, own_y, memory);
            super::add(y, own_y);
            saved = rest;
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, memory } = work;
        let length = dy.len();
        let (outputs, mut saved) = memory.saved.split_at_mut(2 * length);
        let lengths = [length, pass.samples * self.input_len()];
        let (buffers, scratch) = memory.scratch.split_at_mut(lengths.iter().sum());
        let [d_own, dx_own] = carve(buffers, lengths);
        if let Some(dx) = dx.as_deref_mut() {
            dx.fill(0.0);
        }
        let each = self.each(pass);
        for ((layer, pass, range), y) in each.iter().zip(outputs.chunks_exact(length.max(1))) {
            let (own, rest) = saved.split_at_mut(layer.saved_len(pass.samples));
            let memory = Memory { saved: own, scratch: &mut *scratch };
            d_own.copy_from_slice(dy);
            let known = Given { x: given.x, y };
            let wanted = dx.is_some().then_some(&mut *dx_own);
            layer.backward(
                pass,
                BackwardPass {
                    given: known,
                    dy: d_own,
                    dx: wanted,
                    gradient: &mut gradient[range.clone()],
                    memory,
                },
            );
            if let Some(dx) = dx.as_deref_mut() {
                super::add(dx, dx_own);
            }
            saved = rest;
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        for (layer, range) in self.layers.iter().zip(&self.parameters) {
            layer.finish_gradient(&mut gradient[range.clone()]);
        }
    }
}
