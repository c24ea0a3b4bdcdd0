//! A direct path, let through as far as a gate is open, and a correction.
//!
//! ```text
//! y = a + σ(g)·d      [a | g] = body(x), d = direct(x), each of `outputs` channels per node
//! ```

use std::ops::Range;

use neural::{BackwardPass, Draw, Given, Layer, Layout, Memory, Pass, carve};

/// The layer, see the [module](self). Parameters: those of the body, then of the direct path.
pub(crate) struct Gated<B, D> {
    body: B,
    direct: D,
    outputs: usize,
    layout: Layout,
    parameters: [Range<usize>; 2],
}

impl<B: Layer, D: Layer> Gated<B, D> {
    /// For this many outputs of each node.
    ///
    /// # Panics
    /// If the inputs differ in length, or the body does not give twice the direct path's outputs.
    pub(crate) fn new(body: B, direct: D, outputs: usize) -> Self {
        assert_eq!(body.input_len(), direct.input_len(), "both must take the same input");
        assert_eq!(body.output_len(), 2 * direct.output_len(), "correction and gate");
        let mut layout = Layout::default();
        let parameters =
            [layout.add_part("body", &body.layout()), layout.add_part("direct", &direct.layout())];
        Gated { body, direct, outputs, layout, parameters }
    }

    fn prepared(&self) -> [Range<usize>; 2] {
        let body = self.body.prepared_len();
        [0..body, body..self.prepared_len()]
    }

    fn passes<'a>(&self, pass: &Pass<'a>) -> [Pass<'a>; 2] {
        let [body, direct] = self.parameters.clone();
        let [body_prepared, direct_prepared] = self.prepared();
        [pass.part(body, body_prepared), pass.part(direct, direct_prepared)]
    }

    /// In `saved`: the body's output, the direct path's output, what each keeps.
    fn lengths(&self, samples: usize) -> [usize; 4] {
        [
            samples * self.body.output_len(),
            samples * self.direct.output_len(),
            self.body.saved_len(samples),
            self.direct.saved_len(samples),
        ]
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl<B: Layer, D: Layer> Layer for Gated<B, D> {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.body.input_len()
    }
    fn output_len(&self) -> usize {
        self.direct.output_len()
    }
    fn prepared_len(&self) -> usize {
        self.body.prepared_len() + self.direct.prepared_len()
    }
    fn saved_len(&self, samples: usize) -> usize {
        self.lengths(samples).iter().sum()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        let own = self.body.scratch_len(samples).max(self.direct.scratch_len(samples));
        let [body, direct, ..] = self.lengths(samples);
        own + body + direct + samples * self.input_len()
    }
    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        let [body, direct] = self.parameters.clone();
        self.body.initialise(draw, &mut parameters[body]);
        self.direct.initialise(draw, &mut parameters[direct]);
    }
    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        let [body, direct] = self.parameters.clone();
        let [body_prepared, direct_prepared] = self.prepared();
        self.body.prepare(&parameters[body], &mut prepared[body_prepared]);
        self.direct.prepare(&parameters[direct], &mut prepared[direct_prepared]);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let lengths = self.lengths(pass.samples);
        let [body_y, direct_y, body_saved, direct_saved] = carve(memory.saved, lengths);
        let [body_pass, direct_pass] = self.passes(pass);
        let own = Memory { saved: body_saved, scratch: &mut *memory.scratch };
        self.body.forward(&body_pass, x, body_y, own);
        let own = Memory { saved: direct_saved, scratch: memory.scratch };
        self.direct.forward(&direct_pass, x, direct_y, own);
        let o = self.outputs;
        let rows = y.chunks_exact_mut(o).zip(body_y.chunks_exact(2 * o));
        for ((y, body), direct) in rows.zip(direct_y.chunks_exact(o)) {
            for i in 0..o {
                y[i] = body[i] + sigmoid(body[o + i]) * direct[i];
            }
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, gradient, memory } = work;
        let lengths = self.lengths(pass.samples);
        let [body_y, direct_y, body_saved, direct_saved] = carve(memory.saved, lengths);
        let buffers = [lengths[0], lengths[1], pass.samples * self.input_len()];
        let (own, scratch) = memory.scratch.split_at_mut(buffers.iter().sum());
        let [d_body, d_direct, dx_direct] = carve(own, buffers);
        let o = self.outputs;
        for (row, dy) in dy.chunks_exact(o).enumerate() {
            for i in 0..o {
                let gate = sigmoid(body_y[row * 2 * o + o + i]);
                d_body[row * 2 * o + i] = dy[i];
                d_body[row * 2 * o + o + i] = dy[i] * direct_y[row * o + i] * gate * (1.0 - gate);
                d_direct[row * o + i] = dy[i] * gate;
            }
        }
        let [body_pass, direct_pass] = self.passes(pass);
        let (g_body, g_direct) = gradient.split_at_mut(self.parameters[0].end);
        let wanted = dx.is_some();
        let known = Given { x: given.x, y: direct_y };
        let own = Memory { saved: direct_saved, scratch: &mut *scratch };
        let dx_wanted = wanted.then_some(&mut *dx_direct);
        self.direct.backward(
            &direct_pass,
            BackwardPass {
                given: known,
                dy: d_direct,
                dx: dx_wanted,
                gradient: g_direct,
                memory: own,
            },
        );
        let known = Given { x: given.x, y: body_y };
        let own = Memory { saved: body_saved, scratch };
        match dx {
            Some(dx) => {
                self.body.backward(
                    &body_pass,
                    BackwardPass {
                        given: known,
                        dy: d_body,
                        dx: Some(&mut *dx),
                        gradient: g_body,
                        memory: own,
                    },
                );
                super::add(dx, dx_direct);
            }
            None => self.body.backward(
                &body_pass,
                BackwardPass { given: known, dy: d_body, dx: None, gradient: g_body, memory: own },
            ),
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        let [body, direct] = self.parameters.clone();
        self.body.finish_gradient(&mut gradient[body]);
        self.direct.finish_gradient(&mut gradient[direct]);
    }
}
