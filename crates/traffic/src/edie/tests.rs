use proptest::prelude::*;

use super::*;

fn pieces(motion: Motion, boxes: Boxes) -> Vec<(i64, usize, f64, f64)> {
    let mut pieces = Vec::new();
    cut(motion, boxes, |s, c, t, x| pieces.push((s, c, t, x)));
    pieces
}

const BOXES: Boxes = Boxes { cell: 20.0, cells: 5, sub_step: 5.0 };

#[test]
fn a_stop_fills_the_boxes_in_time_only() {
    let stop = Motion { t0: 3.0, x0: 50.0, t1: 16.0, x1: 50.0 };
    assert_eq!(
        pieces(stop, BOXES),
        [(0, 2, 2.0, 0.0), (1, 2, 5.0, 0.0), (2, 2, 5.0, 0.0), (3, 2, 1.0, 0.0)]
    );
}

#[test]
fn the_stop_line_belongs_to_the_last_cell() {
    let stop = Motion { t0: 0.0, x0: 100.0, t1: 1.0, x1: 100.0 };
    assert_eq!(pieces(stop, BOXES), [(0, 4, 1.0, 0.0)]);
}

#[test]
fn both_borders_at_once_give_one_cut() {
    // 4 m/s: x = 20 exactly at t = 5.
    let motion = Motion { t0: 0.0, x0: 0.0, t1: 10.0, x1: 40.0 };
    assert_eq!(pieces(motion, BOXES), [(0, 0, 5.0, 20.0), (1, 1, 5.0, 20.0)]);
}

#[test]
fn uniform_traffic_gives_its_own_density_flow_and_speed() {
    // 30 veh/km on one lane at 10 m/s, periodic road of 100 m: 3 vehicles always present.
    let link = crate::network::Link {
        name: "ring".into(),
        length: Metres::new(100.0),
        junction: Metres::ZERO,
        lanes: 1,
        speed: MetresPerSecond::new(10.0),
        shape: vec![[0.0, 0.0].into(), [100.0, 0.0].into()],
    };
    let mut totals = Totals::default();
    for start in [0.0, 100.0 / 3.0, 200.0 / 3.0] {
        // In 10 s every vehicle goes once around: two pieces.
        let turn = (100.0 - start) / 10.0;
        for motion in [
            Motion { t0: 0.0, x0: start, t1: turn, x1: 100.0 },
            Motion { t0: turn, x0: 0.0, t1: 10.0, x1: start },
        ] {
            if motion.t1 > motion.t0 {
                cut(motion, BOXES, |_, _, t, x| {
                    totals += Totals { time: Seconds::new(t), distance: Metres::new(x) };
                });
            }
        }
    }
    let state = totals.state(&link, Seconds::new(10.0));
    // Sums of three thirds: rounding only.
    assert!((state.density.get() - 30.0).abs() < 1e-12);
    assert!((state.flow.get() - 18.0).abs() < 1e-12);
    assert!((state.speed().unwrap().get() - 10.0).abs() < 1e-12);
    assert_eq!(Totals::default().speed(), None);
}

proptest! {
    /// Whatever the motion and the boxes, pieces lie in their boxes and add up to the motion.
    #[test]
    fn pieces_partition_the_motion(
        t0 in -50.0..50.0f64,
        duration in 1e-6..40.0f64,
        from in 0.0..1.0f64,
        to in 0.0..1.0f64,
        cell in 0.5..50.0f64,
        cells in 1usize..8,
        sub_step in 0.1..20.0f64,
    ) {
        let boxes = Boxes { cell, cells, sub_step };
        let length = cell * cells as f64;
        let (x0, x1) = (from.min(to) * length, from.max(to) * length);
        let motion = Motion { t0, x0, t1: t0 + duration, x1 };
        let speed = (x1 - x0) / (motion.t1 - t0);
        let (mut t, mut x) = (t0, x0);
        for (sub, index, seconds, metres) in pieces(motion, boxes) {
            prop_assert!(seconds >= 0.0 && metres >= 0.0 && index < cells);
            // Tolerances: a few roundings of numbers up to 100.
            prop_assert!(t >= sub as f64 * sub_step - 1e-9);
            prop_assert!(t + seconds <= (sub + 1) as f64 * sub_step + 1e-9);
            prop_assert!(x >= index as f64 * cell - 1e-9);
            prop_assert!(x + metres <= (index + 1) as f64 * cell + 1e-9);
            prop_assert!((metres - speed * seconds).abs() <= 1e-9 * (1.0 + speed));
            t += seconds;
            x += metres;
        }
        prop_assert!((t - motion.t1).abs() < 1e-11);
        prop_assert!((x - motion.x1).abs() < 1e-11);
    }

    /// Within a sub-step, cutting at cells alone gives the same pieces.
    #[test]
    fn cells_alone_give_the_same_pieces_within_a_sub_step(
        // Quarters of a cell: motion often begins and ends on borders.
        from in 0u32..24,
        quarters in 0u32..24,
        off in prop::sample::select(vec![0.0, 1e-3]),
        cell in 0.5..50.0f64,
        t0 in 0.0..50.0f64,
        duration in 1e-3..50.0f64,
    ) {
        let boxes = Boxes { cell, cells: 6, sub_step: 1000.0 };
        let place = |quarters: u32| f64::from(quarters.min(24)) / 4.0 * cell;
        let (x0, x1) = (place(from), (place(from + quarters) + off).min(6.0 * cell));
        let motion = Motion { t0, x0, t1: t0 + duration, x1 };
        let mut found = Vec::new();
        let (first, _) = boxes.cell_at(x0);
        let last = cut_cells(motion, boxes, first, |index, t, x| found.push((index, t, x)));
        let expected = pieces(motion, boxes);
        prop_assert_eq!(found.len(), expected.len());
        for ((index, t, x), (_, expected_index, expected_t, expected_x)) in
            found.into_iter().zip(expected)
        {
            prop_assert_eq!(index, expected_index);
            // Roundings of numbers up to 300.
            prop_assert!((t - expected_t).abs() < 1e-11 && (x - expected_x).abs() < 1e-11);
        }
        prop_assert!(last == 5 || ((last + 1) as f64 * cell > x1 && last as f64 * cell <= x1));
    }
}
