//! A bottleneck on a road of one link, against the closed form: how fast the CTM converges.
//!
//! ```text
//!  arrivals q_a, density k_a = q_a/v_f ──────────►│ bottleneck lets q_b < q_a through
//!                    k_a      ◄─ s ─┤ k_b = k_jam − q_b/w
//!                                 tail of the queue, s = (q_a − q_b)/(k_b − k_a)
//! ```
//!
//! The exact density is a step at `L − s·t`. The error is the mean over time of the L1
//! distance, in veh/lane, between the cells' densities and the exact cell means.

use traffic::{
    FundamentalDiagram, Link, Metres, MetresPerSecond, Network, NetworkParts, Point, Seconds,
    VehPerKmLane,
};

use crate::cells::{CellRule, Discretisation, SubSteps};
use crate::ctm::Ctm;
use crate::error::ModelError;
use crate::model::{Inputs, TrafficModel};
use crate::parameters::Parameters;

/// The scene. The default: 2 km, 15 m/s, 5 m/s, 140 veh/km; 25 arrive a minute, 10 leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Length of the road.
    pub length: Metres,
    /// Its free speed.
    pub free_speed: MetresPerSecond,
    /// Its backward wave speed.
    pub wave_speed: MetresPerSecond,
    /// Its jam density.
    pub jam_density: VehPerKmLane,
    /// Vehicles a minute that arrive; below capacity.
    pub arrivals: f64,
    /// Vehicles a minute that the bottleneck lets through; fewer than arrive.
    pub discharge: f64,
    /// How many free travel times of a cell a step has: the Courant number, at most 1.
    pub courant: f64,
}

impl Default for Bottleneck {
    fn default() -> Self {
        Self {
            length: Metres::new(2000.0),
            free_speed: MetresPerSecond::new(15.0),
            wave_speed: MetresPerSecond::new(5.0),
            jam_density: VehPerKmLane::new(140.0),
            arrivals: 25.0,
            discharge: 10.0,
            courant: 0.8,
        }
    }
}

/// Density of every cell at a time, beside the exact one.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The model's, veh/km/lane.
    pub cells: Vec<f64>,
    /// The exact means over the cells.
    pub exact: Vec<f64>,
}

impl Bottleneck {
    /// Speed at which the queue's tail runs upstream, m/s.
    pub fn tail_speed(&self) -> f64 {
        let (arriving, queued) = self.densities();
        (self.arrivals - self.discharge) / (queued - arriving) / 0.06
    }

    /// When the queue has reached three quarters of the road.
    pub fn until(&self) -> Seconds {
        Seconds::new(0.75 * self.length.get() / self.tail_speed())
    }

    /// Densities of the arriving traffic and of the queue, veh/km/lane.
    pub fn densities(&self) -> (f64, f64) {
        let wave = self.wave_speed.get() * 0.06;
        let free = self.free_speed.get() * 0.06;
        (self.arrivals / free, self.jam_density.get() - self.discharge / wave)
    }

    /// The profile at the end, in so many cells.
    pub fn last_profile(&self, cells: usize) -> Result<Profile, ModelError> {
        let mut last = Profile { cells: Vec::new(), exact: Vec::new() };
        self.run(cells, |profile| last.clone_from(profile))?;
        Ok(last)
    }

    /// Runs the model in so many cells and shows the profile after every step.
    fn run(&self, cells: usize, mut show: impl FnMut(&Profile)) -> Result<(), ModelError> {
        let network = one_road(self.length, self.free_speed)?;
        let diagram =
            FundamentalDiagram::triangular(self.free_speed, self.wave_speed, self.jam_density)
                .map_err(|source| ModelError::Diagram { link: "road".into(), source })?;
        let parameters = Parameters::new(&network, &[diagram], &[1.0])?;
        let cell = self.length / cells.max(1) as f64;
        let step = Seconds::new(self.courant * (cell / self.free_speed).get());
        let plan =
            Discretisation { step, cells: CellRule::Each(cells), sub_steps: SubSteps::Exactly(1) };
        let model = Ctm::new(&network, parameters, plan)?;
        let mut inputs = Inputs::free(&model);
        inputs.demand[0] = self.arrivals;
        inputs.green[0] = self.discharge / diagram.capacity().get();
        let (arriving, _) = self.densities();
        let mut state = vec![arriving; cells];
        state.push(0.0);
        let (mut next, mut flows) = (state.clone(), vec![0.0]);
        let mut memory = model.memory();
        let steps = (self.until() / step).round().max(1.0) as usize;
        let mut profile = Profile { cells: Vec::new(), exact: Vec::new() };
        for at in 1..=steps {
            model.step(&state, &inputs, &mut memory, &mut next, &mut flows)?;
            std::mem::swap(&mut state, &mut next);
            profile.cells.clear();
            profile.cells.extend_from_slice(&state[..cells]);
            profile.exact = self.exact(cells, step * at as f64);
            show(&profile);
        }
        Ok(())
    }

