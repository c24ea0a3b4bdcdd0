//! The parameters ρ of a model as one flat vector, for gradients and filters.
//!
//! | range | unit | one per |
//! |---|---|---|
//! | `free_speed` | m/s | link |
//! | `wave_speed` | m/s | link |
//! | `jam_density` | veh/km/lane | link |
//! | `capacity` | veh/min/lane | link |
//! | `ratio` | share | movement: turns, then exits |
//!
//! The shares of a link add up to one: a learner should move along that plane (subtract the mean
//! of the gradient over the link's movements, or use a softmax).

use std::ops::Range;

use traffic::{FundamentalDiagram, MetresPerSecond, Network, VehPerKmLane, VehPerMinLane};

use crate::error::{ModelError, check_len};
use crate::graph::{RoadGraph, ratios_by_lanes};

/// 1 m/s is 0.06 km/min: with densities in veh/km and flows in veh/min, inner speeds are km/min.
pub(crate) const KM_PER_MIN: f64 = 0.06;

/// A standing vehicle with its gap takes 7.5 m, a usual value for passenger traffic.
pub const STANDING: VehPerKmLane = VehPerKmLane::new(1000.0 / 7.5);
/// In the middle of 4 to 5.4 m/s, found on the paper's corridor by its authors.
const WAVE: MetresPerSecond = MetresPerSecond::new(5.0);

/// Where each kind of parameter lies in the vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterLayout {
    links: usize,
    turns: usize,
}

impl ParameterLayout {
    pub(crate) fn new(links: usize, turns: usize) -> Self {
        Self { links, turns }
    }

    /// Length of the vector.
    pub fn len(&self) -> usize {
        5 * self.links + self.turns
    }

    /// Never: a network has a link.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Free-flow speeds, m/s.
    pub(crate) fn free_speed(&self) -> Range<usize> {
        0..self.links
    }

    /// Backward wave speeds, m/s.
    pub(crate) fn wave_speed(&self) -> Range<usize> {
        self.links..2 * self.links
    }

    /// Jam densities, veh/km/lane.
    pub(crate) fn jam_density(&self) -> Range<usize> {
        2 * self.links..3 * self.links
    }

    /// Capacities, veh/min/lane.
    pub(crate) fn capacity(&self) -> Range<usize> {
        3 * self.links..4 * self.links
    }

    /// Shares per movement: turns, then exits.
    pub(crate) fn ratio(&self) -> Range<usize> {
        4 * self.links..5 * self.links + self.turns
    }
}

/// A checked vector of parameters for the links of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    layout: ParameterLayout,
    values: Vec<f64>,
}

impl Parameters {
    /// From a diagram per link and a share per movement.
    pub fn new(
        network: &Network,
        diagrams: &[FundamentalDiagram],
        ratios: &[f64],
    ) -> Result<Self, ModelError> {
        let graph = RoadGraph::of(network);
        check_len("fundamental diagrams", diagrams.len(), graph.places())?;
        let column = |of: fn(&FundamentalDiagram) -> f64| diagrams.iter().map(of);
        let mut values = Vec::with_capacity(5 * graph.places() + graph.turns());
        values.extend(column(|d| d.free_speed().get()));
        values.extend(column(|d| d.wave_speed().get()));
        values.extend(column(|d| d.jam_density().get()));
        values.extend(column(|d| d.capacity().get()));
        values.extend_from_slice(ratios);
        Self::from_values(&graph, values)
    }

    /// Usual values: the speed limit, 5 m/s, 7.5 m a standing vehicle, and ratios by lanes.
    pub fn typical(network: &Network) -> Result<Self, ModelError> {
        let diagram = |link: &traffic::Link| {
            FundamentalDiagram::triangular(link.speed, WAVE, STANDING)
                .map_err(|source| ModelError::Diagram { link: link.name.clone(), source })
        };
        let diagrams: Result<Vec<_>, _> = network.links().iter().map(diagram).collect();
        Self::new(network, &diagrams?, &ratios_by_lanes(network))
    }

