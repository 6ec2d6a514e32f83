//! Products of matrices of `.loom` programs, by the tensor engine's kernels.

use crate::fusion::{BoundFusion, FusionError, plan_options};
use crate::session::Session;
use polyloom_frontend::MatrixProduct;
use polyloom_graph::{GraphBuilder, Layout, Shape, TensorOp};
use polyloom_ir::{Arch, FloatMode, Scalar};
use polyloom_runtime::{DeviceId, LaunchOptions};
use std::sync::Arc;

/// A product of two dense matrices on the CPU.
#[derive(Debug)]
pub struct LoomProduct {
    bound: BoundFusion,
}

impl Session {
    /// Compiles a product for factors of these extents, `[rows, depth, columns]`, whose parameters are dense. `None` where loops give other bits: of other
    /// elements than `f32` and `f64`, and of sums that the float mode does not let contract.
    ///
    /// # Errors
    ///
    /// Those of [`Session::fused_plan`].
    pub fn loom_product(
        &self,
        product: MatrixProduct,
        dtype: Scalar,
        [rows, depth, columns]: [u64; 3],
        mode: FloatMode,
    ) -> Result<Option<LoomProduct>, FusionError> {
        if !product.may_fuse(mode) || !matches!(dtype, Scalar::F32 | Scalar::F64) || [rows, depth, columns].contains(&0)
        {
            return Ok(None);
        }
        let mut builder = GraphBuilder::new();
        let extents = [product.left.turned([rows, depth]), product.right.turned([depth, columns])];
        let mut factors = Vec::new();
        for ((factor, extents), name) in [product.left, product.right].into_iter().zip(&extents).zip(["a", "b"]) {
            let given = builder.input(name, dtype, Shape::of(extents))?;
            factors.push(match factor.is_transposed {
                true => builder.op(TensorOp::Transpose, &[given.into()], &[])?.into(),
                false => given.into(),
            });
        }
        let result = builder.op(TensorOp::MatMul, &factors, &[])?;
        let graph = builder.finish(&[result])?;
        let layouts = extents.map(|extents| Layout::dense(&extents));
        let options = plan_options(DeviceId::Cpu, Arch::DEFAULT, mode);
        let plan = self.fused_plan(&graph, &layouts, &options)?;
        let is_dense = plan.outputs().first().is_some_and(|output| output.layout == Layout::dense(&[rows, columns]));
        Ok(is_dense.then(|| LoomProduct { bound: Arc::new(plan).bind() }))
    }
}

impl LoomProduct {
    /// Multiplies the matrices whose first elements have these addresses.
    ///
    /// # Errors
    ///
    /// [`FusionError::Argument`] if an address is not aligned, [`FusionError::Memory`] and [`FusionError::Launch`].
    ///
    /// # Safety
    ///
    /// Factors and result are dense, of the extents and elements that the product was compiled for, and nobody else writes to
    /// them until it returns.
    pub unsafe fn run(&mut self, left: usize, right: usize, result: usize) -> Result<(), FusionError> {
        self.bound.place(&[left, right], &[result], &[])?;
        // SAFETY: passed on to the caller.
        let done = unsafe { self.bound.run_from(0, &LaunchOptions::default()) };
        self.bound.release_temporaries();
        done.map(|_| ())
    }
}