    /// Exact means over cells: a step at the queue's tail.
    fn exact(&self, cells: usize, time: Seconds) -> Vec<f64> {
        let (arriving, queued) = self.densities();
        let tail = (self.length.get() - self.tail_speed() * time.get()) / self.length.get();
        (0..cells)
            .map(|cell| {
                let share = (tail * cells as f64 - cell as f64).clamp(0.0, 1.0);
                share * arriving + (1.0 - share) * queued
            })
            .collect()
    }
}

/// Mean L1 error over all steps, in vehicles on the road.
pub fn cell_error(scene: &Bottleneck, cells: usize) -> Result<f64, ModelError> {
    let length = scene.length.get() / 1000.0 / cells as f64;
    let (mut sum, mut steps) = (0.0, 0.0);
    scene.run(cells, |profile| {
        let pairs = profile.cells.iter().zip(&profile.exact);
        sum += pairs.map(|(found, exact)| (found - exact).abs() * length).sum::<f64>();
        steps += 1.0;
    })?;
    Ok(sum / steps)
}

fn one_road(length: Metres, speed: MetresPerSecond) -> Result<Network, ModelError> {
    let shape = vec![Point { x: 0.0, y: 0.0 }, Point { x: length.get(), y: 0.0 }];
    let link = Link { name: "road".into(), length, junction: Metres::ZERO, lanes: 1, speed, shape };
    let parts = NetworkParts { name: "road".into(), links: vec![link], ..NetworkParts::default() };
    Network::new(parts).map_err(|_| ModelError::Number {
        place: "bottleneck".into(),
        field: "length",
        found: length.get(),
        expected: "a length that makes a road",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scene_has_its_closed_form() {
        let scene = Bottleneck::default();
        // k_a = 25/0.9; k_b = 140 − 10/0.3; s = 15/(k_b − k_a) km/min.
        let (arriving, queued) = scene.densities();
        assert!((arriving - 250.0 / 9.0).abs() < 1e-12);
        assert!((queued - (140.0 - 100.0 / 3.0)).abs() < 1e-12);
        let tail = 15.0 / (queued - arriving) / 0.06;
        assert!((scene.tail_speed() - tail).abs() < 1e-12);
        assert!((scene.until().get() - 1500.0 / tail).abs() < 1e-9);
        // The diagram's own shock speed, upstream.
        let diagram =
            FundamentalDiagram::triangular(scene.free_speed, scene.wave_speed, scene.jam_density)
                .unwrap();
        let shock =
            diagram.shock_speed(VehPerKmLane::new(arriving), VehPerKmLane::new(queued)).unwrap();
        assert!((shock.get() + tail).abs() < 1e-12);
    }

    /// Exact means conserve vehicles: what arrives and does not leave is in the queue.
    #[test]
    fn exact_profiles_hold_the_vehicles_that_have_not_left() {
        let scene = Bottleneck::default();
        let (arriving, _) = scene.densities();
        for (cells, share) in [(1, 0.3), (7, 0.5), (40, 1.0)] {
            let time = scene.until() * share;
            let exact = scene.exact(cells, time);
            let km = 2.0 / cells as f64;
            let more: f64 = exact.iter().map(|density| (density - arriving) * km).sum();
            let expected = 15.0 * time.get() / 60.0;
            assert!((more - expected).abs() < 1e-9, "{more} {expected}");
        }
    }

    /// A shock is smeared over a few cells whatever their length: the error falls with their number, to first order.
    #[test]
    fn twice_as_many_cells_halve_the_error() {
        let scene = Bottleneck::default();
        let errors: Vec<f64> =
            [20, 40, 80].iter().map(|&cells| cell_error(&scene, cells).unwrap()).collect();
        for pair in errors.windows(2) {
            let order = (pair[0] / pair[1]).log2();
            assert!((0.7..1.3).contains(&order), "{errors:?}");
        }
        // Conserved by the model: what has arrived and not left, over the steps that were made.
        let profile = scene.last_profile(80).unwrap();
        assert_eq!((profile.cells.len(), profile.exact.len()), (80, 80));
        let held = profile.cells.iter().sum::<f64>() * 2.0 / 80.0;
        let step = 0.8 * 2000.0 / 80.0 / 15.0;
        let time = (scene.until().get() / step).round() * step;
        let expected = 15.0 * time / 60.0 + scene.densities().0 * 2.0;
        assert!((held - expected).abs() < 1e-6, "{held} {expected}");
    }

    #[test]
    fn roads_that_are_none_are_refused() {
        let none = Bottleneck { length: Metres::new(-1.0), ..Bottleneck::default() };
        let error = none.last_profile(10).unwrap_err().to_string();
        assert_eq!(error, "bottleneck: length: found -1, expected a length that makes a road");
        let fast = Bottleneck { courant: 1.5, ..Bottleneck::default() };
        assert!(matches!(fast.last_profile(10), Err(ModelError::Unstable { .. })));
    }
}
