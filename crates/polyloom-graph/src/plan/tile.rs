//! The tiles that products of matrices are computed in, and the choice of their size.
//!
//! Whatever the tile, an element of a product is the same chain of fused multiply-adds, so that no choice here changes a bit.

use super::options::PlanOptions;
use super::reduction::accumulator;
use crate::reference::N_LANES;
use polyloom_ir::{Arch, FloatMode, Scalar, fragment};
use serde::{Deserialize, Serialize};

/// The rows of a tile, at most: with two vectors of columns they and the factors fill 32 vector registers.
const MAX_ROWS: u64 = 12;
/// The rows of a tile, at most, for processors with 16 vector registers.
const MAX_ROWS_OF_FEW_REGISTERS: u64 = 6;
/// The columns, and the chain, below which a thread for each element does better.
const MIN_COLUMNS: u64 = 4;
const MIN_FLOPS: u64 = 4096;
/// The bytes of a factor that stay in a cache of the second level beside all else.
const CACHE_BYTES: u64 = 256 * 1024;
/// The most tiles of a block, whose sums take 24 KiB of shared memory.
pub(super) const MAX_GROUPED: u32 = 16;
/// The length of a piece of a chain: 32 columns of it are two thirds of a cache of the first level.
const PIECE_LENGTH: u32 = 256;
/// The bytes of left factors that are worked with while the right one passes by.
const GROUP_BYTES: u64 = 512 * 1024;

/// The shape of the tiles of a product, and how its factors are laid out for them. No choice changes a bit of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileShape {
    /// The rows of a tile, at most: it has an accumulator for each in every thread.
    pub rows: u8,
    /// The columns of a tile, each of which is a thread's: a power of two.
    pub columns: u8,
    /// True if the left factor is copied into the order in which tiles read it.
    pub packs_left: bool,
    /// True if the right factor is.
    pub packs_right: bool,
    /// The neighbouring tiles along a column of the product that a block of threads computes, from 1 to 16.
    pub n_grouped: u32,
    /// The elements of a chain that are added for all tiles of a block before the next ones are.
    pub piece: u32,
}

/// The part of a product that a block of threads computes: some rows, and a column for each thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ProductTile {
    pub(super) shape: TileShape,
    /// True if there is one tile along the columns, which is not full.
    pub(super) is_narrow: bool,
    /// True if chains are cut to pieces.
    pub(super) is_cut: bool,
}

/// The sizes of a product, with what is known of its factors.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductSize {
    /// The number of matrices.
    pub(super) n_matrices: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) length: u64,
    pub(super) dtype: Scalar,
    /// True if neighbours along a row of the right factor are neighbours in memory.
    pub(super) has_dense_rows: bool,
    /// True if the chain goes along one axis, so that factors can be laid out for it.
    pub(super) can_be_packed: bool,
}

impl ProductTile {
    /// The axes of packed factors, which come before those that are summed over.
    pub(super) fn n_axes(&self) -> usize {
        3 * usize::from(self.shape.packs_left) + 2 * usize::from(self.shape.packs_right)
    }

    /// Chooses a tile; `None` if a thread should compute each element.
    pub(super) fn choose(size: &ProductSize, options: &PlanOptions) -> Option<ProductTile> {
        let ProductSize { n_matrices, rows, columns, length, dtype, has_dense_rows, can_be_packed } = *size;
        let n_flops = n_matrices.saturating_mul(rows).saturating_mul(columns).saturating_mul(length);
        if dtype == Scalar::Bool || columns < MIN_COLUMNS || n_flops < MIN_FLOPS || length == 0 {
            return None;
        }
        let shape = options.tile_shape.unwrap_or_else(|| TileShape::estimate(size, options));
        // Rows are dealt out evenly, so that the last tile, which ends with the product, repeats few of its neighbour's.
        let n_tiles = rows.div_ceil(shape.rows.into());
        let shape = TileShape {
            rows: rows.div_ceil(n_tiles.max(1)) as u8,
            packs_left: can_be_packed && shape.packs_left,
            packs_right: can_be_packed && (shape.packs_right || !has_dense_rows),
            n_grouped: shape.n_grouped.clamp(1, MAX_GROUPED),
            ..shape
        };
        let is_cut = (shape.n_grouped > 1 || shape.packs_left) && length > shape.piece.into();
        Some(ProductTile { shape, is_narrow: columns < shape.columns.into(), is_cut })
    }
}

