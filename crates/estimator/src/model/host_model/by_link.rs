//! Gradients of a host's model without message passing between links, link by link.
//!
//! A head without message passing computes density and flow of a link from what it is given of that link and from
//! what is the same for all of them. So the gradient of a link's estimate is that of a model of this link alone,
//! with the same weights: a seventeenth of the work, in a network of seventeen links.
//!
//! ```text
//! x = [same for all | of each link | flag | of each link …]   ►   x_l = [context(same for all) | of l | flag | of l …]
//! ```
//!
//! What is the same for all links is computed once for each sample, with its gradients; the rest, the head, for each
//! link. An entry of a link touches its density and flow alone, so two backward passes of the head are enough,
//! however many entries there are: the gradient by one of them is slope·(by density) + slope·(by flow).

mod block;

use std::ops::Range;

use neural::{DropoutRng, Fusion, Layer, Layout, Pass};
use rayon::prelude::*;

use super::product_rows::EmbeddingCoefficients;
use super::product_rows::{Columns, Gradients};
use crate::loss::objective::LinearPart;
use crate::model::architecture::{GuestSlot, HostShape, LinkModel};
use crate::model::model_error::ModelError;

use block::Block;

/// Samples whose gradients are kept together: few enough for a core's own cache.
const SAMPLES_AT_ONCE: usize = 4;

/// The model of one link, and the gradients of the last batch.
pub(super) struct ByLink {
    context: Option<Context>,
    head: Fusion,
    /// Of the head.
    parameters: Vec<Piece>,
    /// Of the head, after the context.
    inputs: Vec<Piece>,
    /// Numbers of the whole: inputs of a sample.
    width: usize,
    /// Where gradients of each parameter of the whole are kept.
    kept: Vec<Kept>,
    /// Parameters of the head that all links share, and those that each link has of its own.
    shared: usize,
    of_link: usize,
    /// Of each link's head.
    links: Vec<Values>,
    entries: Entries,
    /// Of all samples, some at a time; there may be more blocks than the last batch had.
    blocks: Vec<Block>,
}

/// What is the same for all links. Its inputs and parameters are the first ones of the whole.
struct Context {
    layer: Box<dyn Layer>,
    own: Values,
}

/// The parameters of a layer, and what is prepared of them.
#[derive(Clone)]
struct Values {
    parameters: Vec<f32>,
    prepared: Vec<f32>,
}

/// The entries of all parties, one after the other: `all` of them in each sample.
#[derive(Default)]
struct Entries {
    samples: usize,
    all: usize,
    /// `[sample, entry]`.
    slopes: Vec<[f32; 2]>,
    by_link: Vec<Vec<usize>>,
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

/// Where a parameter's gradients by the entries of a sample are kept.
///
/// A parameter that a link has of its own has gradients by entries of this link alone; one of the context has the sum of
/// its gradients for the context's numbers, times these numbers' by the entry. Neither is kept for all entries: with
/// 2000 links those would be gigabytes.
#[derive(Clone, Copy)]
enum Kept {
    /// Of the context: its place there.
    Context(usize),
    /// Of all links: its place among these.
    Shared(usize),
    /// Of one link: which, and its place among the link's own.
    OfLink(usize, usize),
}

impl Piece {
    fn at(&self, link: usize) -> usize {
        self.whole + if self.of_link { link * self.len } else { 0 }
    }
}

impl ByLink {
    /// For a model of this shape with these parameters; none if it passes messages between links.
    pub(super) fn of(
        shape: &HostShape,
        links: usize,
        whole: &Layout,
    ) -> Result<Option<Self>, ModelError> {
        let Some(LinkModel { context, head }) = shape.build_link()? else { return Ok(None) };
        let context = context.map(|layer| Context { own: Values::of(&layer), layer });
        let of_context = context.as_ref().map_or(0, |one| one.layer.layout().parameters().len());
        let of_head = head.layout();
        let parts = whole.parameters().iter().skip(of_context).zip(of_head.parameters());
        let parameters = parts.map(|(whole, own)| Piece {
            whole: whole.range.start,
            own: own.range.start,
            len: own.range.len(),
            of_link: whole.range.len() != own.range.len(),
        });
        let parameters: Vec<Piece> = parameters.collect();
        let numbers = |slot: &GuestSlot| slot.embedding.len(1);
        let given = shape.slots.iter().flat_map(|slot| [(1, false), (numbers(slot), true)]);
        let lens = [(shape.channels, true)].into_iter().chain(given);
        let (mut width, mut own) = (shape.shared, Context::len(context.as_ref()));
        let inputs = lens.map(|(len, of_link)| {
            let piece = Piece { whole: width, own, len, of_link };
            width += if of_link { links * len } else { len };
            own += len;
            piece
        });
        let inputs = inputs.collect();
        let mut kept: Vec<Kept> = (0..whole.len()).map(Kept::Context).collect();
        let (mut shared, mut of_link) = (0, 0);
        for piece in &parameters {
            let to = &mut kept[piece.whole..];
            if piece.of_link {
                let each = to.iter_mut().take(links * piece.len).enumerate();
                each.for_each(|(at, to)| {
                    *to = Kept::OfLink(at / piece.len, of_link + at % piece.len);
                });
                of_link += piece.len;
            } else {
                let each = to.iter_mut().take(piece.len).enumerate();
                each.for_each(|(at, to)| *to = Kept::Shared(shared + at));
                shared += piece.len;
            }
        }
        let links = vec![Values::of(&head); links];
        let (entries, blocks) = (Entries::default(), Vec::new());
        Ok(Some(Self {
            context,
            head,
            parameters,
            inputs,
            width,
            kept,
            shared,
            of_link,
            links,
            entries,
            blocks,
        }))
    }

