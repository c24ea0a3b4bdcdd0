//! Edie's definitions of density, flow and speed in a box of space and time.
//!
//! In a box of link length `L`, `lanes` lanes and duration `Δt`, with `τ` the total time spent and
//! `ξ` the total distance travelled in it by all vehicles:
//!
//! ```text
//! density k = τ / (L·lanes·Δt)      flow q = ξ / (L·lanes·Δt)      speed v = ξ / τ
//! ```
//!
//! [`cut`] divides one straight piece of a trajectory exactly at the borders of cells and
//! sub-steps. A box with no vehicle has *no* speed.

use std::ops::AddAssign;

use crate::network::Link;
use crate::state::LinkState;
use crate::units::{Metres, MetresPerSecond, Seconds, VehPerKmLane, VehPerMinLane};

/// Totals of one box: the numerators of Edie's definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Time that vehicles spent in the box.
    pub time: Seconds,
    /// Distance that they travelled in it.
    pub distance: Metres,
}

impl Totals {
    /// Density and flow in a box of a whole link and a duration.
    pub fn state(self, link: &Link, duration: Seconds) -> LinkState {
        let lane_km_seconds = link.lane_length().get() / 1000.0 * duration.get();
        let lane_metre_minutes = link.lane_length().get() * duration.get() / 60.0;
        LinkState {
            density: VehPerKmLane::new(self.time.get() / lane_km_seconds),
            flow: VehPerMinLane::new(self.distance.get() / lane_metre_minutes),
        }
    }

    /// Mean speed; none where no time was spent.
    pub fn speed(self) -> Option<MetresPerSecond> {
        (self.time > Seconds::ZERO).then(|| self.distance / self.time)
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.distance += other.distance;
    }
}

/// Straight motion along one link: from `x0` at `t0` to `x1 ≥ x0` at `t1 > t0` (metres, seconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// Start time.
    pub t0: f64,
    /// Start position.
    pub x0: f64,
    /// End time.
    pub t1: f64,
    /// End position.
    pub x1: f64,
}

/// How a link and time are divided into boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boxes {
    /// Length of a cell in metres.
    pub cell: f64,
    /// Cells on the link.
    pub cells: usize,
    /// Length of a sub-step in seconds.
    pub sub_step: f64,
}

impl Boxes {
    /// The cell of a position, and where it ends: the last one never does.
    #[inline(always)]
    pub fn cell_at(&self, x: f64) -> (usize, f64) {
        // By i64, which processors convert from and to at once.
        let last = self.cells as i64 - 1;
        let cell = ((x / self.cell) as i64).max(0).min(last);
        let end = if cell == last { f64::INFINITY } else { (cell + 1) as f64 * self.cell };
        (cell as usize, end)
    }

    /// The sub-step of a time, from time zero, and when it ends.
    #[inline(always)]
    pub fn sub_step_at(&self, t: f64) -> (i64, f64) {
        let sub_step = floor(t / self.sub_step);
        (sub_step, (sub_step + 1) as f64 * self.sub_step)
    }
}

/// Cuts a motion at all borders and hands each piece to `piece(sub_step, cell, seconds, metres)`.
///
/// Sub-steps are numbered from time zero. The pieces' times and distances add up to the motion's
/// own, to rounding. A vehicle standing on a border belongs to the box ahead, at the link's end to
/// the last cell.
///
/// ```
/// use traffic::{Boxes, Motion, cut};
/// let boxes = Boxes { cell: 20.0, cells: 6, sub_step: 5.0 };
/// let mut pieces = Vec::new();
/// // 10 m/s from x = 15 at t = 4 to x = 35 at t = 6: cut at x = 20 (t = 4.5) and t = 5 (x = 25).
/// cut(Motion { t0: 4.0, x0: 15.0, t1: 6.0, x1: 35.0 }, boxes, |s, c, t, x| pieces.push((s, c, t, x)));
/// assert_eq!(pieces, [(0, 0, 0.5, 5.0), (0, 1, 0.5, 5.0), (1, 1, 1.0, 10.0)]);
/// ```
#[inline(always)]
pub fn cut(motion: Motion, boxes: Boxes, mut piece: impl FnMut(i64, usize, f64, f64)) {
    let Motion { t0, x0, t1, x1 } = motion;
    let here = BoxBorders::at(t0, x0, boxes);
    // Most pieces of a dense trajectory lie in one box: no division of the motion is needed.
    if x1 <= here.next_x && t1 <= here.next_t {
        piece(here.sub_step, here.cell, t1 - t0, x1 - x0);
    } else {
        cut_across(motion, boxes, here, &mut piece);
    }
}

