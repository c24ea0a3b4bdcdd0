//! What a result looks like on the page: grids of numbers and charts of lines.

use serde::{Deserialize, Serialize};

/// One table or figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    /// Of its link; unique on a page.
    pub id: String,
    pub title: String,
    /// In the list of contents.
    pub short: String,
    /// How it was made: command, commit, day.
    pub made: String,
    /// What a reader must know before the numbers: that it is a small version, or not whole.
    #[serde(default)]
    pub warnings: Vec<String>,
    #[serde(default)]
    pub charts: Vec<Chart>,
    pub grids: Vec<Grid>,
    pub notes: Vec<String>,
}

/// Numbers in rows and columns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grid {
    pub caption: String,
    pub columns: Vec<String>,
    pub rows: Vec<GridRow>,
}

/// A row of a grid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GridRow {
    pub label: String,
    /// Whether the numbers are the paper's.
    #[serde(default)]
    pub paper: bool,
    pub cells: Vec<Value>,
}

/// What stands in a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Value {
    /// Empty where nothing was run.
    pub text: String,
    /// The best of its column.
    pub best: bool,
    /// Words, not a number.
    pub words: bool,
}

/// Lines over a common axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chart {
    pub caption: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<ChartLine>,
    /// Values to be reached, drawn across.
    pub levels: Vec<f64>,
}

/// A line of a chart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChartLine {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    /// The paper's numbers: drawn with dashes.
    pub paper: bool,
    /// Whether it is drawn before anyone chooses.
    pub shown: bool,
}

impl Value {
    /// Text of a number that is not the best.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), best: false, words: false }
    }

    /// Words.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), best: false, words: true }
    }
}
