//! The cells of one link: flows between them, and the step of their densities.

use std::ops::Range;

use traffic::Network;

use crate::cells::Cells;
use crate::parameters::{Diagram, DiagramCotangent, Parameters};
use crate::rounding::snap;

/// A link's cells.
#[derive(Clone, Debug)]
pub(super) struct LinkCells {
    pub cells: Range<usize>,
    pub diagram: Diagram,
    pub lanes: f64,
    /// Length of a cell, km.
    pub length: f64,
    /// Density per flow: δt / (Δx·lanes).
    gain: f64,
}

impl LinkCells {
    pub(super) fn all(network: &Network, cells: &Cells, parameters: &Parameters) -> Vec<Self> {
        let links = network.links().iter().enumerate();
        links
            .map(|(n, link)| {
                let (lanes, length) = (f64::from(link.lanes), cells.length[n]);
                Self {
                    cells: cells.start[n]..cells.start[n + 1],
                    diagram: parameters.diagram(n),
                    lanes,
                    length,
                    gain: cells.sub_step / (length * lanes),
                }
            })
            .collect()
    }

    /// The cell at the stop line.
    pub(super) fn last(&self) -> usize {
        self.cells.end - 1
    }

    /// Steps the densities; returns the link's mean flow (all lanes).
    pub(super) fn advance(
        &self,
        state: &[f64],
        next: &mut [f64],
        inflow: f64,
        outflow: f64,
    ) -> f64 {
        let mut into = inflow;
        let mut sum = 0.5 * (inflow + outflow);
        for cell in self.cells.clone() {
            let out = if cell == self.last() {
                outflow
            } else {
                let between = self.between(state, cell);
                sum += between;
                between
            };
            next[cell] =
                snap(state[cell], state[cell] + self.gain * (into - out), self.diagram.jam);
            into = out;
        }
        sum / self.cells.len() as f64
    }

    /// Flow from a cell to the next of the same link.
    fn between(&self, state: &[f64], cell: usize) -> f64 {
        let sending = self.diagram.sending(state[cell]);
        self.lanes * sending.min(self.diagram.receiving(state[cell + 1]))
    }

    /// The transpose of [`Self::advance`]: sets the cells' `d_state`, returns the cotangents of
    /// inflow and outflow.
    pub(super) fn step_vjp(
        &self,
        state: &[f64],
        d_next: &[f64],
        d_mean: f64,
        d_state: &mut [f64],
        d_diagram: &mut DiagramCotangent,
    ) -> (f64, f64) {
        let (first, last) = (self.cells.start, self.last());
        let d_border = d_mean / self.cells.len() as f64;
        d_state[self.cells.clone()].copy_from_slice(&d_next[self.cells.clone()]);
        for cell in first..last {
            let given = self.lanes * (self.gain * (d_next[cell + 1] - d_next[cell]) + d_border);
            let (from, to) = (state[cell], state[cell + 1]);
            if self.diagram.sending(from) <= self.diagram.receiving(to) {
                d_state[cell] += self.diagram.sending_vjp(from, given, d_diagram);
            } else {
                d_state[cell + 1] += self.diagram.receiving_vjp(to, given, d_diagram);
            }
        }
        let d_inflow = self.gain * d_next[first] + 0.5 * d_border;
        (d_inflow, -self.gain * d_next[last] + 0.5 * d_border)
    }
}
