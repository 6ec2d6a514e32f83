//! What a kernel of products multiplies, and how its warps share the work.

use crate::generate::generator::KernelGenerator;
use crate::number_range::NumberRange;
use polyloom::{Scalar, Type};

/// Describes what is multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ProductKind {
    /// A product.
    Plain,
    /// A product whose even and odd parts have sums of their own.
    Halves,
    /// Two products of one left factor, of which each element of the result is made.
    Gated,
    /// Tiles beside each other, by one warp that loads the left factor once.
    Wide,
    /// Tiles below each other, by one warp that loads the right factor once.
    Tall,
    /// A matrix and its own transpose.
    Gram,
    /// The sum of two products.
    Pair,
    /// A product, and then the product of what has become of it.
    Chain,
    /// A product of which some blocks are left out.
    Sparse,
}

/// Describes how the warps share the work.
pub(super) struct WarpTiling {
    pub(super) difficulty: u8,
    pub(super) factor: Scalar,
    pub(super) sum: Type,
    /// The columns of a tile.
    pub(super) width: u32,
    /// Tiles along the axis that is summed over.
    pub(super) inner: u32,
    /// Tiles of the result.
    pub(super) rows: u32,
    pub(super) cols: u32,
    /// Products that stand below each other in the arrays.
    pub(super) batches: u32,
    pub(super) batch: Option<String>,
    pub(super) row: String,
    pub(super) col: String,
    /// The limits of the factors' elements.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Numbers that all threads share.
    pub(super) extras: Vec<usize>,
}

/// The lanes' part of a tile of the result, and its place from the tile that the block begins with.
pub(super) struct TileFragment {
    pub(super) name: String,
    pub(super) down: u32,
    pub(super) right: u32,
}

impl WarpTiling {
    pub(super) fn draw(g: &mut KernelGenerator, kind: ProductKind, difficulty: u8) -> WarpTiling {
        let factor = g.random.pick(&[Scalar::F16, Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::I8, Scalar::U8]);
        let sum: Type = if factor.is_float() { Type::F32 } else { Type::I32 };
        g.scalars = vec![if factor.is_float() { Scalar::F32 } else { Scalar::I32 }];
        let (low, high) = match factor {
            Scalar::U8 => (0.0, 9.0),
            Scalar::I8 => (-6.0, 6.0),
            _ => (-1.0, 1.0),
        };
        let width = if kind == ProductKind::Chain { 16 } else { g.random.pick(&[16, 16, 8]) };
        let inner = match kind {
            ProductKind::Halves => g.random.pick(&[2, 2, 4]),
            _ => g.random.pick(&[1, 2, 3]),
        };
        let rows = g.random.pick(&[1, 2]);
        let cols = match kind {
            ProductKind::Gram => 16 * rows / width,
            ProductKind::Chain => 1,
            _ => g.random.pick(&[1, 2]),
        };
        let batches = if difficulty > 1 { g.random.pick(&[1, 1, 2]) } else { 1 };
        let n_warps = rows * cols * batches;
        g.in_blocks(32, 32 * n_warps);
        let batch = (batches > 1).then(|| g.like(&["batch", "item", "head", "group"]));
        let (row, col) = (g.like(&["row", "tile_row", "r0"]), g.like(&["col", "tile_col", "c0"]));
        WarpTiling {
            difficulty,
            factor,
            sum,
            width,
            inner,
            rows,
            cols,
            batches,
            batch,
            row,
            col,
            low,
            high,
            extras: Vec::new(),
        }
    }

    /// Rows and columns of the result that a warp makes, in tiles.
    pub(super) fn strips(kind: ProductKind) -> (u32, u32) {
        match kind {
            ProductKind::Wide => (1, 2),
            ProductKind::Tall => (2, 1),
            _ => (1, 1),
        }
    }

    /// Extents of one product: rows, columns and what is summed over.
    pub(super) fn extents(&self, kind: ProductKind) -> (u32, u32, u32) {
        let (down, right) = WarpTiling::strips(kind);
        (16 * self.rows * down, self.width * self.cols * right, 16 * self.inner)
    }

    /// The lines by which a warp finds its tile. Where there is one only it begins at zero, which needs none.
    pub(super) fn place(&mut self, g: &mut KernelGenerator, kind: ProductKind) {
        let ((down, right), (rows, cols)) = (WarpTiling::strips(kind), (self.rows, self.cols));
        let (height, width) = (16 * down, self.width * right);
        let block = match &self.batch {
            None => "loom.block_idx()".to_owned(),
            Some(batch) => {
                g.line(&match rows * cols {
                    1 => format!("{batch} = loom.block_idx()"),
                    n => format!("{batch} = loom.block_idx() // {n}"),
                });
                match rows * cols {
                    1 => "0".to_owned(),
                    n => {
                        let tile = g.like(&["tile_idx", "rest", "block"]);
                        g.line(&format!("{tile} = loom.block_idx() % {n}"));
                        tile
                    }
                }
            }
        };
        let (row, col) = match (rows, cols) {
            (1, 1) => ("0".to_owned(), "0".to_owned()),
            (_, 1) => (format!("{block} * {height}"), "0".to_owned()),
            (1, _) => ("0".to_owned(), format!("{block} * {width}")),
            _ => (format!("{block} // {cols} * {height}"), format!("{block} % {cols} * {width}")),
        };
        for (name, place) in [(&mut self.row, row), (&mut self.col, col)] {
            match place == "0" {
                true => *name = place,
                false => g.line(&format!("{name} = {place}")),
            }
        }
    }

    /// The place of an index of one product in an array of all of them, which has so many for each.
    pub(super) fn of_batch(&self, index: &str, extent: u32) -> String {
        match &self.batch {
            None => index.to_owned(),
            Some(batch) if index == "0" => format!("{batch} * {extent}"),
            Some(batch) => format!("{batch} * {extent} + {index}"),
        }
    }

    /// Returns the number of elements of a tile a lane has.
    pub(super) fn lanes(&self) -> u32 {
        self.width / 2
    }

    pub(super) fn n_option(&self) -> &'static str {
        if self.width == 8 { ", n=8" } else { "" }
    }

    /// The lanes' part of a tile of zeros.
    pub(super) fn zeros(&self, g: &mut KernelGenerator) -> String {
        let dtype = if self.sum == Type::F32 { "float" } else { "int" };
        match self.width == 8 && self.sum == Type::F32 && g.random.one_in(2) {
            true => "loom.vec4(0.0, 0.0, 0.0, 0.0)".to_owned(),
            false => format!("loom.vector(length={}, dtype={dtype})", self.lanes()),
        }
    }

    /// Returns what a sum over so many elements may be.
    pub(super) fn range(&self, n: u32) -> NumberRange {
        NumberRange::within(f64::from(n) * self.low.abs().max(self.high.abs()).max(8.0).powi(2) + 1.0)
    }
}
