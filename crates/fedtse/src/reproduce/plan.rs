//! What a table is made of: rows, columns, and the jobs behind each place.

use estimator::{Architecture, TargetKind};

use super::cells::PaperErrors;
use super::job::{Estimator, Job};
use super::variant::Variant;

/// A table before anything was run.
pub struct TablePlan {
    /// Of its files.
    pub name: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub rows: Vec<RowPlan>,
    pub comparisons: Vec<Comparison>,
    /// Rows among which one was chosen, which are shown on the validation part too.
    pub choices: &'static [&'static str],
    pub paper: Vec<PaperRow>,
    pub notes: &'static [&'static str],
}

pub struct Column {
    pub label: String,
    /// Penetration rate in percent.
    pub rate: u32,
    pub samples: Option<usize>,
    /// Where the paper has it, if it has.
    pub paper: Option<usize>,
}

pub struct RowPlan {
    pub label: &'static str,
    pub estimator: Estimator,
    pub architecture: Option<Architecture>,
    pub variant: Variant,
}

/// How much better one row is than the best of others.
pub struct Comparison {
    pub ours: &'static str,
    pub others: Vec<&'static str>,
    /// The others, in words.
    pub what: &'static str,
    /// The rows of the paper that compare alike: ours and the other.
    pub paper: Option<[&'static str; 2]>,
}

pub struct PaperRow {
    pub label: &'static str,
    pub errors: PaperErrors,
}

/// What the jobs of a table range over.
pub struct Range {
    pub seeds: Vec<u64>,
    pub training_seeds: Vec<u64>,
    pub targets: Vec<TargetKind>,
}

impl RowPlan {
    /// The jobs behind a place of the table.
    pub fn jobs<'a>(
        &'a self,
        column: &'a Column,
        target: TargetKind,
        range: &'a Range,
    ) -> impl Iterator<Item = Job> + 'a {
        let neural = self.estimator.is_neural();
        let training: Vec<Option<u64>> = if neural {
            range.training_seeds.iter().copied().map(Some).collect()
        } else {
            vec![None]
        };
        range.seeds.iter().flat_map(move |&demand_seed| {
            training.clone().into_iter().map(move |training_seed| Job {
                demand_seed,
                estimator: self.estimator,
                architecture: self.architecture,
                training_seed,
                rate: self.estimator.sees_fleet().then_some(column.rate),
                target,
                samples: column.samples,
                variant: self.variant,
            })
        })
    }
}

impl TablePlan {
    /// Every job once, in the order of what is wanted most: a whole table with one training seed
    /// before the next; in it the `paper` rows, which take longest, last; raw before smooth targets.
    pub fn jobs(&self, range: &Range) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for row in &self.rows {
            for &target in &range.targets {
                for column in &self.columns {
                    for job in row.jobs(column, target, range) {
                        // Who sees no fleet has one job for all rates.
                        if !jobs.contains(&job) {
                            jobs.push(job);
                        }
                    }
                }
            }
        }
        let place =
            |job: &Job| range.training_seeds.iter().position(|s| Some(*s) == job.training_seed);
        jobs.sort_by_key(|job| {
            let is_paper = job.architecture == Some(Architecture::Paper);
            (place(job).unwrap_or(0), is_paper, job.target == TargetKind::Smooth, job.weight())
        });
        jobs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{table2, table4};
    use super::*;

    fn range() -> Range {
        Range {
            seeds: vec![1, 2, 3],
            training_seeds: vec![1, 2],
            targets: vec![TargetKind::Raw, TargetKind::Smooth],
        }
    }

    #[test]
    fn every_job_has_a_file_of_its_own() {
        let jobs = table2::plan(&table2::RATES).jobs(&range());
        // Neural: 2 architectures × 2 training seeds × (1 + 5 × 4), and 4 rows of other crossings.
        // Others: 2 that see no fleet, 4 that do.
        let per_seed_and_target = 2 * (2 * (1 + 5 * 4) + 4 * 4) + 2 + 4 * 4;
        assert_eq!(jobs.len(), 3 * 2 * per_seed_and_target);
        let names: BTreeSet<String> = jobs.iter().map(Job::name).collect();
        assert_eq!(names.len(), jobs.len());
        let jobs = table4::plan(&table4::SIZES).jobs(&range());
        assert_eq!(jobs.len(), 3 * 2 * 6 * (2 * 2 + 2));
    }

    #[test]
    fn a_whole_table_comes_before_the_next_training_seed() {
        let jobs = table2::plan(&table2::RATES).jobs(&range());
        let second = jobs.iter().position(|job| job.training_seed == Some(2)).unwrap();
        assert!(jobs[second..].iter().all(|job| job.training_seed == Some(2)));
        let paper = jobs.iter().position(|job| job.architecture == Some(Architecture::Paper));
        assert!(jobs[paper.unwrap()..second].iter().all(|job| job.architecture.is_some()));
        assert_eq!(jobs[0].target, TargetKind::Raw);
    }

    #[test]
    fn comparisons_name_rows_that_exist() {
        for plan in [table2::plan(&table2::RATES), table4::plan(&table4::SIZES)] {
            let has = |label: &str| plan.rows.iter().any(|row| row.label == label);
            let paper_has = |label: &str| plan.paper.iter().any(|row| row.label == label);
            for comparison in &plan.comparisons {
                assert!(has(comparison.ours) && comparison.others.iter().all(|one| has(one)));
                assert!(comparison.paper.iter().flatten().all(|one| paper_has(one)));
            }
            assert!(plan.choices.iter().all(|one| has(one)));
            for row in &plan.paper {
                let columns = [row.errors.density.len(), row.errors.flow.len()];
                assert_eq!(columns, [plan.columns.len(); 2], "{}", row.label);
            }
        }
    }
}
