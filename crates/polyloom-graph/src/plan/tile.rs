//! The tiles that products of matrices are computed in, and the choice of their size.
//!
//! Whatever the tile, an element of a product is the same chain of fused multiply-adds, so that no choice here changes a bit.

use super::PlanOptions;
use super::reduction::accumulator;
use polyloom_ir::Scalar;

/// The rows of a tile, at most: with two vectors of columns they and the factors fill 32 vector registers.
const MAX_ROWS: u64 = 12;
/// The rows of a tile, at most, for processors with 16 vector registers.
const MAX_ROWS_OF_FEW_REGISTERS: u64 = 6;
/// The columns, and the chain, below which a thread for each element does better.
const MIN_COLUMNS: u64 = 4;
const MIN_FLOPS: u64 = 4096;
/// The bytes of a factor that stay in a cache of the second level beside all else.
const CACHE_BYTES: u64 = 256 * 1024;
/// The bytes of left factors that are worked with while the right one passes by.
const GROUP_BYTES: u64 = 512 * 1024;

/// The part of a product that a block of threads computes: some rows, and a column for each thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ProductTile {
    pub(super) rows: u8,
    /// The columns. There is one tile along them, not full, if there are fewer in all.
    pub(super) columns: u8,
    pub(super) is_narrow: bool,
    /// True if the factor lies in the order in which tiles use it.
    pub(super) has_packed_left: bool,
    pub(super) has_packed_right: bool,
    /// The neighbouring tiles along a column that are computed before those of the next column.
    pub(super) n_grouped: u32,
}

/// The sizes of a product, with what is known of its factors.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductSize {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) length: u64,
    pub(super) dtype: Scalar,
    /// True if neighbours along a row of the right factor are neighbours in memory.
    pub(super) has_dense_rows: bool,
}

impl ProductTile {
    /// Chooses a tile; `None` if a thread should compute each element.
    pub(super) fn choose(size: &ProductSize, options: &PlanOptions) -> Option<ProductTile> {
        let ProductSize { rows, columns, length, dtype, has_dense_rows } = *size;
        let n_flops = rows.saturating_mul(columns).saturating_mul(length);
        if dtype == Scalar::Bool || columns < MIN_COLUMNS || n_flops < MIN_FLOPS || length == 0 {
            return None;
        }
        let bytes = u64::from(accumulator(dtype).bytes());
        let (tile_columns, is_narrow) = choose_columns(columns, 2 * u64::from(options.vector_bytes) / bytes);
        let most_rows = if options.vector_bytes >= 64 { MAX_ROWS } else { MAX_ROWS_OF_FEW_REGISTERS };
        let n_tiles = rows.div_ceil(most_rows);
        let tile_rows = rows.div_ceil(n_tiles);
        let panel_bytes = length * u64::from(dtype.bytes());
        // A factor is packed where tiles that use it again would find it no longer in cache, or find it far apart.
        let has_packed_right = !has_dense_rows || (n_tiles >= 4 && columns * panel_bytes > CACHE_BYTES);
        let has_packed_left = columns >= 4 * tile_columns && rows * panel_bytes > CACHE_BYTES;
        let n_grouped = (GROUP_BYTES / (tile_rows * panel_bytes).max(1)).clamp(1, 1 << 16);
        Some(ProductTile {
            rows: tile_rows as u8,
            columns: tile_columns as u8,
            is_narrow,
            has_packed_left,
            has_packed_right,
            n_grouped: n_grouped as u32,
        })
    }

    /// The numbers of tiles along a column of the product, and along a row.
    pub(super) fn counts(&self, rows: u64, columns: u64) -> (u64, u64) {
        (rows.div_ceil(self.rows.into()), columns.div_ceil(self.columns.into()))
    }
}

/// Chooses the columns of a tile, and whether it is wider than the product.
fn choose_columns(columns: u64, most: u64) -> (u64, bool) {
    let half = most / 2;
    if columns < most {
        let least = columns.next_power_of_two().clamp(8.min(half), most);
        return (least, columns < least);
    }
    // Tiles of one vector do less for each factor that they load, which is worth it where two would hang over.
    let computed = |width: u64| columns.div_ceil(width) * width;
    if computed(half) * 5 / 4 < computed(most) { (half, false) } else { (most, false) }
}