impl TileShape {
    /// The numbers of tiles along a column of a product, and along a row.
    pub(super) fn counts(&self, rows: u64, columns: u64) -> (u64, u64) {
        (rows.div_ceil(self.rows.into()), columns.div_ceil(self.columns.into()))
    }

    /// Estimates a good shape.
    fn estimate(size: &ProductSize, options: &PlanOptions) -> TileShape {
        let ProductSize { n_matrices, rows, columns, length, dtype, .. } = *size;
        let bytes = u64::from(accumulator(dtype).bytes());
        let tile_columns = choose_columns(columns, 2 * u64::from(options.vector_bytes) / bytes);
        let most_rows = if options.vector_bytes >= 64 { MAX_ROWS } else { MAX_ROWS_OF_FEW_REGISTERS };
        let n_tall = rows.div_ceil(most_rows);
        let n_wide = columns.div_ceil(tile_columns);
        let panel_bytes = length * u64::from(dtype.bytes());
        // A factor is packed where tiles that use it again would find it no longer in cache, or far apart.
        let packs_right = n_tall >= 4 && columns * panel_bytes > CACHE_BYTES;
        let packs_left = n_wide >= 4 && rows * panel_bytes > CACHE_BYTES;
        // All workers have some blocks, of as many tiles as have their left factors in cache.
        let n_fair = (n_matrices * n_tall * n_wide).div_ceil(4 * u64::from(options.n_workers));
        let n_near = GROUP_BYTES / (most_rows * panel_bytes).max(1);
        let n_grouped = n_near.min(n_fair).clamp(1, MAX_GROUPED.into()) as u32;
        // Pieces are of about the same length, because each stores its partial sums and loads them again.
        let n_pieces = length.div_ceil(PIECE_LENGTH.into());
        TileShape {
            rows: most_rows as u8,
            columns: tile_columns as u8,
            packs_left,
            packs_right,
            n_grouped,
            piece: length.div_ceil(n_pieces.max(1)).max(1) as u32,
        }
    }
}

/// The rows, and the columns, of the part of a product that a warp computes with tensor cores: two fragments of each.
pub(super) const WARP_EDGE: u64 = 32;

/// The tile of a product that a block of threads computes with tensor cores: a square of warps, each of which has a square of
/// [`WARP_EDGE`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct MatrixTile {
    /// The type of the factors.
    pub(super) factor: Scalar,
    /// The warps below each other, and side by side: 1, 2 or 4.
    pub(super) warps: u8,
}

impl MatrixTile {
    /// The rows, and the columns, of a block.
    pub(super) fn edge(self) -> u64 {
        u64::from(self.warps) * WARP_EDGE
    }

    pub(super) fn n_threads(self) -> u32 {
        u32::from(self.warps).pow(2) * N_LANES as u32
    }

    /// The length of the part of the chain that shared memory has. A warp by itself has half of it, because its threads hold
    /// four times as much of a slice that is on its way, and what they find places by.
    pub(super) fn slice(self) -> u32 {
        if self.warps == 1 { 16 } else { 32 }
    }

    pub(super) fn n_blocks(self, n_matrices: u64, rows: u64, columns: u64) -> u64 {
        n_matrices * rows.div_ceil(self.edge()) * columns.div_ceil(self.edge())
    }

    /// Chooses a tile for factors of a type; `None` if tensor cores do not give what the mode asks for, or too little of what
    /// they give is wanted.
    pub(super) fn choose(size: &ProductSize, factor: Scalar, options: &PlanOptions) -> Option<MatrixTile> {
        let n_flops =
            size.n_matrices.saturating_mul(size.rows).saturating_mul(size.columns).saturating_mul(size.length);
        let is_filled = size.rows.min(size.columns) >= MIN_MATRIX_EDGE && n_flops >= MIN_FLOPS;
        if !is_filled || !may_use_tensor_cores(factor, options) {
            return None;
        }
        let of = |warps| MatrixTile { factor, warps };
        // Large tiles load less for each product, as long as there are some for every multiprocessor.
        let is_full = |tile: &MatrixTile| {
            let is_filled = size.rows.min(size.columns) > tile.edge() / 2;
            is_filled && tile.n_blocks(size.n_matrices, size.rows, size.columns) >= n_multiprocessors(options)
        };
        Some([of(4), of(2)].into_iter().find(is_full).unwrap_or(of(1)))
    }
}

