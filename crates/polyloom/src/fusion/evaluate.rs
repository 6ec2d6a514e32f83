//! Graphs evaluated by the evaluator that defines them, over memory: what tests compare with.

use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{Graph, GraphError, Layout};
use polyloom_ir::Scalar;

/// Evaluates a graph, given the layouts of its inputs and the addresses of their elements 0.
///
/// # Errors
///
/// As [`evaluate`].
///
/// # Safety
///
/// The elements of the inputs are valid to read.
pub unsafe fn evaluate_at(
    graph: &Graph,
    inputs: &[Layout],
    addresses: &[usize],
) -> Result<Vec<DenseTensor>, GraphError> {
    let typed = graph.inputs().map(|(_, ty)| ty.dtype).zip(inputs).zip(addresses);
    // SAFETY: passed on to the caller.
    let tensors: Vec<DenseTensor> =
        typed.map(|((dtype, layout), &address)| unsafe { read(dtype, layout, address) }).collect();
    evaluate(graph, &tensors)
}

/// Reads a tensor.
///
/// # Safety
///
/// The elements are valid to read.
unsafe fn read(dtype: Scalar, layout: &Layout, address: usize) -> DenseTensor {
    let n_bytes = dtype.bytes() as usize;
    let element = |place: usize| {
        let mut bytes = [0u8; 8];
        let at = (address as isize).wrapping_add((place as isize).wrapping_mul(n_bytes as isize));
        // SAFETY: passed on to the caller.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), n_bytes) };
        u64::from_le_bytes(bytes)
    };
    DenseTensor { dtype, extents: layout.extents.clone(), bits: layout.places().map(element).collect() }
}
