//! What vehicles did at the ends of links: turns made, trips ended. Features may lack these tables.

use traffic::{LinkId, Network, Step, TurnId};

use super::{Features, FeaturesError};
use crate::table::{Column, ColumnKind, TableReader};

const BATCH_ROWS: usize = 1 << 16;

/// A fleet's movements, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MovementTable {
    /// Step, turn and vehicles that made it, where there were some.
    pub turns: Vec<(Step, TurnId, u32)>,
    /// Step, last link of a trip and vehicles that ended theirs there.
    pub ends: Vec<(Step, LinkId, u32)>,
}

impl MovementTable {
    pub(super) fn read(
        features: &Features,
        name: &str,
        network: &Network,
    ) -> Result<Self, FeaturesError> {
        let turns = rows(features, &format!("turns-{name}"), "turn", network.turns().len())?;
        let ends = rows(features, &format!("trips-{name}"), "destination", features.links)?;
        Ok(Self {
            turns: turns.into_iter().map(|(s, turn, n)| (s, TurnId(turn), n)).collect(),
            ends: ends.into_iter().map(|(s, link, n)| (s, LinkId(link), n)).collect(),
        })
    }
}

/// Step, number of a turn or link, and count of each row.
fn rows(
    features: &Features,
    table: &str,
    column: &str,
    places: usize,
) -> Result<Vec<(Step, u32, u32)>, FeaturesError> {
    let path = features.folder.join(format!("{table}.parquet"));
    // A guest may keep them to itself.
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reader = TableReader::open(&path)?;
    reader.want("step", ColumnKind::I64)?;
    reader.want(column, ColumnKind::I32)?;
    reader.want("count", ColumnKind::I32)?;
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    while reader.next_batch(BATCH_ROWS, &mut columns)? > 0 {
        let [Column::I64(steps), Column::I32(numbers), Column::I32(counts)] = &columns[..] else {
            continue;
        };
        for ((&step, &number), &count) in steps.iter().zip(numbers).zip(counts) {
            let place = u32::try_from(number).ok().filter(|place| (*place as usize) < places);
            let (Some(place), Ok(count)) = (place, u32::try_from(count)) else {
                let problem = format!(
                    "row {}: found {column} {number} and count {count}, expected a {column} below {places} and a count of 0 or more",
                    rows.len() + 1
                );
                return Err(FeaturesError::Mismatch { path, problem });
            };
            rows.push((Step(step), place, count));
        }
    }
    Ok(rows)
}
