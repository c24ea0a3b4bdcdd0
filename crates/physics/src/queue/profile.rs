//! The queue of a link over a cycle, from the curves of entering and leaving.

use super::road::Road;

/// The curves of a cycle, with some time before and after, and what follows from them.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) road: Road,
    /// Time of the first border of slots.
    pub(super) begin: f64,
    pub(super) slot: f64,
    /// Vehicles that have entered by each border.
    pub(super) entered: Vec<f64>,
    /// Vehicles that have left by each border.
    pub(super) left: Vec<f64>,
}

/// Parts into which a link is cut to look for the queue and to take means over it.
const PARTS: usize = 8;
/// Rounding of the solver, in vehicles.
const SAME: f64 = 1e-3;

impl Profile {
    /// Vehicles that have entered by a time.
    pub(crate) fn entered(&self, time: f64) -> f64 {
        self.along(&self.entered, time)
    }

    /// Vehicles that have left by a time.
    pub(crate) fn left(&self, time: f64) -> f64 {
        self.along(&self.left, time)
    }

    /// Vehicles on the link.
    pub fn vehicles(&self, time: f64) -> f64 {
        (self.entered(time) - self.left(time)).clamp(0.0, self.road.room())
    }

    /// The number of the vehicle at a distance from the stop line.
    pub fn number(&self, time: f64, distance: f64) -> f64 {
        self.free(time, distance).min(self.held(time, distance))
    }

    /// Metres from the stop line to the back of the queue; 0 without one.
    pub fn back(&self, time: f64) -> f64 {
        let length = self.road.length;
        // The furthest part that is queued, then the border within the next.
        let parts = 4 * PARTS;
        let place = |part: usize| length * part as f64 / parts as f64;
        let Some(last) = (0..=parts).rev().find(|&part| self.queued(time, place(part))) else {
            return 0.0;
        };
        if last == parts {
            return length;
        }
        let (mut queued, mut free) = (place(last), place(last + 1));
        for _ in 0..30 {
            let middle = 0.5 * (queued + free);
            if self.queued(time, middle) {
                queued = middle;
            } else {
                free = middle;
            }
        }
        queued
    }

    /// Metres from the stop line to where the queue still stands; at most the back.
    #[cfg(test)]
    pub(crate) fn front(&self, time: f64) -> f64 {
        let back = self.back(time);
        let wave = self.road.wave_speed;
        let slowest = 0.05 * self.road.capacity;
        let parts = 4 * PARTS;
        (0..=parts)
            .map(|part| back * part as f64 / parts as f64)
            .find(|distance| {
                let then = time - distance / wave;
                self.left(then) - self.left(then - 1.0) <= slowest
            })
            .unwrap_or(back)
    }

    /// Vehicles that passed between two times, the mean over the link: Edie's flow times the time.
    pub(crate) fn passed(&self, from: f64, to: f64) -> f64 {
        let mut sum = 0.0;
        for part in 0..=PARTS {
            let weight = if part == 0 || part == PARTS { 0.5 } else { 1.0 };
            let distance = self.road.length * part as f64 / PARTS as f64;
            sum += weight * (self.number(to, distance) - self.number(from, distance));
        }
        (sum / PARTS as f64).max(0.0)
    }

    /// The mean number of vehicles between two times, times their difference.
    pub(crate) fn vehicle_seconds(&self, from: f64, to: f64) -> f64 {
        // The curves are straight between borders: the trapezoid is exact.
        let mut sum = 0.0;
        let mut begin = from;
        while begin < to {
            let border =
                self.begin + (((begin - self.begin) / self.slot).floor() + 1.0) * self.slot;
            // Rounding may leave a border where it was.
            let end = if border > begin { border.min(to) } else { to };
            sum += 0.5 * (self.vehicles(begin) + self.vehicles(end)) * (end - begin);
            begin = end;
        }
        sum
    }

    /// Were nobody in the way.
    fn free(&self, time: f64, distance: f64) -> f64 {
        let way = self.road.length - distance;
        self.entered(time - way / self.road.free_speed)
    }

    /// With a queue from the stop line on.
    fn held(&self, time: f64, distance: f64) -> f64 {
        self.left(time - distance / self.road.wave_speed) + self.road.jam * distance
    }

    fn queued(&self, time: f64, distance: f64) -> bool {
        self.held(time, distance) < self.free(time, distance) - SAME
    }

    /// A curve at a time; flat before and after.
    fn along(&self, curve: &[f64], time: f64) -> f64 {
        let Some(last) = curve.len().checked_sub(1) else { return 0.0 };
        let place = ((time - self.begin) / self.slot).clamp(0.0, last as f64);
        let at = (place as usize).min(last.saturating_sub(1));
        let next = (at + 1).min(last);
        curve[at] + (curve[next] - curve[at]) * (place - at as f64)
    }
}
