//! A fleet's share of all vehicles, where queue profiles need it: from the host's loops, from its own queue positions, or as stated.

use std::fmt;

use physics::queue::QueueError;

/// Two shares that differ by more than this factor contradict each other.
const CONTRADICTION: f64 = 1.5;

/// What each source says, and what is used: loops, if the host helps; else queue positions, unless they contradict what is
/// stated; else what is stated. A fleet that states to be all vehicles of its dataset, as one with a dataset of its own
/// does, has stated nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FleetShare {
    /// The share that is used.
    pub used: f64,
    /// By the host's loops.
    pub by_loops: Option<f64>,
    /// By the fleet's positions in queues.
    pub by_queues: Option<f64>,
    /// As the fleet's name says.
    pub stated: Option<f64>,
}

impl FleetShare {
    /// From what each source says; an error if none says anything.
    pub(super) fn of(
        by_loops: Option<f64>,
        by_queues: Result<f64, QueueError>,
        stated: f64,
    ) -> Result<Self, QueueError> {
        let stated = some_share(stated);
        let own = match (&by_queues, stated) {
            (Ok(found), Some(stated)) if contradict(*found, stated) => stated,
            (Ok(found), _) => *found,
            (Err(_), Some(stated)) => stated,
            (Err(error), None) if by_loops.is_none() => return Err(error.clone()),
            (Err(_), None) => 1.0,
        };
        let by_queues = by_queues.ok();
        Ok(Self { used: by_loops.unwrap_or(own), by_loops, by_queues, stated })
    }

    /// Without queue positions.
    pub fn by_loops(by_loops: Option<f64>, stated: f64) -> Self {
        let used = by_loops.unwrap_or(stated);
        Self { used, by_loops, by_queues: None, stated: some_share(stated) }
    }

    /// Whether no source says anything: the fleet counts as all vehicles.
    pub fn is_unknown(&self) -> bool {
        self.by_loops.is_none() && self.by_queues.is_none() && self.stated.is_none()
    }

    /// Whether two sources contradict each other.
    pub fn is_contradictory(&self) -> bool {
        let told: Vec<f64> =
            [self.by_loops, self.by_queues, self.stated].into_iter().flatten().collect();
        told.iter().any(|one| told.iter().any(|other| contradict(*one, *other)))
    }
}

fn some_share(stated: f64) -> Option<f64> {
    Some(stated).filter(|share| *share > 0.0 && *share < 1.0)
}

fn contradict(one: f64, other: f64) -> bool {
    one > CONTRADICTION * other || other > CONTRADICTION * one
}

impl fmt::Display for FleetShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share of all vehicles: {:.1} %", 100.0 * self.used)?;
        let sources = [
            (self.by_loops, "by loops"),
            (self.by_queues, "by queue positions"),
            (self.stated, "as stated"),
        ];
        let told = sources.iter().filter_map(|(share, what)| Some((100.0 * (*share)?, what)));
        let told: Vec<String> = told.map(|(share, what)| format!("{share:.1} % {what}")).collect();
        if !told.is_empty() {
            write!(f, " ({})", told.join(", "))?;
        }
        if self.is_contradictory() {
            write!(f, "; warning: these contradict each other")?;
        }
        if self.is_unknown() {
            write!(
                f,
                "; warning: neither loops nor the fleet tell it, so the fleet is taken for all vehicles"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> QueueError {
        QueueError::Number { what: "stops", found: 3.0, expected: "at least 30" }
    }

    #[test]
    fn the_best_source_counts_and_contradictions_are_told() -> Result<(), QueueError> {
        // As a grid's queues once said of a fleet of 20 %.
        let share = FleetShare::of(None, Ok(0.012), 0.2)?;
        assert_eq!(share.used, 0.2);
        assert_eq!(
            share.to_string(),
            "share of all vehicles: 20.0 % (1.2 % by queue positions, 20.0 % as stated); warning: these contradict each other"
        );
        let share = FleetShare::of(None, Ok(0.17), 0.2)?;
        assert!(share.used == 0.17 && !share.is_contradictory());
        let share = FleetShare::of(Some(0.21), Ok(0.012), 0.2)?;
        assert!(share.used == 0.21 && share.is_contradictory());
        // Whoever has a dataset of its own states nothing.
        assert_eq!(FleetShare::of(None, Ok(0.3), 1.0)?.used, 0.3);
        assert_eq!(FleetShare::of(None, Err(error()), 0.2)?.used, 0.2);
        assert_eq!(FleetShare::of(None, Err(error()), 1.0), Err(error()));
        Ok(())
    }
}
