//! The speed equation of METANET for one cell; speeds in km/min.

use traffic::Seconds;

use crate::cells::Cells;
use crate::error::ModelError;
use crate::graph::RoadGraph;
use crate::parameters::{Diagram, DiagramCotangent, Parameters};

use super::MetanetConstants;

/// The equation's constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpeedLaw {
    /// Minutes.
    relaxation: f64,
    /// km²/min.
    anticipation: f64,
    kappa: f64,
    exponent: f64,
}

/// A cell's length (km) and a sub-step (min).
#[derive(Clone, Copy, Debug)]
pub(super) struct CellStep {
    pub length: f64,
    pub step: f64,
}

/// What a cell's next speed depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub density: f64,
    pub speed: f64,
    /// Speed upstream.
    pub up: f64,
    /// Density downstream.
    pub down: f64,
}

/// Cotangents of [`Around`].
pub(super) struct AroundCotangent {
    pub density: f64,
    pub speed: f64,
    pub up: f64,
    pub down: f64,
}

impl SpeedLaw {
    pub(super) fn new(constants: MetanetConstants) -> Result<Self, ModelError> {
        let numbers = [
            ("relaxation time", constants.relaxation.get()),
            ("kappa", constants.kappa),
            ("exponent", constants.exponent),
        ];
        let place = || "METANET".to_string();
        for (field, found) in numbers {
            if !(found > 0.0 && found.is_finite()) {
                let expected = "more than 0";
                return Err(ModelError::Number { place: place(), field, found, expected });
            }
        }
        if !(constants.anticipation >= 0.0 && constants.anticipation.is_finite()) {
            let (field, found) = ("anticipation", constants.anticipation);
            return Err(ModelError::Number { place: place(), field, found, expected: "0 or more" });
        }
        Ok(Self {
            relaxation: constants.relaxation.get() / 60.0,
            anticipation: constants.anticipation / 60.0,
            kappa: constants.kappa,
            exponent: constants.exponent,
        })
    }

    /// The longest stable sub-step (min) for cells of a length (km).
    pub(super) fn longest_step(&self, diagram: &Diagram, length: f64) -> f64 {
        let damped =
            length * length * (diagram.jam + self.kappa) / (4.0 * self.anticipation * diagram.jam);
        // Without anticipation only relaxation limits: NaN and infinity both give way to it.
        self.relaxation.min(damped)
    }

    /// Refuses sub-steps in which speeds would overshoot.
    pub(super) fn check_stable(
        &self,
        cells: &Cells,
        parameters: &Parameters,
        graph: &RoadGraph,
    ) -> Result<(), ModelError> {
        for (n, &length) in cells.length.iter().enumerate() {
            let longest = self.longest_step(&parameters.diagram(n), length);
            if cells.sub_step > longest * (1.0 + 1e-9) {
                return Err(ModelError::Overshoot {
                    link: graph.name(n).into(),
                    sub_step: Seconds::new(cells.sub_step * 60.0),
                    longest: Seconds::new(longest * 60.0),
                });
            }
        }
        Ok(())
    }

    /// V(ρ).
    pub(super) fn equilibrium(&self, diagram: &Diagram, density: f64) -> f64 {
        diagram.free * (-self.load(diagram, density) / self.exponent).exp()
    }

    /// (ρ/ρ_cr)^a with ρ_cr = q_c·e^(1/a)/v_f.
    fn load(&self, diagram: &Diagram, density: f64) -> f64 {
        let critical = diagram.capacity * (1.0 / self.exponent).exp() / diagram.free;
        (density.max(0.0) / critical).powf(self.exponent)
    }

    fn unbounded(&self, diagram: &Diagram, cell: CellStep, around: Around) -> f64 {
        let Around { density, speed, up, down } = around;
        let relax = cell.step / self.relaxation * (self.equilibrium(diagram, density) - speed);
        let carry = cell.step / cell.length * speed * (up - speed);
        speed + relax + carry
            - self.ahead(cell) * (down - density) / (density.max(0.0) + self.kappa)
    }

    /// ν·T/(τ·Δx).
    fn ahead(&self, cell: CellStep) -> f64 {
        self.anticipation * cell.step / (self.relaxation * cell.length)
    }

    /// The next speed.
    pub(super) fn next(&self, diagram: &Diagram, cell: CellStep, around: Around) -> f64 {
        self.unbounded(diagram, cell, around).clamp(0.0, diagram.free)
    }

    /// The transpose of [`Self::next`].
    pub(super) fn vjp(
        &self,
        diagram: &Diagram,
        cell: CellStep,
        around: Around,
        given: f64,
        d: &mut DiagramCotangent,
    ) -> AroundCotangent {
        let none = AroundCotangent { density: 0.0, speed: 0.0, up: 0.0, down: 0.0 };
        let value = self.unbounded(diagram, cell, around);
        if value <= 0.0 {
            return none;
        }
        if value >= diagram.free {
            d.free += given;
            return none;
        }
        let Around { density, speed, up, down } = around;
        let relax = cell.step / self.relaxation * given;
        let equilibrium = self.equilibrium(diagram, density);
        let load = self.load(diagram, density);
        // V = v_f·e^(−load/a), load = (ρ·v_f/(q_c·e^(1/a)))^a: load grows with ρ and v_f as their
        // a-th power, so that dV/dρ = −V·load/ρ, dV/dq_c = V·load/q_c, dV/dv_f = V·(1 − load)/v_f.
        let by_density = if density > 0.0 { -equilibrium * load / density } else { 0.0 };
        d.free += relax * equilibrium * (1.0 - load) / diagram.free;
        d.capacity += relax * equilibrium * load / diagram.capacity;
        let carry = cell.step / cell.length * given;
        let room = density.max(0.0) + self.kappa;
        let ahead = self.ahead(cell) * given;
        let by_room = if density > 0.0 { (down - density) / (room * room) } else { 0.0 };
        AroundCotangent {
            density: relax * by_density + ahead * (1.0 / room + by_room),
            speed: given - relax + carry * (up - 2.0 * speed),
            up: carry * speed,
            down: -ahead / room,
        }
    }
}
