//! Small models over the corridor, for tests.

use neural::{hash, unit};

use crate::data::study::WINDOW;
use crate::model::architecture::{Architecture, GuestSlot, HostShape, ModelShape};
use crate::model::parts::{EmbeddingShape, GuestShape, SubModelKind};
use crate::model::sizes::Sizes;

/// Numbers in ±1.
pub(crate) fn some(len: usize, key: u64) -> Vec<f32> {
    (0..len).map(|i| 2.0 * unit(hash([key, i as u64])) - 1.0).collect()
}

/// A guest with density, flow and mask of each step.
pub(crate) fn guest(name: &str, sizes: Sizes, each: usize) -> GuestShape {
    GuestShape {
        name: name.into(),
        sub_model: SubModelKind::Link,
        channels: 3 * WINDOW,
        totals: true,
        embedding: EmbeddingShape::PerLink(each),
        sizes,
        window: WINDOW,
    }
}

/// A host with some guests.
pub(crate) fn joint(sizes: Sizes, guests: Vec<GuestShape>) -> ModelShape {
    let host = HostShape {
        architecture: Architecture::Link,
        shared: 5,
        channels: 2,
        slots: guests.iter().map(GuestSlot::of).collect(),
        party_dropout: 0.0,
        sizes,
        window: WINDOW,
    };
    ModelShape { host, guests }
}

/// A host and one guest, with this many numbers per link in between.
pub(crate) fn one_guest(sizes: Sizes, each: usize) -> ModelShape {
    joint(sizes, vec![guest("guest", sizes, each)])
}

/// A host and guests that all differ: in what they know, in their model, in what they give.
pub(crate) fn guests_of(sizes: Sizes, count: usize) -> ModelShape {
    let totals = guest("totals", sizes, 3);
    let speeds = GuestShape {
        channels: 2 * WINDOW,
        totals: false,
        embedding: EmbeddingShape::PerLink(2),
        ..guest("speeds", sizes, 0)
    };
    let paper =
        GuestShape { sub_model: SubModelKind::Stgcn, channels: 2, ..guest("paper", sizes, 1) };
    joint(sizes, [totals, speeds, paper].into_iter().take(count).collect())
}
