//! The host's numbers: loops, signal clock, green.

use std::sync::Arc;

use traffic::{LinkId, Movement, Network, Step, StepClock, Window};

use super::{Arrangement, InputsError, Table, Writer, window_rows};
use crate::data::scales::HostScales;
use crate::data::sources::LoopData;
use crate::data::timeline::Timeline;
use crate::data::window_source::WindowSource;

/// Overtones of the signal cycle that make up the clock.
const HARMONICS: usize = 4;

/// The host's features, ready to be copied into samples.
pub struct HostInputs {
    timeline: Arc<Timeline>,
    arrangement: Arrangement,
    links: usize,
    /// `[row, loop]`: scaled counts and masks; by step: `[row, link]`.
    loops: Table,
    /// `[row, clock]`
    clock: Table,
    /// `[row, link]`: share of green.
    green: Table,
}

impl HostInputs {
    /// Reads loops with known scales.
    pub fn new(
        data: &LoopData,
        arrangement: Arrangement,
        scales: &HostScales,
    ) -> Result<Self, InputsError> {
        let timeline = Arc::clone(data.timeline());
        let network = timeline.network();
        let (found, expected) = (network.loops().len(), scales.loops.len());
        if found != expected {
            return Err(InputsError::Loops { found, expected });
        }
        let (mut loops, mut clock, mut green) =
            (Table::default(), Table::default(), Table::default());
        let steps = StepClock { length: timeline.step() };
        let cycle = common_cycle(network);
        for step in timeline.steps() {
            push_loops(&mut loops.values, data, arrangement, scales, step);
            if arrangement == Arrangement::ByLink {
                let middle = steps.start_of(step).get() + timeline.step().get() / 2.0;
                for harmonic in 1..=if cycle.is_some() { HARMONICS } else { 0 } {
                    let angle = std::f64::consts::TAU * harmonic as f64 * middle
                        / cycle.unwrap_or(f64::INFINITY);
                    clock.values.extend([angle.sin() as f32, angle.cos() as f32]);
                }
                for link in network.link_ids() {
                    green.values.push(green_share(network, steps, step, link) as f32);
                }
            }
        }
        loops.finish(&timeline, "loop counts")?;
        clock.finish(&timeline, "signal clock")?;
        green.finish(&timeline, "green shares")?;
        let links = network.links().len();
        Ok(Self { arrangement, links, loops, clock, green, timeline })
    }

    /// Steps of a window.
    pub fn window(&self) -> usize {
        self.timeline.window()
    }

    /// Numbers for the whole network, in one sample.
    pub(crate) fn shared(&self) -> usize {
        match self.arrangement {
            Arrangement::ByLink => self.window() * self.loops.width + self.clock.width,
            Arrangement::ByStep => 0,
        }
    }

    /// Numbers for each link, in one sample; by step: in one step.
    pub fn channels(&self) -> usize {
        match self.arrangement {
            Arrangement::ByLink => self.window(),
            Arrangement::ByStep => 1,
        }
    }

    /// Where a loop's counts are in a sample, step by step; `link` is the loop's.
    pub(crate) fn places_of_loop(&self, number: usize, link: LinkId) -> Vec<usize> {
        let steps = 0..self.window();
        match self.arrangement {
            Arrangement::ByLink => {
                // Each has a count and a mask.
                steps.map(|step| step * self.loops.width + 2 * number).collect()
            }
            Arrangement::ByStep => steps.map(|step| step * self.links + link.index()).collect(),
        }
    }

    /// Numbers of one sample.
    pub fn len(&self) -> usize {
        self.shared() + self.links * self.window()
    }

    /// Whether a sample holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the sample of a window that the data hold, given by its last step.
    ///
    /// # Panics
    /// If `sample` has not [`len`](Self::len) numbers.
    pub fn write(&self, last: Step, sample: &mut [f32]) {
        let rows = window_rows(&self.timeline, last);
        let mut writer = Writer::new(sample, self.len());
        rows.clone().for_each(|row| writer.put(self.loops.row(row)));
        if self.arrangement == Arrangement::ByLink {
            writer.put(self.clock.row(rows.end - 1));
            for link in 0..self.links {
                rows.clone().for_each(|row| writer.put(&self.green.row(row)[link..=link]));
            }
        }
    }
}

impl WindowSource for HostInputs {
    fn row_len(&self) -> usize {
        self.len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.write(window.last, to);
    }
}

fn push_loops(
    to: &mut Vec<f32>,
    data: &LoopData,
    arrangement: Arrangement,
    scales: &HostScales,
    step: Step,
) {
    let counts = data.counts(step).iter().zip(&scales.loops);
    let scaled = counts.map(|(count, scale)| count.map(|count| scale.apply(count)));
    match arrangement {
        Arrangement::ByLink => {
            for count in scaled {
                let seen = f32::from(u8::from(count.is_some()));
                to.extend([count.unwrap_or(0.0), seen]);
            }
        }
        Arrangement::ByStep => {
            let network = data.timeline().network();
            let from = to.len();
            to.resize(from + network.links().len(), 0.0);
            for (count, detector) in scaled.zip(network.loops()) {
                to[from + detector.link.index()] = count.unwrap_or(0.0);
            }
        }
    }
}

/// The cycle that all signals share, in seconds; the first one's where they differ.
fn common_cycle(network: &Network) -> Option<f64> {
    network.signals().first().map(|signal| signal.cycle().get())
}

/// Share of a step during which traffic may leave a link: the mean over its movements.
fn green_share(network: &Network, clock: StepClock, step: Step, link: LinkId) -> f64 {
    let (from, to) = (clock.start_of(step), clock.start_of(Step(step.0 + 1)));
    let share = |to_link: Option<LinkId>| {
        let movement = Movement { from: link, to: to_link };
        network.signal_of(movement).map_or(1.0, |signal| signal.green_share(movement, from, to))
    };
    let turns = network.outgoing(link);
    if turns.is_empty() {
        return share(None);
    }
    turns.iter().map(|&turn| share(Some(network.turn(turn).to))).sum::<f64>() / turns.len() as f64
}
