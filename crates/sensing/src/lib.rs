//! Records to features.
//!
//! 1. Readers: [`sumo`], [`pneuma`], [`osm`], CSV and Parquet ([`TrajectoryImport`]); [`matching`] puts places onto links.
//! 2. [`Dataset`]: a folder of trajectories, vehicles, loop counts and the network.
//! 3. [`Fleets`]: who sees which vehicles. [`FeatureExtractor`]: from moments, of a file or a [`stream`], to
//!    totals by box; [`Features`]: the same as files.
//! 4. [`split`]: windows to learn from, to choose by and to score on.
//!
//! This crate knows nothing of tensors or networks of computers.

mod concentration;
mod dataset;
mod extract;
mod features;
mod fleet;
mod frame;
mod import;
mod journey;
pub mod matching;
pub mod osm;
mod passages;
pub mod pneuma;
mod recordings;
mod scale_up;
mod sort;
pub mod stream;
pub mod sumo;
mod table;
#[cfg(test)]
mod test_roads;
mod vehicles;

pub use concentration::{Concentration, Trait};
pub use dataset::{
    Dataset, DatasetError, DatasetManifest, DatasetReader, DatasetWriter, Provenance,
    read_dataset_network, read_network, write_fleet_dataset,
};
pub use extract::{
    ExtractError, ExtractReport, FeatureExtractor, FeaturePlan, FleetFeatures, StepFeatures,
};
pub use features::{
    FeatureTable, Features, FeaturesError, FeaturesManifest, FleetEntry, LoopTable, MovementTable,
    ReportEntry, Verdict, add_fleets, add_parts, extract_dataset, make_features,
};
pub use fleet::{Fleet, FleetError, Fleets, draw, part_name, part_of};
pub use frame::{Frame, FrameError, extract_frame};
pub use import::{FileKind, ImportError, TrajectoryImport, read_loop_counts, write_sorted};
pub use journey::{Breaks, LastSeen, MAX_SPEED, Position, PositionError, check_position};
pub use passages::{PassageCollector, PassagesError, read_passages};
pub use recordings::{
    HeldSteps, LEAST_RECORDINGS, Recording, RecordingWatch, Split, StepRange, split,
    split_by_recording,
};
pub use scale_up::{ScaleUpErrors, scale_up_errors};
pub use sort::{Sortable, Sorter};
pub use table::{Column, ColumnKind, Packing, TableError, TableReader, TableWriter};

pub use vehicles::{Vehicle, VehicleTable};
