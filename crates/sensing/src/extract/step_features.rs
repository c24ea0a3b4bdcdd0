//! What one step gave.

use traffic::{LinkId, Network, Seconds, Step, Totals};

use super::FeaturePlan;
use super::sums::OpenStep;

/// The features of one closed step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFeatures {
    /// Which step.
    pub step: Step,
    /// False where a recording began or ended within the step.
    pub complete: bool,
    /// All vehicles: the ground truth.
    pub all: FleetFeatures,
    /// Per link: the sum over vehicles of the square of each one's own time (s²) and distance (m²)
    /// in the box. It gives the sampling variance of a fleet's totals in closed form.
    pub squares: Vec<[f64; 2]>,
    /// Each fleet's features, in the order of the plan.
    pub fleets: Vec<FleetFeatures>,
    /// Vehicles that crossed each loop, counted from their trajectories.
    pub loops: Vec<u32>,
}

/// The features of one fleet in one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetFeatures {
    /// Totals `[link][sub-step][cell]`.
    pub boxes: Vec<Totals>,
    /// Vehicles seen on each link.
    pub vehicles: Vec<u32>,
    /// Vehicles that made each turn.
    pub turns: Vec<u32>,
    /// Trips that ended in this step: origin, destination, number.
    pub trips: Vec<(LinkId, LinkId, u32)>,
}

impl FleetFeatures {
    /// Totals of a link over its cells and sub-steps.
    pub fn link_totals(&self, link: LinkId) -> Totals {
        let per_link = self.boxes.len() / self.vehicles.len().max(1);
        let mut sum = Totals::default();
        for &piece in &self.boxes[link.index() * per_link..][..per_link] {
            sum += piece;
        }
        sum
    }

    /// As many links with other totals, each in the first of its boxes, and nothing else: no vehicles counted, no turns.
    pub fn with_totals(&self, totals: impl Iterator<Item = Totals>) -> Self {
        let mut other = self.clone();
        other.clear();
        let per_link = self.boxes.len() / self.vehicles.len().max(1);
        for (boxes, totals) in other.boxes.chunks_mut(per_link.max(1)).zip(totals) {
            boxes[0] = totals;
        }
        other
    }

    fn clear(&mut self) {
        self.boxes.fill(Totals::default());
        self.vehicles.fill(0);
        self.turns.fill(0);
        self.trips.clear();
    }

    /// Adds one band of an open step.
    fn add_band(&mut self, open: &OpenStep, band: usize) {
        let count = self.boxes.len();
        for (sum, &band_sum) in self.boxes.iter_mut().zip(&open.boxes[band * count..]) {
            if band_sum.time > Seconds::ZERO {
                *sum += band_sum;
            }
        }
        let count = self.vehicles.len();
        for (sum, &band_sum) in self.vehicles.iter_mut().zip(&open.vehicles[band * count..]) {
            *sum += band_sum;
        }
        let count = self.turns.len();
        for (sum, &band_sum) in self.turns.iter_mut().zip(&open.turns[band * count..]) {
            *sum += band_sum;
        }
        for (&(origin, destination), &count) in &open.trips[band] {
            let place = (origin, destination);
            match self.trips.binary_search_by_key(&place, |&(o, d, _)| (o, d)) {
                Ok(index) => self.trips[index].2 += count,
                Err(index) => self.trips.insert(index, (origin, destination, count)),
            }
        }
    }
}

impl StepFeatures {
    pub(super) fn empty(network: &Network, plan: &FeaturePlan) -> Self {
        let links = network.links().len();
        let fleet = FleetFeatures {
            boxes: vec![Totals::default(); links * plan.cells * plan.sub_steps],
            vehicles: vec![0; links],
            turns: vec![0; network.turns().len()],
            trips: Vec::new(),
        };
        Self {
            step: Step(0),
            complete: false,
            squares: vec![[0.0; 2]; links],
            fleets: vec![fleet.clone(); plan.fleets.all().len()],
            all: fleet,
            loops: vec![0; network.loops().len()],
        }
    }

    pub(super) fn gather(&mut self, open: &OpenStep, network: &Network, plan: &FeaturePlan) {
        debug_assert_eq!(self.squares.len(), network.links().len());
        self.all.clear();
        self.fleets.iter_mut().for_each(FleetFeatures::clear);
        for band in 0..plan.fleets.bands() {
            self.all.add_band(open, band);
            for (index, fleet) in self.fleets.iter_mut().enumerate() {
                if plan.fleets.contains(index, band) {
                    fleet.add_band(open, band);
                }
            }
        }
        self.squares.copy_from_slice(&open.squares);
        self.loops.copy_from_slice(&open.loops);
    }
}
