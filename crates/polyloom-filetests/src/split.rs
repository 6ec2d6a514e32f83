//! Running, by the interpreter, a kernel that was split at barriers: what a launch gives it is made here.

use polyloom_ir::LaunchConfig;
use polyloom_ir::block_plan::{BlockLaunch, BlockPlan};
use polyloom_ir::interp::{ArrayArg, BufferMemory, InterpArg, InterpError, InterpHost, Interpreter};
use polyloom_ir::{FuncId, MAX_DIMS, Module, Type};

/// Runs all blocks of a launch.
///
/// # Errors
///
/// As [`Interpreter::launch`].
pub(crate) fn launch_split(
    (module, kernel, plan): (&Module, FuncId, &BlockPlan),
    (shape, grid): (&[u64], LaunchConfig),
    arguments: &[InterpArg],
    memory: &mut BufferMemory,
    host: &mut dyn InterpHost,
    max_steps: u64,
) -> Result<(), InterpError> {
    let function = &module.functions[kernel];
    let interpreter = Interpreter::new(module, kernel)?.with_max_steps(max_steps);
    let mut extents = [1; MAX_DIMS];
    extents.iter_mut().zip(shape).for_each(|(extent, &given)| *extent = given);
    let launch = BlockLaunch { grid, shape: extents };
    if !plan.takes(&launch) {
        return Err(InterpError::BadArguments(format!("a launch of {shape:?} that the kernel was not split for")));
    }
    let mut arguments = arguments.to_vec();
    let types: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
    let mut dynamic = None;
    for (param, ty) in plan.with_types(&types) {
        let array = ty.as_array().and_then(|(elem, _)| param.memory(elem, &launch));
        let Some(array) = array else {
            arguments.push(InterpArg::Scalar(param.scalar(&launch).unwrap_or(0)));
            continue;
        };
        let mut add = || {
            // The bytes are not zero, because it must not matter what the memory held before.
            memory.buffers.push(vec![0xa5; array.bytes as usize]);
            memory.buffers.len() as u32 - 1
        };
        let buffer = if param.is_dynamic() { *dynamic.get_or_insert_with(add) } else { add() };
        let mut view = ArrayArg { buffer, ..ArrayArg::default() };
        for (axis, (&extent, &stride)) in array.extents.iter().zip(&array.strides).enumerate() {
            (view.extents[axis], view.strides[axis]) = (extent as i64, stride);
        }
        arguments.push(InterpArg::Array(view));
    }
    let n_blocks = grid.n_blocks();
    interpreter.launch(&[n_blocks], &arguments, memory, host, 0..n_blocks)
}
