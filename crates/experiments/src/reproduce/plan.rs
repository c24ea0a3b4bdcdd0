//! What a table is made of: rows, columns, and the jobs behind each place.

use estimator::{Architecture, Errors, Score, TargetKind};
use serde::Deserialize;

use super::cells::{PaperErrors, mean};
use super::criteria::Criterion;
use super::job::{Estimator, Job, Record};
use super::scene::Scene;
use super::variant::Variant;
use super::worlds::WorldName;

/// A column's label.
pub(super) fn world_label(world: WorldName, rate: u32) -> String {
    format!("{world}, {rate} %")
}

/// A table before anything was run: one of `assets/tables`, for the columns that were asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TablePlan {
    /// Of its files.
    pub name: &'static str,
    pub title: &'static str,
    /// What the datasets differ by.
    pub seeds: &'static str,
    #[serde(rename = "columns")]
    pub range: ColumnRange,
    #[serde(skip)]
    pub columns: Vec<Column>,
    pub rows: Vec<RowPlan>,
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Rows among which one was chosen, which are shown on the validation part too.
    #[serde(borrow, default)]
    pub choices: Vec<&'static str>,
    /// What must hold in every world.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    #[serde(default)]
    pub paper: Vec<PaperRow>,
    #[serde(borrow)]
    pub notes: Vec<&'static str>,
}

/// What the columns of a table differ by.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnRange {
    pub by: ColumnKind,
    /// Penetration rate in percent, where columns do not differ by it.
    #[serde(default)]
    rate: u32,
    /// Those of the whole table, in which the paper's errors are.
    pub usual: Vec<usize>,
    pub quick: Vec<usize>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ColumnKind {
    /// Penetration rates in percent.
    Rates,
    /// Numbers of samples.
    Sizes,
    Guests,
    /// Percentages of the steps that have ground truth.
    LabelShares,
    /// Penetration rates in percent, in each of the worlds.
    Worlds,
}

impl ColumnRange {
    /// For each value; in each of the worlds if they are columns.
    pub(super) fn columns(&self, values: &[usize], worlds: &[WorldName]) -> Vec<Column> {
        if matches!(self.by, ColumnKind::Worlds) {
            let columns = worlds.iter().flat_map(|&world| {
                values.iter().map(move |&rate| Column {
                    label: world_label(world, rate as u32),
                    rate: rate as u32,
                    samples: None,
                    guests: None,
                    labels: None,
                    world: Some(world),
                    paper: None,
                })
            });
            return columns.collect();
        }
        let column = |&value: &usize| {
            let usual = Column {
                label: format!("{value} %"),
                rate: self.rate,
                samples: None,
                guests: None,
                labels: None,
                world: None,
                paper: self.usual.iter().position(|&one| one == value),
            };
            match self.by {
                ColumnKind::Rates | ColumnKind::Worlds => Column { rate: value as u32, ..usual },
                ColumnKind::Sizes => {
                    Column { label: value.to_string(), samples: Some(value), ..usual }
                }
                ColumnKind::Guests => {
                    let many = if value == 1 { "" } else { "s" };
                    let label = format!("{value} guest{many}");
                    Column { label, guests: Some(value as u16), ..usual }
                }
                ColumnKind::LabelShares => Column { labels: Some(value as u32), ..usual },
            }
        };
        values.iter().map(column).collect()
    }
}

pub(super) struct Column {
    pub label: String,
    /// Penetration rate in percent.
    pub rate: u32,
    pub samples: Option<usize>,
    /// Guests among which the fleet of the federated ones is divided.
    pub guests: Option<u16>,
    /// Percentage of the steps that have ground truth; not limited if none.
    pub labels: Option<u32>,
    /// Other traffic than that of the row.
    pub world: Option<WorldName>,
    /// Where the paper has it, if it has.
    pub paper: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowPlan {
    pub label: &'static str,
    pub estimator: Estimator,
    pub architecture: Option<Architecture>,
    #[serde(default)]
    pub variant: Variant,
    /// Which of a job's errors it shows.
    #[serde(default)]
    pub pick: Pick,
}

/// Which of a job's errors a row shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pick {
    /// On the test part.
    #[default]
    Test,
    /// Without one guest, the mean over guests.
    OneAbsent,
    /// Without the guest that is missed most.
    WorstAbsent,
}

impl Pick {
    /// The errors; none where a job has none of that kind.
    pub(super) fn score(self, record: &Record) -> Option<Score> {
        let absent = || record.absent.iter().map(|absent| absent.score);
        match self {
            Pick::Test => Some(record.score),
            Pick::OneAbsent => mean_score(&absent().collect::<Vec<_>>()),
            Pick::WorstAbsent => absent().max_by(|a, b| a.density.rmse.total_cmp(&b.density.rmse)),
        }
    }
}

