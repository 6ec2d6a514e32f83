//! Inputs of a kernel that says nothing of them but their types.
//!
//! Most kernels index arrays by the thread's coordinates, so the extents of arrays are those of the launch, axis by axis.
//! Others take square matrices, or look beyond their own element; some are defined for positive numbers alone. Each is
//! tried, what asks the least of a kernel last.

use crate::generate::{InputValues, ProgramExtent, ProgramInput};
use polyloom::op::OpEffect;
use polyloom::{CompositeKind, Kernel, Op, Scalar, Type};

/// Extents of arrays that hold what a launch's threads look for beside their own elements, or at `i * width + j`.
const WIDE: [u32; 4] = [160, 12, 10, 8];

/// Describes how the extents of arrays go with those of the launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtentShapes {
    /// Axis by axis the same.
    ByAxis,
    /// All the same.
    Square,
    /// Arrays are larger.
    Wide,
}

/// The inputs and launches to try, in order.
pub(super) fn choices(kernel: &Kernel) -> impl Iterator<Item = (Vec<ProgramInput>, Vec<ProgramExtent>)> + '_ {
    let (reads, written) = (read_arrays(kernel), kernel.function().written_arrays());
    let shapes = [ExtentShapes::ByAxis, ExtentShapes::Square, ExtentShapes::Wide];
    let ranges = [(-2.0, 2.0), (0.25, 1.75)];
    shapes.into_iter().flat_map(move |shapes| ranges.map(|floats| (shapes, floats))).map(move |(shapes, floats)| {
        let names = kernel.names().iter().zip(kernel.types()).enumerate();
        let inputs = names.map(|(index, (name, &ty))| {
            let (elem, rank) = ty.as_any_array().map_or((ty, 0), |(elem, rank)| (elem, usize::from(rank)));
            let is_output = rank > 0 && written[index] && !reads[index];
            ProgramInput {
                name: name.to_string(),
                dtype: elem.python_name(),
                shape: (0..rank).map(|axis| extent(kernel, shapes, axis)).collect(),
                values: if is_output { InputValues::Zeros } else { values(elem, rank > 0, floats) },
            }
        });
        (inputs.collect(), launch(kernel, shapes))
    })
}

fn extent(kernel: &Kernel, shapes: ExtentShapes, axis: usize) -> ProgramExtent {
    match shapes {
        ExtentShapes::ByAxis => ProgramExtent::Free(axis as u8),
        ExtentShapes::Square => ProgramExtent::Free(0),
        ExtentShapes::Wide if axis == 0 && kernel.needs_blocks() => {
            ProgramExtent::Is(WIDE[0].max(2 * block_size(kernel)))
        }
        ExtentShapes::Wide => ProgramExtent::Is(WIDE[axis % WIDE.len()]),
    }
}

/// Threads of a block work together, and none of them is to be missing, so that the first extent is one of whole
/// blocks.
fn launch(kernel: &Kernel, shapes: ExtentShapes) -> Vec<ProgramExtent> {
    if kernel.needs_blocks() && shapes == ExtentShapes::Wide {
        return vec![ProgramExtent::Is(block_size(kernel))];
    }
    let is_square = shapes == ExtentShapes::Square && !kernel.needs_blocks();
    let axes = 0..usize::from(kernel.natural_rank());
    axes.map(|axis| if is_square { ProgramExtent::Free(0) } else { ProgramExtent::Free(axis as u8) }).collect()
}

fn block_size(kernel: &Kernel) -> u32 {
    u32::try_from(kernel.block_size()).unwrap_or(u32::MAX / 2)
}

/// Integers of arrays are often indices, and integers by themselves sizes, so they are small.
fn values(elem: Type, is_array: bool, (low, high): (f64, f64)) -> InputValues {
    let (scalar, composite) = match elem.as_composite() {
        Some(composite) => (composite.elem(), Some(composite)),
        None => (elem.as_scalar().unwrap_or(Scalar::I32), None),
    };
    match scalar {
        Scalar::Bool => InputValues::Between { low: 0.0, high: 1.0 },
        _ if composite.is_some_and(|composite| composite.kind() == CompositeKind::Quaternion) => InputValues::Unit,
        _ if scalar.is_float() => InputValues::Between { low, high },
        _ => InputValues::Between { low: if is_array { 0.0 } else { 1.0 }, high: 6.0 },
    }
}

/// For each parameter, whether the kernel reads elements of the array.
fn read_arrays(kernel: &Kernel) -> Vec<bool> {
    let function = kernel.function();
    let mut reads = vec![false; kernel.types().len()];
    function.walk(function.body, &mut |_, data| {
        let may_read = data.op == Op::Call || matches!(data.op.info().effect, OpEffect::Read | OpEffect::ReadWrite);
        for &operand in data.operands.iter().filter(|_| may_read) {
            if let Some(index) = function.param_index(operand) {
                reads[index] = true;
            }
        }
    });
    reads
}
