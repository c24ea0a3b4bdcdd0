//! Things that hang together: links joined by turns, ends of links that meet in a junction.

/// Divides numbered things into groups by joining pairs.
///
/// ```
/// let mut groups = traffic::Groups::new(5);
/// groups.join(3, 1);
/// groups.join(1, 4);
/// assert_eq!([0, 1, 2, 3, 4].map(|thing| groups.of(thing)), [0, 1, 2, 1, 1]);
/// assert_eq!(groups.largest(), Some(1));
/// ```
#[derive(Clone, Debug)]
pub struct Groups {
    /// Another thing of the same group, nearer to its first; the first points to itself.
    towards_first: Vec<usize>,
}

impl Groups {
    /// Each thing a group of its own.
    pub fn new(things: usize) -> Self {
        Self { towards_first: (0..things).collect() }
    }

    /// Makes the groups of two things one.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.towards_first[a.max(b)] = a.min(b);
    }

    /// The group of a thing: the smallest number in it.
    pub fn of(&mut self, thing: usize) -> usize {
        let mut at = thing;
        while self.towards_first[at] != at {
            // Halves the way for the next search.
            self.towards_first[at] = self.towards_first[self.towards_first[at]];
            at = self.towards_first[at];
        }
        at
    }

    /// The group with the most things; of equals the first. None without things.
    pub fn largest(&mut self) -> Option<usize> {
        let mut sizes = vec![0_usize; self.towards_first.len()];
        for thing in 0..sizes.len() {
            sizes[self.of(thing)] += 1;
        }
        (0..sizes.len()).rev().max_by_key(|&group| sizes[group])
    }
}
