//! Link by link against the whole model, one backward pass for each entry.

use neural::DropoutRng;
use traffic::corridor;

use super::*;
use crate::model::architecture::{Architecture, HostShape};
use crate::model::host_model::HostModel;
use crate::model::host_model::whole::Whole;
use crate::model::party_block::UpdateRule;
use crate::model::recipe::Recipe;
use crate::model::sizes::Sizes;
use crate::model::test_models::{guests_of, some};

const SAMPLES: usize = 7;
const NOISE: DropoutRng = DropoutRng { seed: 1, step: 2, first_sample: 0 };

fn host(shape: &HostShape) -> HostModel {
    let rule = UpdateRule::of(&Recipe::of(Architecture::Link));
    let mut host = HostModel::new(shape, &corridor().unwrap(), 5, rule).unwrap();
    // Away from the start, where many weights are zero and would hide others.
    let moved = some(host.parameter_count(), 1);
    host.block.learner.update(|parameters, _| {
        parameters.iter_mut().zip(moved).for_each(|(p, by)| *p += 0.3 * by);
    });
    host
}

/// Inputs of a batch in which nobody answers one of the samples.
fn inputs(host: &HostModel) -> Vec<f32> {
    let width = host.block.model().input_len();
    let mut x = some(SAMPLES * width, 2);
    for (sample, x) in x.chunks_exact_mut(width).enumerate() {
        host.slots.iter().for_each(|slot| x[slot.flag] = f32::from(u8::from(sample != 3)));
    }
    x
}

fn part(links: &[usize], key: u64) -> LinearPart {
    let slopes = some(2 * SAMPLES * links.len(), key).as_chunks::<2>().0.to_vec();
    LinearPart { loss: vec![0.0; slopes.len()], slopes, links: links.to_vec() }
}

/// Entries of some links only, of one more often than of others; what was not measured in a sample has no slope.
fn parts() -> [LinearPart; 2] {
    let mut parts = [part(&[3, 0, 16, 3, 7], 3), part(&[5, 3], 4)];
    parts[0].slopes[5..12].fill([0.0; 2]);
    parts
}

/// Both ways, with this share of guests dropped.
fn both(party_dropout: f32, parts: &[&LinearPart]) -> (HostModel, ByLink, Whole) {
    let mut shape = guests_of(Sizes::default().for_products(), 3).host;
    shape.party_dropout = party_dropout;
    let mut host = host(&shape);
    let x = inputs(&host);
    let mut by_link = host.by_link.take().unwrap();
    // Whatever an earlier, larger batch has left must not matter.
    let earlier = LinearPart { slopes: part(&[2], 9).slopes.repeat(2), ..part(&[2], 9) };
    by_link.pull_back(host.parameters(), &x.repeat(2), NOISE, &[&earlier]);
    by_link.pull_back(host.parameters(), &x, NOISE, parts);
    let whole = host.pull_back(&x, NOISE, parts);
    (host, by_link, whole)
}

/// The columns of all parties, one after the other.
fn columns(parts: &[&LinearPart]) -> Vec<Columns> {
    let mut first = 0;
    let each = parts.iter().map(|part| {
        let columns = Columns { first, entries: part.links.len() };
        first += columns.entries;
        columns
    });
    each.collect()
}

/// Sums of some ten numbers of about 1, perhaps in another order.
fn assert_alike(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

fn rows(gradients: &impl Gradients, touched: &[usize], columns: &Columns) -> Vec<f64> {
    // Not zeros: memory is used again.
    let mut rows = vec![f64::NAN; touched.len() * SAMPLES * columns.entries];
    gradients.write_rows(touched, columns, &mut rows);
    rows
}

/// `[sample, number, entry]`.
fn dense(share: &EmbeddingCoefficients, entries: usize) -> Vec<f64> {
    let numbers = share.entries.len() / share.terms;
    let each = share.coefficients.chunks_exact(share.terms).enumerate();
    let row = |(at, coefficients): (usize, &[f64])| {
        let mut row = vec![0.0; entries];
        let own = &share.entries[at % numbers * share.terms..][..share.terms];
        own.iter().zip(coefficients).for_each(|(&at, c)| row[at as usize] += c);
        row
    };
    each.flat_map(row).collect()
}

#[test]
fn rows_of_parameters_are_those_of_the_whole() {
    let parts = parts();
    for parts in [vec![&parts[0]], vec![&parts[0], &parts[1]]] {
        let (host, by_link, whole) = both(0.3, &parts);
        for columns in columns(&parts) {
            let touched = by_link.touched(&columns);
            assert_eq!(touched, whole.touched(&columns));
            assert!(!touched.is_empty() && touched.len() < host.parameter_count());
            let found = rows(&by_link, &touched, &columns);
            assert_alike(&found, &rows(&whole, &touched, &columns));
            let row = SAMPLES * columns.entries;
            for row in found.chunks_exact(row) {
                assert!(row.iter().any(|entry| *entry != 0.0), "a row of nothing");
            }
        }
    }
}

/// What was learned for absent guests is touched by the sample that nobody answers, and only there.
#[test]
fn what_no_entry_touches_is_not_among_the_rows() {
    let mut one = part(&[3], 3);
    let (host, by_link, whole) = both(0.0, &[&one]);
    let columns = Columns { first: 0, entries: 1 };
    let layout = host.block.learner.layout();
    let absent = layout.find("totals.absent").unwrap().range.clone();
    let of = |touched: Vec<usize>| -> Vec<usize> {
        touched.into_iter().filter(|at| absent.contains(at)).collect()
    };
    // Three numbers of each link: those of link 3.
    let own: Vec<usize> = (absent.start + 9..absent.start + 12).collect();
    assert_eq!(of(by_link.touched(&columns)), own);
    assert_eq!(of(whole.touched(&columns)), own);
    one.slopes[3] = [0.0; 2];
    let (_, by_link, _) = both(0.0, &[&one]);
    assert!(of(by_link.touched(&columns)).is_empty());
}

#[test]
fn shares_of_embeddings_are_those_of_the_whole() {
    let parts = parts();
    let parts = [&parts[0], &parts[1]];
    let (host, by_link, whole) = both(0.3, &parts);
    for columns in columns(&parts) {
        for slot in &host.slots {
            let found = by_link.share(slot.numbers.clone(), &columns);
            let expected = whole.share(slot.numbers.clone(), &columns);
            // Link 3 has two entries of the first party, and one of the second.
            assert_eq!(found.terms, if columns.first == 0 { 2 } else { 1 });
            assert_eq!(found.entries.len(), found.terms * slot.numbers.len());
            let found = dense(&found, columns.entries);
            assert!(found.iter().any(|c| *c != 0.0));
            assert_alike(&found, &dense(&expected, columns.entries));
        }
    }
    let nothing = Columns { first: 0, entries: 0 };
    assert_eq!(
        by_link.share(host.slots[0].numbers.clone(), &nothing),
        EmbeddingCoefficients::default()
    );
}

#[test]
fn links_that_hear_of_each_other_are_not_taken_apart() {
    let shape = guests_of(Sizes { units: 4, ..Sizes::default() }, 1).host;
    assert!(host(&shape).by_link.is_none());
}
