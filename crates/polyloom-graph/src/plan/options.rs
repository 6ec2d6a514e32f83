//! The options of plans.

use super::tile::TileShape;
use polyloom_ir::{Arch, FloatMode};

/// The choices of a plan that are not the graph's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanOptions {
    /// The floating-point mode of the kernels.
    pub float_mode: FloatMode,
    /// The number of threads that run at once, about, which decides where rows are cut to pieces.
    pub n_workers: u32,
    /// The bytes of a vector register of the CPU, by which tiles of products are sized.
    pub vector_bytes: u32,
    /// The architecture of the GPU that the kernels run on, or that is simulated; none elsewhere.
    pub gpu: Option<Arch>,
    /// The tiles of products; chosen by the sizes of each if there are none.
    pub tile_shape: Option<TileShape>,
    /// The number of turns of an inner loop that become one; chosen by the compiler if there is none.
    pub unroll: Option<u32>,
    /// The number of threads of a block on a GPU, of kernels whose threads know no blocks; chosen by the device if there is none.
    pub block_size: Option<u32>,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            float_mode: FloatMode::Strict,
            n_workers: 2,
            vector_bytes: 64,
            gpu: None,
            tile_shape: None,
            unroll: None,
            block_size: None,
        }
    }
}
