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
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions { float_mode: FloatMode::Strict, n_workers: 2, vector_bytes: 64, gpu: None, tile_shape: None }
    }
}
