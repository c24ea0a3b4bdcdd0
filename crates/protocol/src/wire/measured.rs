//! Measurements as bytes.

use std::collections::{BTreeMap, BTreeSet};

use traffic::{LinkId, MeasurementEntry, Quantity};

use super::WireError;
use super::decode::{at_most, unknown};
use super::generated as wire;
use super::numbers::read_words;
use crate::message::measurements::{
    MAX_ENTRIES, MeasurementKind, MeasurementLayout, MeasurementOffer, Measurements, Movements,
};
use crate::message::parts::PartError;

pub(super) fn layouts(layout: &MeasurementLayout) -> Vec<wire::MeasurementLayout> {
    let entry = |entry: &MeasurementEntry| wire::Entry {
        link: entry.link.0,
        quantity: match entry.quantity {
            Quantity::Density => wire::Quantity::Density,
            Quantity::Flow => wire::Quantity::Flow,
            Quantity::Speed => wire::Quantity::Speed,
        } as i32,
    };
    let groups = layout.groups().map(|(kind, entries)| wire::MeasurementLayout {
        kind: of_kind(kind) as i32,
        entries: entries.iter().map(entry).collect(),
    });
    groups.collect()
}

pub(super) fn of_kind(kind: MeasurementKind) -> wire::MeasurementKind {
    match kind {
        MeasurementKind::Speeds => wire::MeasurementKind::Speeds,
        MeasurementKind::Queues => wire::MeasurementKind::Queues,
        MeasurementKind::HeldOut => wire::MeasurementKind::HeldOut,
    }
}

pub(super) fn kinds(kinds: &[i32]) -> Result<BTreeSet<MeasurementKind>, WireError> {
    let mut all = BTreeSet::new();
    for &found in kinds {
        if !all.insert(kind(found)?) {
            return Err(twice(found));
        }
    }
    Ok(all)
}

pub(super) fn measures(
    layouts: Vec<wire::MeasurementLayout>,
    folds: u32,
    (passages, stated): (Option<f64>, Option<f64>),
    movements: Movements,
) -> Result<MeasurementOffer, WireError> {
    let count = layouts.iter().map(|layout| layout.entries.len()).sum();
    at_most("entries of measurements", count, MAX_ENTRIES, "entries")?;
    let mut groups = BTreeMap::new();
    for layout in layouts {
        let entries = layout.entries.iter().map(entry).collect::<Result<_, _>>()?;
        if groups.insert(kind(layout.kind)?, entries).is_some() {
            return Err(twice(layout.kind));
        }
    }
    let folds =
        u16::try_from(folds).map_err(|_| PartError::new("folds", folds, "a small number"))?;
    let layout = MeasurementLayout::new(groups)?;
    let measures = MeasurementOffer { layout, folds, passages, stated, movements };
    measures.check()?;
    Ok(measures)
}

pub(super) fn measurements(
    entries: u32,
    values: &[u8],
    weights: &[u8],
) -> Result<Measurements, WireError> {
    let (values, weights) = (read_words(values)?, read_words(weights)?);
    Ok(Measurements::new(entries as usize, values, weights)?)
}

fn kind(kind: i32) -> Result<MeasurementKind, WireError> {
    match wire::MeasurementKind::try_from(kind) {
        Ok(wire::MeasurementKind::Speeds) => Ok(MeasurementKind::Speeds),
        Ok(wire::MeasurementKind::Queues) => Ok(MeasurementKind::Queues),
        Ok(wire::MeasurementKind::HeldOut) => Ok(MeasurementKind::HeldOut),
        _ => Err(unknown("kind of measurements", kind)),
    }
}

fn entry(entry: &wire::Entry) -> Result<MeasurementEntry, WireError> {
    let quantity = match wire::Quantity::try_from(entry.quantity) {
        Ok(wire::Quantity::Density) => Quantity::Density,
        Ok(wire::Quantity::Flow) => Quantity::Flow,
        Ok(wire::Quantity::Speed) => Quantity::Speed,
        _ => return Err(unknown("quantity of a measurement", entry.quantity)),
    };
    Ok(MeasurementEntry { link: LinkId(entry.link), quantity })
}

fn twice(kind: i32) -> WireError {
    PartError::new("kinds of measurements", format!("{kind} twice"), "each once").into()
}
