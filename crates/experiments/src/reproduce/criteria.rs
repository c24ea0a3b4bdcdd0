//! What must hold in all worlds: a row's error over that of the best of others, and a limit of these ratios.

use serde::{Deserialize, Serialize};

use super::cells::{Quantity, mean};
use super::table::TableRow;

/// See the [module](self).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Criterion {
    /// A row's label; a criterion of a row that the plan does not have is left out.
    pub ours: &'static str,
    pub others: Vec<String>,
    pub statistic: Statistic,
    /// Its limit.
    pub at_most: f64,
}

/// Of the ratios in all cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Statistic {
    Worst,
    Median,
}

/// How one criterion was met in the cells that ours and at least one of the others have.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    #[serde(flatten)]
    pub criterion: Criterion,
    pub quantity: Quantity,
    /// Cells compared.
    pub cells: usize,
    /// Cells in which the ratio is within the limit, whichever statistic it is for.
    pub within: usize,
    /// None where there is nothing to compare.
    pub median: Option<f64>,
    pub worst: Option<f64>,
    /// The column of the worst.
    pub worst_in: String,
    /// Columns in which ours has no number.
    pub without_ours: usize,
    pub holds: bool,
}

impl Verdict {
    /// Over all columns, on the demand seeds that both have. None if there is no such row.
    pub(super) fn of(
        criterion: &Criterion,
        quantity: Quantity,
        rows: &[TableRow],
        columns: &[String],
    ) -> Option<Self> {
        let row = |label: &str| rows.iter().find(|row| row.label == label);
        let ours = row(criterion.ours)?.cells.first()?;
        let mut ratios = Vec::new();
        for (at, (mine, name)) in ours.iter().zip(columns).enumerate() {
            let Some(mine) = mine else { continue };
            let mean_ratio = |label: &String| {
                let other = row(label)?.cells.first()?.get(at)?.as_ref()?;
                let pairs = mine.demand_seeds.iter().filter_map(|&seed| {
                    Some((mine.rmse_of(quantity, seed)?, other.rmse_of(quantity, seed)?))
                });
                let pairs: Vec<(f64, f64)> = pairs.collect();
                let theirs = mean(pairs.iter().map(|pair| pair.1));
                (theirs > 0.0).then(|| mean(pairs.iter().map(|pair| pair.0)) / theirs)
            };
            // Over the best of the others: the largest ratio.
            let ratio = criterion.others.iter().filter_map(mean_ratio).reduce(f64::max);
            ratios.extend(ratio.map(|ratio| (ratio, name)));
        }
        if criterion.others.iter().all(|label| row(label).is_none()) {
            return None;
        }
        let worst = ratios.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
        let (worst, worst_in) = worst.unzip();
        let median = median(ratios.iter().map(|(ratio, _)| *ratio).collect());
        let most = criterion.at_most;
        let judged = match criterion.statistic {
            Statistic::Worst => worst,
            Statistic::Median => median,
        };
        let without_ours = ours.iter().filter(|cell| cell.is_none()).count();
        Some(Self {
            criterion: criterion.clone(),
            quantity,
            cells: ratios.len(),
            within: ratios.iter().filter(|(ratio, _)| *ratio <= most).count(),
            median,
            worst,
            worst_in: worst_in.cloned().unwrap_or_default(),
            without_ours,
            holds: judged.is_some_and(|judged| judged <= most) && without_ours == 0,
        })
    }
}

/// The middle one, or the mean of the middle two.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(half).copied(),
        _ => Some((values.get(half.checked_sub(1)?)? + values.get(half)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use estimator::{Errors, Score};

    use super::super::cells::Cell;
    use super::super::variant::Variant;
    use super::*;

    fn row(label: &'static str, values: &[Option<f64>]) -> TableRow {
        let cell = |value: &Option<f64>| {
            let errors = |rmse| Errors { rmse, mae: 0.0 };
            let score = |rmse| Score { density: errors(rmse), flow: errors(1.0) };
            value.and_then(|rmse| Cell::of(&[(1, score(rmse))]))
        };
        TableRow {
            label,
            estimator: String::new(),
            architecture: None,
            variant: Variant::USUAL,
            cells: vec![values.iter().map(cell).collect()],
            validation: None,
        }
    }

    #[test]
    fn a_ratio_is_over_the_best_of_the_others() {
        let rows = [
            row("ours", &[Some(3.0), Some(5.0), Some(2.0), None]),
            row("a", &[Some(4.0), Some(4.0), None, Some(1.0)]),
            row("b", &[Some(6.0), Some(10.0), Some(4.0), Some(1.0)]),
        ];
        let columns = ["w", "x", "y", "z"].map(String::from);
        let of = |statistic| {
            let others = vec!["a".to_owned(), "b".to_owned()];
            let criterion = Criterion { ours: "ours", others, statistic, at_most: 1.0 };
            Verdict::of(&criterion, Quantity::Density, &rows, &columns).unwrap()
        };
        // 3/4, 5/4, 2/4; ours has none in the last.
        let found = of(Statistic::Worst);
        assert_eq!((found.cells, found.within, found.without_ours), (3, 2, 1));
        assert_eq!(
            (found.median, found.worst, found.worst_in.as_str()),
            (Some(0.75), Some(1.25), "x")
        );
        assert!(!found.holds && !of(Statistic::Median).holds);
        let rows = &rows[..2];
        let (others, statistic) = (vec!["ours".to_owned()], Statistic::Worst);
        let criterion = Criterion { ours: "a", others, statistic, at_most: 2.0 };
        let found = Verdict::of(&criterion, Quantity::Density, rows, &columns).unwrap();
        // "a" misses one cell: what is missing is no better than what is bad.
        assert_eq!((found.worst, found.holds), (Some(4.0 / 3.0), false));
        let absent = Criterion { ours: "absent", ..criterion };
        assert!(Verdict::of(&absent, Quantity::Density, rows, &columns).is_none());
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
