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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_things_there_is_no_largest_group() {
        assert_eq!(Groups::new(0).largest(), None);
        assert_eq!(Groups::new(1).largest(), Some(0));
        // Of equals the first.
        assert_eq!(Groups::new(4).largest(), Some(0));
        let mut pairs = Groups::new(5);
        pairs.join(3, 4);
        pairs.join(1, 2);
        assert_eq!(pairs.largest(), Some(1));
    }

    #[test]
    fn a_long_chain_is_one_group_whichever_way_it_is_joined() {
        let count = 10_000;
        for backwards in [false, true] {
            let mut groups = Groups::new(count);
            for step in 1..count {
                let at = if backwards { count - step } else { step };
                groups.join(at - 1, at);
            }
            assert!((0..count).all(|thing| groups.of(thing) == 0));
            assert_eq!(groups.largest(), Some(0));
        }
    }

    proptest! {
        /// Groups are the classes of the smallest equivalence that holds the pairs, by flooding labels.
        #[test]
        fn groups_are_the_connected_parts(
            count in 1usize..30,
            pairs in prop::collection::vec((0usize..30, 0usize..30), 0..40),
        ) {
            let mut groups = Groups::new(count);
            let mut labels: Vec<usize> = (0..count).collect();
            for (a, b) in pairs {
                let (a, b) = (a % count, b % count);
                groups.join(a, b);
                let (low, high) = (labels[a].min(labels[b]), labels[a].max(labels[b]));
                labels.iter_mut().filter(|label| **label == high).for_each(|label| *label = low);
            }
            let found: Vec<usize> = (0..count).map(|thing| groups.of(thing)).collect();
            prop_assert_eq!(&found, &labels);
            let size = |group: usize| labels.iter().filter(|&&label| label == group).count();
            let largest = groups.largest().unwrap();
            prop_assert_eq!(size(largest), (0..count).map(size).max().unwrap());
            prop_assert!((0..largest).all(|group| size(group) < size(largest)));
        }
    }
}
