//! Loops and fleets as numbers: windows, splits in time, scales, inputs of the sub-models, measurements.

pub(crate) mod fleet_sum;
pub(crate) mod host_study;
pub(crate) mod inputs;
pub(crate) mod joint;
pub(crate) mod live;
pub(crate) mod measurement_table;
pub(crate) mod measurements;
pub(crate) mod observed;
pub(crate) mod scales;
pub(crate) mod segments;
pub(crate) mod sources;
pub(crate) mod study;
pub(crate) mod timeline;
pub(crate) mod window_source;

pub use fleet_sum::{
    FleetRows, FleetSum, FleetSumError, SumColumns, SumLayout, SummedFleets, WholeFleet,
};
pub use host_study::{HostStudy, HostTargets};
pub use inputs::{Arrangement, GuestInputs, HostInputs, InputsError};
pub use joint::JointData;
pub use live::{LiveFleet, LiveLoops, LiveSum};
pub use measurement_table::MeasurementTable;
pub use measurements::{Gathered, MeasuredBatch, MeasurementSource, Readings};
pub use observed::{Asked, Observed};
pub use scales::{GuestScales, HostScales, Scale};
pub use segments::{epoch_order, segments, whole_batch};
pub use sources::{FleetData, LocalShares, LoopData};
pub use study::{
    FeatureSet, GuestFeatures, LEAST_WINDOW, MOST_WINDOW, Study, StudyError, TargetKind, WINDOW,
    last_share, train_span,
};
pub use timeline::{StepSpec, Timeline};
pub use window_source::{WindowSource, gather_rows};