    /// Gradients of the whole model with these parameters, of all entries of each sample.
    pub(super) fn pull_back(
        &mut self,
        parameters: &[f32],
        x: &[f32],
        noise: DropoutRng,
        parts: &[&LinearPart],
    ) {
        if let Some(Context { layer, own }) = &mut self.context {
            let len = own.parameters.len();
            own.parameters.copy_from_slice(&parameters[..len]);
            layer.prepare(&own.parameters, &mut own.prepared);
        }
        for (link, own) in self.links.iter_mut().enumerate() {
            for piece in &self.parameters {
                let from = &parameters[piece.at(link)..][..piece.len];
                own.parameters[piece.own..][..piece.len].copy_from_slice(from);
            }
            self.head.prepare(&own.parameters, &mut own.prepared);
        }
        let (width, samples) = (self.width, x.len() / self.width.max(1));
        self.entries.set(parts, samples, self.links.len());
        let mut blocks = std::mem::take(&mut self.blocks);
        while blocks.len() < samples.div_ceil(SAMPLES_AT_ONCE) {
            blocks.push(Block::new(self));
        }
        blocks.par_iter_mut().enumerate().for_each(|(at, block)| {
            let first = (at * SAMPLES_AT_ONCE).min(samples);
            let samples = first..(first + SAMPLES_AT_ONCE).min(samples);
            block.fill(self, &x[first * width..samples.end * width], samples, noise);
        });
        self.blocks = blocks;
    }

    /// Numbers that are kept for each entry of a sample.
    pub(super) fn kept_of_entry(&self) -> usize {
        self.shared + self.of_link + self.context_len()
    }

    /// Numbers that are the same for all links.
    fn context_len(&self) -> usize {
        Context::len(self.context.as_ref())
    }
}

impl Context {
    fn len(context: Option<&Self>) -> usize {
        context.map_or(0, |context| context.layer.output_len())
    }
}

impl Values {
    fn of(layer: &impl Layer) -> Self {
        let parameters = vec![0.0; layer.layout().len()];
        Self { parameters, prepared: vec![0.0; layer.prepared_len()] }
    }

    /// Of one sample.
    fn pass(&self, noise: DropoutRng) -> Pass<'_> {
        let Self { parameters, prepared } = self;
        Pass { samples: 1, parameters, prepared, rng: Some(noise) }
    }
}