/// Returns true if tensor cores give what the mode asks of products of factors of a type. They add products of floats in an
/// order of their own. Of `float32` they would take the upper bits alone.
pub(super) fn may_use_tensor_cores(factor: Scalar, options: &PlanOptions) -> bool {
    let is_exact = factor.is_int() && fragment::accumulator(factor).is_some();
    let may_reorder = factor.is_half() && options.float_mode != FloatMode::Strict;
    let has_factor = options.gpu.is_some_and(|arch| arch >= fragment::least_arch(factor));
    (is_exact || may_reorder) && has_factor
}

/// Returns the number of multiprocessors that a plan is for.
fn n_multiprocessors(options: &PlanOptions) -> u64 {
    u64::from(options.n_workers.div_ceil(ROWS_OF_MULTIPROCESSOR))
}

/// The bytes of a slice of a chain that a stage of shared memory has of each row or column.
const SLICE_BYTES: u32 = 64;
/// The bytes that a thread copies at once.
const CHUNK_BYTES: u32 = 16;
/// The bytes between rows of shared memory that keep neighbouring ones from the same banks.
const GAP_BYTES: u32 = 16;

/// The ways in which a multiprocessor adds up products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ProductEngine {
    /// Tensor cores: each of four warps has a quarter of a block's tile.
    TensorCore,
    /// Each of 256 threads has some rows and columns of the tile, and adds up their chains.
    Chain,
}

/// The tile of a product that a block of threads computes from slices of the factors, which are copied to shared memory
/// while the tile is computed from those before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PipelinedTile {
    /// The type of the factors.
    pub(super) factor: Scalar,
    /// The rows, and the columns: 64 or 128.
    pub(super) edge: u8,
    pub(super) engine: ProductEngine,
    /// For each factor, true if neighbours along the chain are neighbours in memory. Of others those along the rows of the left
    /// factor, or along the columns of the right one, are.
    pub(super) is_along_chain: [bool; 2],
}

impl PipelinedTile {
    /// The stages of shared memory: one is worked with while the others are filled.
    pub(super) const N_STAGES: u32 = 4;

    pub(super) fn n_threads(self) -> u32 {
        match self.engine {
            ProductEngine::TensorCore => 128,
            ProductEngine::Chain => 256,
        }
    }

    /// The elements of a chain that a stage has.
    pub(super) fn slice(self) -> u32 {
        SLICE_BYTES / self.factor.bytes()
    }

    /// The elements that a thread copies at once.
    pub(super) fn chunk(self) -> u32 {
        chunk_of(self.factor)
    }

    /// The rows that shared memory has of a stage of a factor, which are rows or columns of the tile or elements of the chain,
    /// and the number of elements of each.
    pub(super) fn stage_extents(self, factor: usize) -> [u32; 2] {
        let (slice, edge) = (self.slice(), u32::from(self.edge));
        if self.is_along_chain[factor] { [edge, slice] } else { [slice, edge] }
    }

    /// The extents of the shared memory of a factor, with the gaps between its rows.
    pub(super) fn shared_extents(self, factor: usize) -> [u32; 2] {
        let [n_rows, width] = self.stage_extents(factor);
        [Self::N_STAGES * n_rows, width + GAP_BYTES / self.factor.bytes()]
    }

    /// The first byte of the shared memory of the right factor, and the one after its last.
    pub(super) fn shared_ends(self) -> [u32; 2] {
        let n_bytes = |factor: usize| self.shared_extents(factor).iter().product::<u32>() * self.factor.bytes();
        [n_bytes(0), n_bytes(0) + n_bytes(1)]
    }

