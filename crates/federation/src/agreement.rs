//! What host and guest derive from a plan to set up secure products: the crate `protocol` knows the plan, the
//! crate `sealed` the products, and only this module both.

use protocol::message::committed::{self, Bounds, CommitmentTerms};
use protocol::message::key_authority::KEY_MESSAGE_HEAD;
use protocol::message::measurements::{MeasurementKind, MeasurementLayout};
use protocol::message::parts::{MAX_STEP, PartError};
use protocol::message::sealed::{self as limits, MAX_SEALED, Scheme, Sealing, block_length};
use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{MOST_VALUES, rows_of_bytes};
use sealed::product::{MOST_ROWS, MOST_WIDTH};
use sealed::rlwe::message::EncryptedCoefficients;
use sealed::{Agreement, BlockId, Grid};
use traffic::{MeasurementEntry, Window};

// Messages must have room for all that the products can take, and no more.
const _: () = assert!(limits::MOST_ROWS == MOST_ROWS && limits::MOST_WIDTH == MOST_WIDTH);
const _: () = assert!(limits::MOST_KEYED_WIDTH == MOST_VALUES);
const _: () = assert!(committed::MOST_COMMITTED == sealed::committed::MOST_COMMITTED);

/// What both sides of the products agree on, for a guest that measures this.
pub(crate) fn agreement(
    sealing: &Sealing,
    layout: &MeasurementLayout,
    (segment, samples): (u32, usize),
    blocks: usize,
) -> Result<Agreement, PartError> {
    let length = samples_of_block(sealing, layout, segment, samples);
    let (width, most) = (layout.len() * length, sealing.most_width());
    if !(1..=most).contains(&width) {
        let found = format!("{} of {length} steps", layout.len());
        let expected = format!("1 to {most} in all");
        return Err(PartError::new("entries of a block", found, expected));
    }
    // Of what is held out most numbers are 0, and large others make up for them on average: 0 must be on the grid, a
    // third of whose levels are below it.
    let levels = match layout.kinds().any(|kind| kind == MeasurementKind::HeldOut) {
        true => MOST_LEVELS / 3 * 3,
        false => MOST_LEVELS,
    };
    let grid =
        Grid::new(-1.0, 2.0, levels).map_err(|error| PartError::new("grid", error, "one"))?;
    let (most_rows, most_blocks) = (sealing.most_rows as usize + sealing.checks(), blocks.max(1));
    Ok(Agreement { width, grid, most_rows, most_blocks })
}

/// Samples of a block, in batches of so many: keys of an authority open products with whole blocks, so that a batch is one.
pub(crate) fn samples_of_block(
    sealing: &Sealing,
    layout: &MeasurementLayout,
    segment: u32,
    samples: usize,
) -> usize {
    if sealing.is_keyed() { samples } else { block_length(segment, layout.len()) }
}

/// The largest value of each entry of a sample.
pub(crate) fn ranges(layout: &MeasurementLayout) -> Vec<f64> {
    let of_kind = |(kind, entries): (_, &[MeasurementEntry])| -> Vec<f64> {
        entries.iter().map(|entry| limits::range(kind, entry.quantity)).collect()
    };
    layout.groups().flat_map(of_kind).collect()
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

/// Entries of rows that are computed and encrypted at a time: 128 MiB of them.
const ENTRIES_AT_ONCE: usize = 1 << 24;

/// The most rows of a question, for blocks of so many values and rows of so many entries: what fits a message and the
/// host's memory; one at least.
pub(crate) fn rows_at_once(sealing: &Sealing, width: usize, columns: usize) -> usize {
    let entries = match sealing.scheme {
        Scheme::KeyAuthority => {
            let rows = rows_of_bytes(MAX_SEALED - KEY_MESSAGE_HEAD, columns);
            return rows.min(sealing.most_rows as usize).max(1);
        }
        Scheme::Lattice => ENTRIES_AT_ONCE,
        // They travel as they are, beside some numbers for each block.
        Scheme::Plain => MAX_SEALED / 16,
    };
    let rows = (entries / columns.max(1)).min(sealing.most_rows as usize);
    rows.min(most_products(width) - sealing.checks()).max(1)
}

/// The most samples of a batch whose coefficients fit a message, for so many numbers of an embedding and so many values
/// of each; 0 if those of one sample do not.
pub fn samples_at_once(sealing: &Sealing, samples: usize, width: usize, terms: usize) -> usize {
    let fits = |samples: usize| {
        let products = samples.saturating_mul(width);
        products <= sealing.most_rows as usize
            && EncryptedCoefficients::size(products, terms) <= MAX_SEALED
    };
    (1..=samples).take_while(|samples| fits(*samples)).last().unwrap_or(0)
}

/// Bytes of a question for a polynomial, for a row, and for the rest.
const POLYNOMIAL: usize = MOST_WIDTH * 50 / 8 + 7;
const ROW: usize = 7;
const HEAD: usize = 64;

/// As many products as there are blocks of so many values in the 8192 places of a polynomial.
fn products_of_polynomial(values: usize) -> usize {
    (MOST_WIDTH / values.clamp(1, MOST_WIDTH)).max(1)
}

/// The most products of a question that fits a message.
fn most_products(values: usize) -> usize {
    let each = products_of_polynomial(values);
    (MAX_SEALED - HEAD) / (POLYNOMIAL + each * ROW) * each
}

/// The most bytes of a query of so many products, for blocks of so many values.
#[cfg(test)]
fn most_bytes(values: usize, products: usize) -> usize {
    // A polynomial takes 50 bits for each of its places, and for each product.
    let polynomials = products.div_ceil(products_of_polynomial(values));
    HEAD + polynomials.saturating_mul(POLYNOMIAL) + products.saturating_mul(ROW)
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

    /// A part is as large as fits, and not larger.
    #[test]
    fn parts_fill_a_message() {
        let sealing = Sealing::lattice();
        for width in [1, 68, 2000, 2732, 4096, 8192] {
            let (most, each) = (most_products(width), products_of_polynomial(width));
            assert!(most_bytes(width, most) <= MAX_SEALED, "{width}");
            assert!(most_bytes(width, most + each) > MAX_SEALED, "{width}");
            // Half a million columns, those of a batch of 128 with 2000 links: by memory.
            assert_eq!(rows_at_once(&sealing, width, 1 << 19), 32.min(most));
            assert_eq!(rows_at_once(&sealing, width, usize::MAX), 1);
        }
        assert_eq!(rows_at_once(&sealing, 8192, 1), most_products(8192));
        let few = Sealing { most_rows: 7, ..sealing };
        assert_eq!(rows_at_once(&few, 68, 4352), 7);
        // 8000 numbers of a sample: two samples have no more products than a message may have, by number or, with more terms, by size.
        assert_eq!(samples_at_once(&sealing, 128, 8000, 2), sealing.most_rows as usize / 8000);
        let many = Sealing { most_rows: MOST_ROWS as u32, ..sealing };
        let samples = samples_at_once(&many, 128, 8000, 2);
        let size = |samples| EncryptedCoefficients::size(samples * 8000, 2);
        assert!(samples < 128 && size(samples) <= MAX_SEALED && size(samples + 1) > MAX_SEALED);
        assert_eq!(samples_at_once(&sealing, 128, 68, 2), 128);
        assert_eq!(samples_at_once(&few, 128, 2, 2), 3);
        assert_eq!(samples_at_once(&sealing, 128, 9, 109), 0);
    }
}