fn mean_score(scores: &[Score]) -> Option<Score> {
    let errors = |of: fn(&Score) -> Errors| Errors {
        rmse: mean(scores.iter().map(|score| of(score).rmse)),
        mae: mean(scores.iter().map(|score| of(score).mae)),
    };
    let mean = Score { density: errors(|score| score.density), flow: errors(|score| score.flow) };
    (!scores.is_empty()).then_some(mean)
}

/// How much better one row is than the best of others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison {
    pub ours: &'static str,
    #[serde(borrow)]
    pub others: Vec<&'static str>,
    /// The others, in words.
    pub what: &'static str,
    /// The rows of the paper that compare alike: ours and the other.
    #[serde(borrow)]
    pub paper: Option<[&'static str; 2]>,
}

#[derive(Deserialize)]
pub(super) struct PaperRow {
    pub label: &'static str,
    pub errors: PaperErrors,
}

/// What the jobs of a table range over.
pub(crate) struct Range {
    pub seeds: Vec<u64>,
    pub training_seeds: Vec<u64>,
    pub targets: Vec<TargetKind>,
}

impl RowPlan {
    /// The jobs behind a place of the table.
    pub(super) fn jobs<'a>(
        &'a self,
        column: &'a Column,
        target: TargetKind,
        range: &'a Range,
    ) -> impl Iterator<Item = Job> + 'a {
        let neural = self.estimator.is_neural();
        let guests = if self.estimator.is_federated() { column.guests } else { None };
        let labels = self.labels(column);
        let variant = Variant {
            guests: guests.or(self.variant.guests),
            labels: labels.flatten(),
            scene: self.scene(column),
            ..self.variant
        };
        let training: Vec<Option<u64>> = match labels {
            None => Vec::new(),
            Some(_) if neural => range.training_seeds.iter().copied().map(Some).collect(),
            Some(_) => vec![None],
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
                variant,
            })
        })
    }
}

impl RowPlan {
    /// The datasets of a place of the table.
    pub(super) fn scene(&self, column: &Column) -> Scene {
        let scene = self.variant.scene;
        Scene { world: column.world.or(scene.world), ..scene }
    }

    /// The share of labels that its jobs are told, as usual where that is all or none of them already; nothing for
    /// who has no job without labels.
    fn labels(&self, column: &Column) -> Option<Option<u32>> {
        match (self.estimator.learns_from_truth(), column.labels) {
            (true, Some(0)) => None,
            (true, Some(100)) | (false, Some(0)) => Some(None),
            (_, labels) => Some(labels),
        }
    }
}