    /// From a flat vector, such as a learner's. Capacity may lie above the triangle: then it does
    /// not bind.
    pub(crate) fn from_values(graph: &RoadGraph, values: Vec<f64>) -> Result<Self, ModelError> {
        let layout = ParameterLayout::new(graph.places(), graph.turns());
        check_len("parameters", values.len(), layout.len())?;
        let fields = [
            ("free speed", layout.free_speed()),
            ("wave speed", layout.wave_speed()),
            ("jam density", layout.jam_density()),
            ("capacity", layout.capacity()),
        ];
        for (field, range) in fields {
            for (place, &found) in values[range].iter().enumerate() {
                if !(found > 0.0 && found.is_finite()) {
                    let place = format!("link `{}`", graph.name(place));
                    return Err(ModelError::Number {
                        place,
                        field,
                        found,
                        expected: "more than 0",
                    });
                }
            }
        }
        graph.check_ratios(&values[layout.ratio()])?;
        Ok(Self { layout, values })
    }

    /// For differences: shares that do not add up.
    #[cfg(test)]
    pub(crate) fn unchecked(&self, values: &[f64]) -> Self {
        Self { layout: self.layout, values: values.to_vec() }
    }

    /// Where each kind lies.
    pub(crate) fn layout(&self) -> ParameterLayout {
        self.layout
    }

    /// All numbers.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The shares per movement.
    pub fn ratios(&self) -> &[f64] {
        &self.values[self.layout.ratio()]
    }

    /// The four numbers of a link's diagram.
    pub(crate) fn diagram(&self, link: usize) -> Diagram {
        let at = |range: Range<usize>| self.values[range.start + link];
        Diagram {
            free: at(self.layout.free_speed()) * KM_PER_MIN,
            wave: at(self.layout.wave_speed()) * KM_PER_MIN,
            jam: at(self.layout.jam_density()),
            capacity: at(self.layout.capacity()),
        }
    }

    /// A link's diagram as others know it; capacity above the triangle is cut to its top.
    pub fn fundamental_diagram(&self, link: usize) -> Result<FundamentalDiagram, ModelError> {
        let name = || format!("number {link}");
        if link >= self.layout.links {
            return Err(ModelError::Shape {
                what: "link",
                found: link,
                expected: self.layout.links,
            });
        }
        let d = self.diagram(link);
        let (free, wave) =
            (MetresPerSecond::new(d.free / KM_PER_MIN), MetresPerSecond::new(d.wave / KM_PER_MIN));
        let jam = VehPerKmLane::new(d.jam);
        FundamentalDiagram::triangular(free, wave, jam)
            .and_then(|triangle| {
                let capacity = VehPerMinLane::new(d.capacity).min(triangle.capacity());
                FundamentalDiagram::new(free, wave, jam, capacity)
            })
            .map_err(|source| ModelError::Diagram { link: name(), source })
    }
}

/// A link's diagram in km, minutes and vehicles, for one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diagram {
    /// km/min.
    pub free: f64,
    /// km/min.
    pub wave: f64,
    /// veh/km.
    pub jam: f64,
    /// veh/min.
    pub capacity: f64,
}

/// Cotangents of a [`Diagram`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiagramCotangent {
    pub free: f64,
    pub wave: f64,
    pub jam: f64,
    pub capacity: f64,
}

impl Diagram {
    /// v_f·k: what would leave a cell without a limit. Estimates may be negative: nothing leaves then.
    pub(crate) fn leaving(&self, density: f64) -> f64 {
        self.free * density.max(0.0)
    }

    /// min{q_c, v_f·k}.
    pub(crate) fn sending(&self, density: f64) -> f64 {
        self.leaving(density).min(self.capacity)
    }

    /// min{w·(k_jam − k), q_c}, and nothing past jam.
    pub(crate) fn receiving(&self, density: f64) -> f64 {
        (self.wave * (self.jam - density).max(0.0)).min(self.capacity)
    }

    /// The cotangent of density given that of [`Self::leaving`].
    pub(crate) fn leaving_vjp(&self, density: f64, given: f64, d: &mut DiagramCotangent) -> f64 {
        if density <= 0.0 {
            return 0.0;
        }
        d.free += density * given;
        self.free * given
    }

    /// As [`Self::leaving_vjp`], of [`Self::sending`].
    pub(crate) fn sending_vjp(&self, density: f64, given: f64, d: &mut DiagramCotangent) -> f64 {
        if self.leaving(density) <= self.capacity {
            self.leaving_vjp(density, given, d)
        } else {
            d.capacity += given;
            0.0
        }
    }

