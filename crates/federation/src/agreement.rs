//! What host and guest derive from a plan to set up secure products: the crate `protocol` knows the plan, the
//! crate `sealed` the products, and only this module both.

use protocol::message::committed::{self, Bounds, CommitmentTerms};
use protocol::message::measurements::MeasurementLayout;
use protocol::message::parts::{MAX_STEP, PartError};
#[cfg(test)]
use protocol::message::sealed::MAX_SEALED;
use protocol::message::sealed::{self as limits, Sealing, block_length};
use sealed::fixed_point::MOST_LEVELS;
use sealed::product::{MOST_ROWS, MOST_WIDTH};
use sealed::{Agreement, BlockId, Grid};
use traffic::Window;

// Messages must have room for all that the products can take, and no more.
const _: () = assert!(limits::MOST_ROWS == MOST_ROWS && limits::MOST_WIDTH == MOST_WIDTH);
const _: () = assert!(committed::MOST_COMMITTED == sealed::committed::MOST_COMMITTED);

/// What both sides of the products agree on, for a guest that measures this.
pub(crate) fn agreement(
    sealing: &Sealing,
    layout: &MeasurementLayout,
    segment: u32,
    blocks: usize,
) -> Result<Agreement, PartError> {
    let length = block_length(segment, layout.len());
    let width = layout.len() * length;
    if !(1..=MOST_WIDTH).contains(&width) {
        let found = format!("{} of {length} steps", layout.len());
        let expected = format!("1 to {MOST_WIDTH} in all");
        return Err(PartError::new("entries of a block", found, expected));
    }
    let grid =
        Grid::new(-1.0, 2.0, MOST_LEVELS).map_err(|error| PartError::new("grid", error, "one"))?;
    let (most_rows, most_blocks) = (sealing.most_rows as usize + sealing.checks(), blocks.max(1));
    Ok(Agreement { width, grid, most_rows, most_blocks })
}

/// The lowest and the highest level.
pub(crate) fn levels(committing: &CommitmentTerms, grid: &Grid) -> (i32, i32) {
    let most = grid.levels();
    match committing.bounds {
        Bounds::Noised => (-most, most),
        // Two finite numbers within the grid.
        Bounds::Physical => {
            let level = |share| grid.level(share).unwrap_or(most);
            (level(0.0), level(1.0))
        }
    }
}

/// The block that begins with this sample.
pub(crate) fn block_of(first: Window) -> BlockId {
    let step = first.last.0.saturating_add(MAX_STEP).unsigned_abs();
    BlockId(step << 16 | u64::from(first.view.0))
}

/// The most bytes of a query of so many products, for blocks of so many values.
pub fn most_bytes(values: usize, products: usize) -> usize {
    // A polynomial of 8192 places has as many products as blocks fit it: 50 bits for each place and product.
    let polynomials = products.div_ceil((MOST_WIDTH / values.clamp(1, MOST_WIDTH)).max(1));
    let (head, rounding) = (64, 7);
    head + polynomials.saturating_mul(MOST_WIDTH * 50 / 8 + rounding) + products.saturating_mul(7)
}

#[cfg(test)]
mod tests {
    use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
    use sealed::{Guest, Host, Matrix};

    use super::*;

    /// The bound is what it says, and not much more: 130 rows are one polynomial full of them and ten rows of another.
    #[test]
    fn questions_have_no_more_bytes_than_was_said_before() {
        let grid = Grid::new(-1.0, 2.0, MOST_LEVELS).unwrap();
        let agreement = Agreement { width: 68, grid, most_rows: 130, most_blocks: 1 };
        let mut guest = RlweGuest::new(agreement, &KeySeed::from_os().unwrap()).unwrap();
        let mut host = RlweHost::new(agreement, &guest.public_key()).unwrap();
        host.store(&guest.upload(BlockId(1), &[5; 68]).unwrap()).unwrap();
        let matrix = Matrix { rows: 130, blocks: &[BlockId(1)], values: &[1.0; 130 * 68] };
        let (found, most) = (host.ask(&matrix).unwrap().len(), most_bytes(68, 130));
        assert!(found <= most && most < found + found / 50, "{found} bytes, at most {most}");
        assert!(most_bytes(MOST_WIDTH, 1000) > MAX_SEALED && most_bytes(68, 1 << 14) < MAX_SEALED);
    }
}