/// Cuts a motion at the borders of cells alone, for one that begins in a known cell and lies within
/// one sub-step, and hands each piece to `piece(cell, seconds, metres)`: the pieces are those of
/// [`cut`], to rounding. Returns the cell of its end; a vehicle on a border is in the cell ahead.
#[inline(always)]
pub fn cut_cells(
    motion: Motion,
    boxes: Boxes,
    cell: usize,
    mut piece: impl FnMut(usize, f64, f64),
) -> usize {
    let Motion { t0, x0, t1, x1 } = motion;
    let end_of = |cell: usize| (cell as i64 + 1) as f64 * boxes.cell;
    let (last, slowness) = (boxes.cells - 1, (t1 - t0) / (x1 - x0));
    let (mut cell, mut t, mut x) = (cell, t0, x0);
    while cell < last && end_of(cell) < x1 {
        let border = end_of(cell);
        // Rounding may put the border a hair outside of the time that is left.
        let t_cut = (t0 + slowness * (border - x0)).max(t).min(t1);
        piece(cell, t_cut - t, border - x);
        (t, x) = (t_cut, border);
        cell += 1;
    }
    piece(cell, t1 - t, x1 - x);
    if cell < last && end_of(cell) <= x1 { cell + 1 } else { cell }
}

/// A box of cell and sub-step, and its borders ahead.
struct BoxBorders {
    cell: usize,
    sub_step: i64,
    next_x: f64,
    next_t: f64,
}

impl BoxBorders {
    #[inline(always)]
    fn at(t: f64, x: f64, boxes: Boxes) -> Self {
        let (cell, next_x) = boxes.cell_at(x);
        let (sub_step, next_t) = boxes.sub_step_at(t);
        Self { cell, sub_step, next_x, next_t }
    }
}

fn cut_across(
    motion: Motion,
    boxes: Boxes,
    from: BoxBorders,
    piece: &mut impl FnMut(i64, usize, f64, f64),
) {
    let Motion { t0, x0, t1, x1 } = motion;
    let BoxBorders { mut cell, mut sub_step, mut next_x, mut next_t } = from;
    let last_cell = boxes.cells - 1;
    let (duration, length) = (t1 - t0, x1 - x0);
    let (mut t, mut x) = (t0, x0);
    loop {
        // When the next cell border is reached, were the vehicle to go on like this.
        let t_at_border =
            if next_x < x1 { t0 + duration * ((next_x - x0) / length) } else { f64::INFINITY };
        if t_at_border >= t1 && next_t >= t1 {
            break;
        }
        if t_at_border <= next_t {
            // Rounding may put the border a hair before the last cut: never go back.
            let t_cut = t_at_border.max(t);
            piece(sub_step, cell, t_cut - t, next_x - x);
            (t, x) = (t_cut, next_x);
            cell += 1;
            next_x = if cell >= last_cell { f64::INFINITY } else { (cell + 1) as f64 * boxes.cell };
            if t_at_border == next_t {
                sub_step += 1;
                next_t = (sub_step + 1) as f64 * boxes.sub_step;
            }
        } else {
            let x_cut = (x0 + length * ((next_t - t0) / duration)).clamp(x, next_x.min(x1));
            piece(sub_step, cell, next_t - t, x_cut - x);
            (t, x) = (next_t, x_cut);
            sub_step += 1;
            next_t = (sub_step + 1) as f64 * boxes.sub_step;
        }
    }
    piece(sub_step, cell, t1 - t, x1 - x);
}

/// `floor` of what fits an `i64`, without the call that it is on processors of any age.
#[inline]
fn floor(value: f64) -> i64 {
    let towards_zero = value as i64;
    towards_zero - i64::from(towards_zero as f64 > value)
}

#[cfg(test)]
mod tests;
