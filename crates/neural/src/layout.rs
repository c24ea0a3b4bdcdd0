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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_under_their_names() {
        let mut part = Layout::default();
        assert!(part.is_empty() && part.parameters().is_empty());
        part.add("weight", &[2, 3]);
        part.add("scale", &[]);
        let mut whole = Layout::default();
        whole.add("bias", &[4]);
        assert_eq!(whole.add_part("first", &part), 4..11);
        assert_eq!(whole.add_part("second.inner", &part), 11..18);
        assert_eq!(whole.add_part("nothing", &Layout::default()), 18..18);
        assert_eq!(whole.len(), 18);
        let names: Vec<&str> = whole.parameters().iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["bias", "first.weight", "first.scale", "second.inner.weight", "second.inner.scale"]
        );
        let scale = whole.find("second.inner.scale").unwrap();
        // Without dimensions it is one number.
        assert_eq!((scale.shape.as_slice(), scale.range.clone()), (&[][..], 17..18));
        assert_eq!(whole.find("weight"), None);
    }

    #[test]
    fn a_parameter_without_values_takes_no_place() {
        let mut layout = Layout::default();
        assert_eq!(layout.add("none", &[3, 0]), 0..0);
        assert!(layout.is_empty());
        assert_eq!(layout.add("one", &[1]), 0..1);
        assert_eq!(layout.parameters().len(), 2);
    }
}