    pub(super) fn n_blocks(self, n_matrices: u64, rows: u64, columns: u64) -> u64 {
        let edge = u64::from(self.edge);
        n_matrices * rows.div_ceil(edge) * columns.div_ceil(edge)
    }

    /// Chooses a tile for factors of a type that lie along the chain; `None` if there is none, or no GPU.
    pub(super) fn choose(size: &ProductSize, factor: Scalar, options: &PlanOptions) -> Option<PipelinedTile> {
        let arch = options.gpu?;
        let engine = match factor {
            _ if may_use_tensor_cores(factor, options) => ProductEngine::TensorCore,
            Scalar::F32 | Scalar::F64 if size.dtype == factor => ProductEngine::Chain,
            _ => return None,
        };
        let of = |edge| PipelinedTile { factor, edge, engine, is_along_chain: [true; 2] };
        let is_whole = size.length > 0 && size.length.is_multiple_of(of(0).slice().into());
        if arch < Arch::of_number(80)? || !is_whole || size.rows.min(size.columns) < MIN_PIPELINED_EDGE {
            return None;
        }
        // Large tiles load less for each product, as long as there are some for every multiprocessor.
        let large = of(128);
        let n_blocks = large.n_blocks(size.n_matrices, size.rows, size.columns);
        let is_full = size.rows.min(size.columns) > 64 && n_blocks >= n_multiprocessors(options);
        Some(if is_full { large } else { of(64) })
    }
}

/// The elements of a type that a thread copies at once.
pub(super) fn chunk_of(factor: Scalar) -> u32 {
    CHUNK_BYTES / factor.bytes()
}

/// The rows, and the columns, below which a tile of a pipelined product would be mostly empty.
const MIN_PIPELINED_EDGE: u64 = 32;
/// The rows, and the columns, below which tensor cores would mostly add what nobody asked for.
const MIN_MATRIX_EDGE: u64 = 8;
/// The workers of a plan that a multiprocessor is.
const ROWS_OF_MULTIPROCESSOR: u32 = 4;

/// Chooses the columns of a tile, of which two vectors hold so many.
fn choose_columns(columns: u64, most: u64) -> u64 {
    let half = most / 2;
    if columns < most {
        return columns.next_power_of_two().clamp(8.min(half), most);
    }
    // Tiles of one vector do less for each factor that they load, which is worth it where two would hang over.
    let computed = |width: u64| columns.div_ceil(width) * width;
    if computed(half) * 9 / 8 < computed(most) { half } else { most }
}

/// The columns of values that threads go along side by side.
pub(super) const VALUE_LANES: u64 = N_LANES as u64;
/// The most groups of so many columns that a block of threads has.
const MAX_VALUE_GROUPS: u64 = 4;
/// The vector registers that hold what a block of threads adds up.
const N_SUM_REGISTERS: u64 = 24;
const N_SUM_REGISTERS_OF_FEW: u64 = 12;

/// The queries that a block of threads has, and the columns of values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct AttentionTile {
    pub(super) rows: u8,
    pub(super) n_groups: u8,
    pub(super) is_causal: bool,
    /// True if the last columns of threads are beyond the values.
    pub(super) is_ragged: bool,
}

impl AttentionTile {
    pub(super) fn choose(
        n_queries: u64,
        value_width: u64,
        dtype: Scalar,
        is_causal: bool,
        options: &PlanOptions,
    ) -> AttentionTile {
        let n_groups = value_width.div_ceil(VALUE_LANES).clamp(1, MAX_VALUE_GROUPS);
        let n_of_group = (VALUE_LANES * u64::from(dtype.bytes()) / u64::from(options.vector_bytes)).max(1);
        let n_registers = if options.vector_bytes >= 64 { N_SUM_REGISTERS } else { N_SUM_REGISTERS_OF_FEW };
        // Scores of two groups of keys for each query, and then sums of values, are in registers.
        let most = (n_registers / (n_of_group * n_groups.max(2))).max(1);
        let rows = n_queries.div_ceil(n_queries.div_ceil(most).max(1)).max(1);
        let is_ragged = !value_width.is_multiple_of(n_groups * VALUE_LANES);
        AttentionTile { rows: rows as u8, n_groups: n_groups as u8, is_causal, is_ragged }
    }
}
