//! A table as Markdown that is also readable on a terminal.

use std::fmt::Write;

use estimator::TargetKind;

use super::cells::{Cell, Quantity};
use super::table::{Compared, QUANTITIES, Table, TableRow};

/// The whole text.
pub(super) fn render(table: &Table) -> String {
    let head = &table.head;
    let mut text = head.text();
    let _ = write!(
        text,
        "Errors on the test part over the target links: mean ± standard deviation over {},\neach the mean over training seeds. Best of a column in bold.\n",
        head.seeds
    );
    text += &head.missing();
    for (at, &target) in table.targets.iter().enumerate() {
        let what = match target {
            TargetKind::Raw => "Raw targets: states of single steps of 10 s",
            TargetKind::Smooth => "Smooth targets: trailing means over 60 s",
        };
        let _ = write!(text, "\n## {what}\n");
        for (place, quantity) in QUANTITIES.into_iter().enumerate() {
            let unit = quantity.pick("density, veh/km/lane", "flow, veh/min/lane");
            let _ = write!(text, "\nRMSE of {unit}:\n\n");
            text += &errors(table, at, quantity, place);
        }
        text += &choices(table, at);
        text += &gains(table, target);
    }
    text + &head.remarks()
}

fn errors(table: &Table, at: usize, quantity: Quantity, place: usize) -> String {
    let mut grid = vec![header(table, "")];
    let best: Vec<f64> = (0..table.columns.len())
        .map(|column| {
            let means = table.rows.iter().filter_map(|row| mean_of(row, at, column, quantity));
            means.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let run = |row: &&TableRow| row.cells[at].iter().any(Option::is_some);
    for row in table.rows.iter().filter(run) {
        let cells = row.cells[at].iter().zip(&best).map(|(cell, best)| match cell {
            Some(cell) => shown(cell, quantity, *best, table),
            None => "–".to_owned(),
        });
        grid.push([row.label.to_owned()].into_iter().chain(cells).collect());
    }
    for row in &table.paper {
        let cells = row.rmse[place].iter();
        let cells =
            cells.map(|value| value.map_or("–".to_owned(), |value| format!("{value:.2}")));
        grid.push([format!("*paper: {}*", row.label)].into_iter().chain(cells).collect());
    }
    aligned(&grid)
}

/// Density and flow of the rows among which one was chosen, on the validation part; nothing if
/// there are none.
fn choices(table: &Table, at: usize) -> String {
    let mut grid = vec![header(table, "")];
    for row in &table.rows {
        let Some(cells) = row.validation.as_ref().and_then(|targets| targets.get(at)) else {
            continue;
        };
        let cells = cells.iter().map(|cell| match cell {
            Some(cell) => {
                let mean = |quantity| cell.rmse(quantity).mean;
                format!("{:.2} / {:.2}", mean(Quantity::Density), mean(Quantity::Flow))
            }
            None => "–".to_owned(),
        });
        grid.push([row.label.to_owned()].into_iter().chain(cells).collect());
    }
    if grid.len() == 1 {
        return String::new();
    }
    "\nWhere one of several was to be chosen: RMSE of density / flow on the validation part:\n\n"
        .to_owned()
        + &aligned(&grid)
}

fn mean_of(row: &TableRow, at: usize, column: usize, quantity: Quantity) -> Option<f64> {
    Some(row.cells[at].get(column)?.as_ref()?.rmse(quantity).mean)
}

fn shown(cell: &Cell, quantity: Quantity, best: f64, table: &Table) -> String {
    let spread = cell.rmse(quantity);
    let mut text = format!("{:.2}", spread.mean);
    if spread.mean <= best {
        text = format!("**{text}**");
    }
    if let Some(deviation) = spread.deviation {
        let _ = write!(text, " ± {deviation:.2}");
    }
    if cell.demand_seeds.len() < table.head.demand_seeds.len() {
        let _ = write!(text, " ({})", cell.demand_seeds.len());
    }
    text
}

/// How much lower the errors are than others'; nothing if there is nothing to compare.
fn gains(table: &Table, target: TargetKind) -> String {
    let rows: Vec<&Compared> = table.comparisons.iter().filter(|c| c.target == target).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut grid = vec![header(table, "")];
    for row in rows {
        let quantity = row.quantity.pick("density", "flow");
        let cells = row.gains.iter().enumerate().map(|(column, gain)| {
            let mut text = match gain {
                Some(gain) if gain.not_run.is_empty() => format!("{:+.1} %", gain.percent),
                Some(gain) => format!("{:+.1} %†", gain.percent),
                None => "–".to_owned(),
            };
            if let Some(Some(paper)) = row.paper.as_ref().and_then(|paper| paper.get(column)) {
                let _ = write!(text, " *(paper {paper:+.0} %)*");
            }
            text
        });
        let label = format!("{}, than {}: {quantity}", row.ours, row.than);
        grid.push([label].into_iter().chain(cells).collect());
    }
    let mut text =
        "\nBy how much the RMSE is lower than that of others (negative: higher):\n\n".to_owned();
    text += &aligned(&grid);
    if text.contains('†') {
        text += "\n† Not all of these others have been run: one could be better.\n";
    }
    text
}

fn header(table: &Table, first: &str) -> Vec<String> {
    [first.to_owned()].into_iter().chain(table.columns.iter().cloned()).collect()
}

/// A Markdown table whose columns are as wide as their widest place.
pub(super) fn aligned(grid: &[Vec<String>]) -> String {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |column: usize| {
        grid.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0).max(3)).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (text, &width))| {
            if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> = widths
        .iter()
        .enumerate()
        .map(
            |(column, &width)| {
                if column == 0 { "-".repeat(width) } else { "-".repeat(width - 1) + ":" }
            },
        )
        .collect();
    let mut text = String::new();
    for (at, row) in grid.iter().enumerate() {
        text += &line(row);
        if at == 0 {
            text += &line(&rule);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let text = aligned(&[row(["", "20 %"]), row(["TSE-n", "1.00 ± 0.10"])]);
        let expected = "\
|       |        20 % |
| ----- | ----------: |
| TSE-n | 1.00 ± 0.10 |
";
        assert_eq!(text, expected);
    }
}