impl TablePlan {
    /// Every job once, in the order of what is wanted most: a whole table with one training seed
    /// before the next; in it the `paper` rows, which take longest, last; raw before smooth targets.
    pub(super) fn jobs(&self, range: &Range) -> Vec<Job> {
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

    use super::super::job::Absent;
    use super::super::request::{self, ReproduceArguments, What};
    use super::super::scene::Skew;
    use super::*;
    use training::Method;

    fn plan_of(what: What) -> TablePlan {
        let mut arguments = ReproduceArguments::default().of(what);
        // Table 1 needs recordings only to be made.
        arguments.report = true;
        arguments.plan().unwrap()
    }

    fn range() -> Range {
        Range {
            seeds: vec![1, 2, 3],
            training_seeds: vec![1, 2],
            targets: vec![TargetKind::Raw, TargetKind::Smooth],
        }
    }

    #[test]
    fn every_job_has_a_file_of_its_own() {
        let jobs = plan_of(What::Table2).jobs(&range());
        // Neural: 2 architectures × 2 training seeds × (1 + 5 × 4), and 4 rows of other embedding sizes.
        // Others: 2 that see no fleet, 4 that do.
        let per_seed_and_target = 2 * (2 * (1 + 5 * 4) + 4 * 4) + 2 + 4 * 4;
        assert_eq!(jobs.len(), 3 * 2 * per_seed_and_target);
        let names: BTreeSet<String> = jobs.iter().map(Job::name).collect();
        assert_eq!(names.len(), jobs.len());
        let jobs = plan_of(What::Table4).jobs(&range());
        assert_eq!(jobs.len(), 3 * 2 * 6 * (2 * 2 + 2));
    }

    #[test]
    fn guests_share_the_fleets_that_are_made_for_them() {
        let plan = plan_of(What::Guests);
        let jobs = plan.jobs(&range());
        // TSE-n has one job for all numbers of guests; absence is scored by the jobs trained for it.
        assert_eq!(jobs.len(), 3 * 2 * 2 * (1 + 3 * 5));
        let names: BTreeSet<String> = jobs.iter().map(Job::name).collect();
        assert_eq!(names.len(), jobs.len());
        let lone = jobs.iter().filter(|job| !job.estimator.is_federated());
        assert!(lone.map(|job| job.variant).all(|variant| variant.is_usual()));
        let needed = request::needed(&plan);
        assert_eq!(needed.divided, [(40, 2), (40, 4), (40, 8), (40, 16)]);
    }

    #[test]
    fn larger_q_has_the_same_updates_in_fewer_rounds() {
        let jobs = plan_of(What::Table3).jobs(&range());
        assert_eq!(jobs, plan_of(What::FigQ).jobs(&range()));
        for job in &jobs {
            assert!(job.variant.curve);
            // `link` is trained for 100 epochs, in one cycle of the learning rate.
            let updates = job.variant.epochs.unwrap_or(100) * job.variant.q.unwrap_or(1) as usize;
            let shorter = job.variant.q.is_none() && job.variant.epochs.is_some();
            let link = job.architecture == Some(Architecture::Link);
            assert!(!link || shorter || (100..103).contains(&updates), "{}", job.name());
            assert!(link || job.variant.epochs.is_none());
        }
    }

    #[test]
    fn scenes_have_datasets_and_jobs_of_their_own() {
        let plan = plan_of(What::Table5);
        let jobs = plan.jobs(&range());
        let names: BTreeSet<String> = jobs.iter().map(Job::name).collect();
        assert_eq!(names.len(), jobs.len());
        let skewed = |by| Scene { fleets: Some(by), ..Scene::USUAL };
        let mut expected = vec![Scene::USUAL];
        expected.extend([Skew::Entry, Skew::Hour, Skew::Class].map(skewed));
        let needed = request::needed(&plan);
        assert_eq!(needed.scenes, expected);
        // Folds of every rate, once for each number of them.
        let folds = [20, 40, 60, 80].map(|rate| [(rate, 4), (rate, 8)]);
        assert_eq!(needed.divided, folds.concat());
        let loops = request::needed(&plan_of(What::Table6));
        let loops: Vec<Option<u8>> = loops.scenes.iter().map(|scene| scene.loops).collect();
        assert_eq!(loops, [Some(3), None, Some(1)]);
    }

    #[test]
    fn all_labels_and_none_are_the_jobs_of_other_tables() {
        let range = Range { targets: vec![TargetKind::Raw], ..range() };
        let jobs = plan_of(What::LabelShare).jobs(&range);
        let of = |method, labels| {
            let with = jobs.iter().filter(|job| job.estimator == Estimator::Own(method));
            with.filter(|job| job.variant.labels == labels).count()
        };
        // Three demand seeds, two training seeds; of seven shares with labels, that of all is usual.
        assert_eq!([of(Method::Oracle, None), of(Method::Oracle, Some(5))], [6, 6]);
        assert_eq!([of(Method::Oracle, Some(0)), of(Method::Oracle, Some(100))], [0, 0]);
        // Without labels it is that of table 5, with all of them it is not.
        assert_eq!([of(Method::OraclePi, None), of(Method::OraclePi, Some(100))], [6, 6]);
        let others = plan_of(What::Table5).jobs(&range);
        let usual = jobs.iter().filter(|job| job.variant.is_usual());
        let known = usual.filter(|job| others.contains(job)).count();
        // Ridge and Oracle with all labels, Oracle-PI with none; Oracle-PI+HF is federated in table 5.
        assert_eq!(known, 3 + 6 + 6);
    }

    #[test]
    fn absence_is_picked_from_all_guests() {
        let score = |rmse| Score { density: Errors { rmse, mae: 1.0 }, ..Score::default() };
        let absent = |rmse| Absent { guest: String::new(), score: score(rmse) };
        let mut record = Record::example();
        record.score = score(1.0);
        assert_eq!(Pick::OneAbsent.score(&record), None);
        record.absent = vec![absent(2.0), absent(6.0), absent(4.0)];
        let picked = [Pick::Test, Pick::OneAbsent, Pick::WorstAbsent];
        let rmse = picked.map(|pick| pick.score(&record).unwrap().density.rmse);
        assert_eq!(rmse, [1.0, 4.0, 6.0]);
    }

    #[test]
    fn a_whole_table_comes_before_the_next_training_seed() {
        let jobs = plan_of(What::Table2).jobs(&range());
        let second = jobs.iter().position(|job| job.training_seed == Some(2)).unwrap();
        assert!(jobs[second..].iter().all(|job| job.training_seed == Some(2)));
        let paper = jobs.iter().position(|job| job.architecture == Some(Architecture::Paper));
        assert!(jobs[paper.unwrap()..second].iter().all(|job| job.architecture.is_some()));
        assert_eq!(jobs[0].target, TargetKind::Raw);
    }

    #[test]
    fn comparisons_name_rows_that_exist() {
        use What::*;
        for what in [
            Table1,
            Table2,
            Table4,
            Guests,
            Table5,
            Table6,
            FigPiRate,
            Table5Sealed,
            LabelShare,
            FigLoss,
            FigPiEstimates,
        ] {
            let plan = plan_of(what);
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
