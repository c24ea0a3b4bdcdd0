//! Names and shapes of the parameters of a layer or model, which lie one after the other in one
//! flat vector.
//!
//! ```
//! use neural::Layout;
//! let mut layout = Layout::default();
//! let weight = layout.add("weight", &[3, 2]);
//! let bias = layout.add("bias", &[2]);
//! assert_eq!((weight, bias, layout.len()), (0..6, 6..8, 8));
//! ```

use std::ops::Range;

/// One named parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Dotted name, as `block1.gate.weight`.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Place in the flat vector.
    pub range: Range<usize>,
}

/// All parameters of a layer or model, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    parameters: Vec<Parameter>,
    len: usize,
}

impl Layout {
    /// Appends a parameter and returns its place.
    pub fn add(&mut self, name: &str, shape: &[usize]) -> Range<usize> {
        let range = self.len..self.len + shape.iter().product::<usize>();
        self.len = range.end;
        self.parameters.push(Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
            range: range.clone(),
        });
        range
    }

    /// Appends all parameters of a part, their names after `prefix` and a dot.
    pub fn add_part(&mut self, prefix: &str, part: &Layout) -> Range<usize> {
        let start = self.len;
        for parameter in &part.parameters {
            self.add(&format!("{prefix}.{}", parameter.name), &parameter.shape);
        }
        start..self.len
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of this name.
    pub fn find(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Number of values in the flat vector.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
