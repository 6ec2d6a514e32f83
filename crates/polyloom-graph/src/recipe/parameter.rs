//! The parameters of kernels, which tuning chooses. No choice of them changes a bit of a result.

use crate::plan::{PlanOptions, TileShape};
use serde::{Deserialize, Serialize};

/// The choices of a group's kernels that are not the graph's. What is `None` is chosen when the group is planned or compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelParameters {
    /// The tiles of products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<TileShape>,
    /// The bytes of a vector register that tiles are made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector_bytes: Option<u32>,
    /// The number of threads that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The number of threads of a block, on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// The number of turns of an inner loop that are made one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unroll: Option<u32>,
    /// The tier of the code on the CPU: 0 is compiled at once, 1 is optimised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
}

impl KernelParameters {
    /// Returns true if all choices are left open.
    pub fn is_default(&self) -> bool {
        *self == KernelParameters::default()
    }

    /// Returns the options of plans with these choices made.
    pub fn plan_options(&self, options: &PlanOptions) -> PlanOptions {
        PlanOptions {
            tile_shape: self.tile.or(options.tile_shape),
            vector_bytes: self.vector_bytes.unwrap_or(options.vector_bytes),
            n_workers: self.threads.unwrap_or(options.n_workers),
            unroll: self.unroll.or(options.unroll),
            block_size: self.block_size.or(options.block_size),
            ..*options
        }
    }

    /// Returns the first parameter whose value no kernel can have, with what is wrong.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let outside = |name, value: u32, low: u32, high: u32| {
            (!(low..=high).contains(&value)).then(|| (name, format!("is {value}, and is from {low} to {high}")))
        };
        let power =
            |name, value: u32| (!value.is_power_of_two()).then(|| (name, format!("is {value}, and is a power of two")));
        let tile = |tile: TileShape| {
            outside("tile.rows", tile.rows.into(), 1, 64)
                .or_else(|| outside("tile.columns", tile.columns.into(), 1, 128))
                .or_else(|| power("tile.columns", tile.columns.into()))
                .or_else(|| outside("tile.n_grouped", tile.n_grouped, 1, 16))
                .or_else(|| outside("tile.piece", tile.piece, 1, 1 << 20))
        };
        let block = |size| outside("block_size", size, 1, 1024);
        self.tile
            .and_then(tile)
            .or_else(|| self.vector_bytes.and_then(|bytes| outside("vector_bytes", bytes, 8, 256)))
            .or_else(|| self.vector_bytes.and_then(|bytes| power("vector_bytes", bytes)))
            .or_else(|| self.threads.and_then(|threads| outside("threads", threads, 1, 1 << 16)))
            .or_else(|| self.block_size.and_then(block))
            .or_else(|| self.unroll.and_then(|unroll| outside("unroll", unroll, 1, 64)))
            .or_else(|| self.tier.and_then(|tier| outside("tier", tier.into(), 0, 1)))
    }
}