    /// As [`Self::leaving_vjp`], of [`Self::receiving`].
    pub(crate) fn receiving_vjp(&self, density: f64, given: f64, d: &mut DiagramCotangent) -> f64 {
        let space = self.jam - density;
        if space <= 0.0 {
            return 0.0;
        }
        if self.wave * space <= self.capacity {
            d.wave += space * given;
            d.jam += self.wave * given;
            -self.wave * given
        } else {
            d.capacity += given;
            0.0
        }
    }
}

impl DiagramCotangent {
    /// Adds to a flat gradient, in the units of the flat vector.
    pub(crate) fn add_to(self, layout: ParameterLayout, link: usize, gradient: &mut [f64]) {
        gradient[layout.free_speed().start + link] += self.free * KM_PER_MIN;
        gradient[layout.wave_speed().start + link] += self.wave * KM_PER_MIN;
        gradient[layout.jam_density().start + link] += self.jam;
        gradient[layout.capacity().start + link] += self.capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_networks::{Draw, network, road};

    #[test]
    fn the_layout_covers_the_vector_once() {
        let layout = ParameterLayout::new(3, 4);
        assert_eq!(layout.len(), 5 * 3 + 4);
        assert!(!layout.is_empty());
        let ranges = [
            layout.free_speed(),
            layout.wave_speed(),
            layout.jam_density(),
            layout.capacity(),
            layout.ratio(),
        ];
        let all: Vec<usize> = ranges.into_iter().flatten().collect();
        assert_eq!(all, (0..19).collect::<Vec<_>>());
    }

    #[test]
    fn typical_parameters_are_those_of_the_text() {
        let network = network(&[(100.0, 1, 10.0), (200.0, 2, 20.0)], &[(0, 1)]);
        let parameters = Parameters::typical(&network).unwrap();
        let layout = parameters.layout();
        let of = |range: Range<usize>| &parameters.values()[range];
        assert_eq!(of(layout.free_speed()), [10.0, 20.0]);
        assert_eq!(of(layout.wave_speed()), [5.0, 5.0]);
        assert_eq!(of(layout.jam_density()), [1000.0 / 7.5; 2]);
        // The triangle's top: k_jam·w·v/(v + w), 0.06 of it a minute.
        for (capacity, free) in of(layout.capacity()).iter().zip([10.0, 20.0]) {
            let top = 1000.0 / 7.5 * 5.0 * free / (free + 5.0) * 0.06;
            assert!((capacity - top).abs() < 1e-12, "{capacity}");
        }
        assert_eq!(parameters.ratios(), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn vectors_that_are_none_are_refused() {
        let network = network(&[(100.0, 1, 10.0), (200.0, 2, 20.0)], &[(0, 1)]);
        let graph = RoadGraph::of(&network);
        let sound = Parameters::typical(&network).unwrap().values().to_vec();
        assert_eq!(Parameters::from_values(&graph, sound.clone()).unwrap().values(), sound);
        for (at, field) in
            [(0, "free speed"), (2, "wave speed"), (4, "jam density"), (6, "capacity")]
        {
            for bad in [0.0, -3.0, f64::NAN, f64::INFINITY] {
                let mut values = sound.clone();
                values[at + 1] = bad;
                let error = Parameters::from_values(&graph, values).unwrap_err().to_string();
                assert_eq!(error, format!("link `L1`: {field}: found {bad}, expected more than 0"));
            }
        }
        let error = Parameters::from_values(&graph, sound[1..].to_vec()).unwrap_err().to_string();
        assert_eq!(error, "parameters: found 10 numbers, expected 11");
        let mut values = sound;
        values[8] = 0.5;
        let error = Parameters::from_values(&graph, values).unwrap_err();
        assert_eq!(error, ModelError::Ratios { link: "L0".into(), sum: 0.5 });
        let error = Parameters::new(&network, &[], &[1.0, 0.0, 1.0]).unwrap_err().to_string();
        assert_eq!(error, "fundamental diagrams: found 0 numbers, expected 2");
    }

    #[test]
    fn diagrams_come_back_with_capacity_cut_to_the_triangle() {
        let road = road(500.0, 12.0);
        let graph = RoadGraph::of(&road);
        // 12 m/s, 6 m/s, 150 veh/km: the top is 36 veh/min.
        for (capacity, expected) in [(20.0, 20.0), (36.0, 36.0), (90.0, 36.0)] {
            let parameters =
                Parameters::from_values(&graph, vec![12.0, 6.0, 150.0, capacity, 1.0]).unwrap();
            let diagram = parameters.fundamental_diagram(0).unwrap();
            for (found, expected) in [
                (diagram.free_speed().get(), 12.0),
                (diagram.wave_speed().get(), 6.0),
                (diagram.jam_density().get(), 150.0),
                (diagram.capacity().get(), expected),
            ] {
                // To km a minute and back.
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
            let error = parameters.fundamental_diagram(1).unwrap_err();
            assert_eq!(error, ModelError::Shape { what: "link", found: 1, expected: 1 });
        }
    }

    fn diagram() -> Diagram {
        // 0.72 km/min, 0.36 km/min; 30 of 36 veh/min: trapezoid from 41.7 to 66.7 veh/km.
        Diagram { free: 0.72, wave: 0.36, jam: 150.0, capacity: 30.0 }
    }

    #[test]
    fn sending_and_receiving_are_those_of_the_diagram() {
        let d = diagram();
        for (density, sending, receiving) in [
            (-10.0, 0.0, 30.0),
            (0.0, 0.0, 30.0),
            (25.0, 18.0, 30.0),
            (50.0, 30.0, 30.0),
            (100.0, 30.0, 18.0),
            (150.0, 30.0, 0.0),
            (180.0, 30.0, 0.0),
        ] {
            assert!((d.sending(density) - sending).abs() < 1e-12, "{density}");
            assert!((d.receiving(density) - receiving).abs() < 1e-12, "{density}");
            assert!((d.leaving(density) - 0.72 * density.max(0.0)).abs() < 1e-12);
        }
    }

    /// Away from kinks, cotangents are those of central differences, of density and of all four parameters.
    #[test]
    fn derivatives_are_those_of_differences() {
        type Function = fn(&Diagram, f64) -> f64;
        type Vjp = fn(&Diagram, f64, f64, &mut DiagramCotangent) -> f64;
        let pairs: [(Function, Vjp); 3] = [
            (Diagram::leaving, Diagram::leaving_vjp),
            (Diagram::sending, Diagram::sending_vjp),
            (Diagram::receiving, Diagram::receiving_vjp),
        ];
        let draw = &mut Draw::new(3);
        for (function, vjp) in pairs {
            for density in [-5.0, 20.0, 35.0, 50.0, 80.0, 140.0, 160.0] {
                let given = draw.between(-2.0, 2.0);
                let mut found = DiagramCotangent::default();
                let d_density = vjp(&diagram(), density, given, &mut found);
                let h = 1e-6;
                let difference = |change: &dyn Fn(&mut Diagram, &mut f64, f64)| {
                    let at = |by: f64| {
                        let (mut d, mut k) = (diagram(), density);
                        change(&mut d, &mut k, by);
                        function(&d, k)
                    };
                    given * (at(h) - at(-h)) / (2.0 * h)
                };
                for (found, expected) in [
                    (d_density, difference(&|_, k, by| *k += by)),
                    (found.free, difference(&|d, _, by| d.free += by)),
                    (found.wave, difference(&|d, _, by| d.wave += by)),
                    (found.jam, difference(&|d, _, by| d.jam += by)),
                    (found.capacity, difference(&|d, _, by| d.capacity += by)),
                ] {
                    // Pieces are bilinear: only rounding of 1e-16·100/h is left.
                    assert!((found - expected).abs() < 1e-7, "{density}: {found} {expected}");
                }
            }
        }
    }

    #[test]
    fn gradients_are_added_in_the_units_of_the_vector() {
        let layout = ParameterLayout::new(2, 1);
        let mut gradient = vec![1.0; layout.len()];
        let d = DiagramCotangent { free: 10.0, wave: 20.0, jam: 30.0, capacity: 40.0 };
        d.add_to(layout, 1, &mut gradient);
        // 1 m/s is 0.06 km/min.
        let expected = [1.0, 1.6, 1.0, 2.2, 1.0, 31.0, 1.0, 41.0, 1.0, 1.0, 1.0];
        for (found, expected) in gradient.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{gradient:?}");
        }
    }
}