impl Gradients for ByLink {
    fn touched(&self, columns: &Columns) -> Vec<usize> {
        let parameters = (0..self.kept.len()).into_par_iter();
        parameters.filter(|&p| self.blocks.iter().any(|b| b.touches(self, p, columns))).collect()
    }

    fn write_rows(&self, parameters: &[usize], columns: &Columns, to: &mut [f64]) {
        let each = (self.entries.samples * columns.entries).max(1);
        to.par_chunks_exact_mut(each).zip(parameters).for_each(|(row, &parameter)| {
            let samples = row.chunks_mut((SAMPLES_AT_ONCE * columns.entries).max(1));
            let samples = samples.zip(&self.blocks);
            samples.for_each(|(row, block)| block.write_row(self, parameter, columns, row));
        });
    }

    /// A number of a link depends on the entries of this link alone.
    fn share(&self, numbers: Range<usize>, columns: &Columns) -> EmbeddingCoefficients {
        let own = columns.first..columns.first + columns.entries;
        let of_link = |all: &Vec<usize>| -> Vec<usize> {
            all.iter().copied().filter(|at| own.contains(at)).collect()
        };
        let by_link: Vec<Vec<usize>> = self.entries.by_link.iter().map(of_link).collect();
        let terms = by_link.iter().map(Vec::len).max().unwrap_or(0);
        let piece = self.inputs.iter().find(|piece| piece.whole == numbers.start && piece.len > 0);
        let Some(piece) = piece.filter(|_| terms > 0) else {
            return EmbeddingCoefficients::default();
        };
        let mut entries = Vec::with_capacity(numbers.len() * terms);
        for of_link in &by_link {
            let filled = of_link.iter().map(|at| (at - columns.first) as u32);
            let filled: Vec<u32> = filled.chain(std::iter::repeat(0)).take(terms).collect();
            (0..piece.len).for_each(|_| entries.extend(&filled));
        }
        let each = piece.len * terms;
        let mut coefficients = vec![0.0; self.entries.samples * numbers.len() * terms];
        let samples = coefficients.par_chunks_exact_mut(by_link.len() * each).enumerate();
        samples.for_each(|(sample, to)| {
            let block = &self.blocks[sample / SAMPLES_AT_ONCE];
            let gradients = block.inputs.chunks_exact(self.head.input_len());
            let gradients = gradients.skip(sample % SAMPLES_AT_ONCE * by_link.len());
            let slopes = self.entries.slopes_of(sample);
            for ((to, of_link), gradient) in to.chunks_exact_mut(each).zip(&by_link).zip(gradients)
            {
                let gradient = &gradient[piece.own..][..piece.len];
                for (to, gradient) in to.chunks_exact_mut(terms).zip(gradient) {
                    let pairs = to.iter_mut().zip(of_link);
                    pairs.for_each(|(to, &at)| *to = f64::from(along(slopes[at], *gradient)));
                }
            }
        });
        EmbeddingCoefficients { terms, entries, coefficients }
    }
}

impl Entries {
    fn set(&mut self, parts: &[&LinearPart], samples: usize, links: usize) {
        (self.samples, self.all) = (samples, parts.iter().map(|part| part.links.len()).sum());
        self.by_link.clear();
        self.by_link.resize(links, Vec::new());
        for (at, &link) in parts.iter().flat_map(|part| &part.links).enumerate() {
            self.by_link[link].push(at);
        }
        self.slopes.clear();
        for sample in 0..samples {
            for part in parts {
                let entries = part.links.len();
                self.slopes.extend_from_slice(&part.slopes[sample * entries..][..entries]);
            }
        }
    }

    /// Those of a link that are among these columns.
    fn of(&self, link: usize, columns: &Columns) -> impl Iterator<Item = usize> {
        let own = columns.range();
        self.by_link[link].iter().copied().filter(move |at| own.contains(at))
    }

    fn slopes_of(&self, sample: usize) -> &[[f32; 2]] {
        &self.slopes[sample * self.all..][..self.all]
    }
}

fn along(slopes: [f32; 2], gradient: [f32; 2]) -> f32 {
    slopes[0] * gradient[0] + slopes[1] * gradient[1]
}

#[cfg(test)]
mod tests;
