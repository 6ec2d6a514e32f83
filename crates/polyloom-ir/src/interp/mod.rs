//! The living definition of HIR: what a function or a kernel computes, in the order a single processor would.
//!
//! Back ends are right when they agree with this. [`crate::eval`] defines scalar ops; here are control flow, arrays,
//! atomics, checks and calls:
//!
//! - Threads run one after another in row-major order, so atomics happen in that order too.
//! - A negative index of a signed type counts from the end of its axis. An index that is still outside its axis ends
//!   the launch with [`InterpError::OutOfBounds`], in checked and unchecked mode alike; compiled code may do anything.
//! - A failed `check` or `assert` ends the launch with [`InterpError::Trap`]. What earlier threads stored stays.
//! - A kernel with an op that needs blocks runs a block after another. The threads of a block run one after another to
//!   the next op that its warp or block executes together, then the next warp does; the results of such an op are given
//!   to all its threads at once (`blocks.rs`).
//! - Library ops run the HIR of [`crate::math`], `f32` functions for 16-bit floats.
//!
//! HIR is first brought into a linear form (`prepare.rs`) in which every value has a slot and control flow is jumps;
//! `run.rs` executes that without allocating or hashing. An [`Interpreter`] holds one function in this form, with all
//! it calls, and does not change: threads may share it.
//!
//! Design: `docs/design/interpreter.md`.

mod arguments;
mod blocks;
mod error;
mod lower;
mod memory;
mod prepare;
mod run;

pub use arguments::{ArrayArg, GlobalSums, InterpArg, InterpHost, InterpOptions, ObservedOp, PrintingHost};
pub use error::{InterpError, InterpTrap, MAX_CALL_DEPTH, TrapSite};
pub use memory::{BufferMemory, InterpMemory};

use crate::entity::FuncId;
use crate::function::Module;
use crate::launch_config::LaunchConfig;
use crate::types::{MAX_DIMS, Type};
use prepare::{BlockNeeds, LinearCode};
use run::CallStack;
use std::ops::Range;

/// One function with all it calls, ready to run.
///
/// ```
/// use polyloom_ir::interp::Interpreter;
/// use polyloom_ir::{Builder, Function, FunctionKind, Module, Op, Type};
///
/// let mut square = Function::new("square", FunctionKind::Func, [("x", Type::I32)], &[Type::I32]);
/// let x = square.params()[0];
/// let mut builder = Builder::new(&mut square);
/// let product = builder.op(Op::Mul, &[x, x]);
/// builder.return_(&[product]);
/// let mut module = Module::new();
/// let square = module.functions.push(square);
///
/// let interpreter = Interpreter::new(&module, square).unwrap();
/// assert_eq!(interpreter.call(&[12]), Ok(vec![144]));
/// ```
#[derive(Debug)]
pub struct Interpreter {
    /// The function itself comes first.
    codes: Vec<LinearCode>,
    param_types: Vec<Type>,
    n_results: usize,
    /// Slots needed by the function and the deepest chain of calls below it.
    stack_size: usize,
    max_steps: u64,
    blocks: BlockNeeds,
    /// Threads of a block and dynamic shared memory, where the launch says nothing.
    default_grid: LaunchConfig,
}

impl Interpreter {
    /// Prepares a function or kernel of a verified module.
    ///
    /// # Errors
    ///
    /// [`InterpError::NoDefinition`] and [`InterpError::CallDepth`].
    pub fn new(module: &Module, func: FuncId) -> Result<Interpreter, InterpError> {
        Self::with_options(module, func, InterpOptions::default())
    }

    /// Works like [`Interpreter::new`], with options.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::new`].
    pub fn with_options(module: &Module, func: FuncId, options: InterpOptions<'_>) -> Result<Interpreter, InterpError> {
        let prepared = prepare::PreparedProgram::new(module, func, options)?;
        let function = &module.functions[func];
        Ok(Interpreter {
            codes: prepared.codes,
            stack_size: prepared.stack_size,
            param_types: function.params().iter().map(|&param| function.ty(param)).collect(),
            n_results: function.results.len(),
            max_steps: u64::MAX,
            blocks: prepared.blocks,
            default_grid: function.metadata.grid(0),
        })
    }

    /// The blocks of a launch of so many threads, where nothing says more.
    pub fn default_grid(&self, n_threads: u64) -> LaunchConfig {
        LaunchConfig::of_threads(n_threads, self.default_grid.block, self.default_grid.shared_bytes)
    }

    /// Returns true if the kernel is launched in blocks: it has an op that needs them.
    pub fn needs_blocks(&self) -> bool {
        self.blocks.needed
    }

    /// Limits how long a launch or call may run. Each thread, each further iteration of a loop and each call is one
    /// step; between steps there is no more to do than the function is long.
    #[must_use]
    pub fn with_max_steps(mut self, max_steps: u64) -> Interpreter {
        self.max_steps = max_steps;
        self
    }

    /// Calls a function of scalars that prints nothing to be seen, and gives the bits of its results.
    ///
    /// # Errors
    ///
    /// All of [`InterpError`] but those of preparation.
    pub fn call(&self, args: &[u64]) -> Result<Vec<u64>, InterpError> {
        let args: Vec<InterpArg> = args.iter().map(|&bits| InterpArg::Scalar(bits)).collect();
        self.call_with(&args, &mut BufferMemory::default(), &mut PrintingHost::default())
    }

    /// Calls a function and gives the bits of its results.
    ///
    /// # Errors
    ///
    /// All of [`InterpError`] but those of preparation.
    pub fn call_with(
        &self,
        args: &[InterpArg],
        memory: &mut dyn InterpMemory,
        host: &mut dyn InterpHost,
    ) -> Result<Vec<u64>, InterpError> {
        let mut stack = self.stack(args)?;
        let mut machine = run::ThreadMachine::new(self, args, memory, host);
        if self.blocks.needed {
            machine.enter_grid(&LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 }, &[1], 1)?;
            let mut stacks = machine.block(0, &stack)?;
            stack = stacks.swap_remove(0);
        } else {
            machine.thread()?;
            machine.run(&mut CallStack::default(), &mut stack)?;
        }
        stack.truncate(self.n_results);
        Ok(stack)
    }

    /// Runs the threads of `range`, row-major linear indices, of a launch of this shape. Of a kernel that is launched
    /// in blocks, it runs those whose first thread is in `range`, of the size its metadata says.
    ///
    /// # Errors
    ///
    /// All of [`InterpError`] but those of preparation. A shape of no or more than [`MAX_DIMS`] extents, and a range
    /// past its end, are [`InterpError::BadArguments`].
    pub fn launch(
        &self,
        shape: &[u64],
        args: &[InterpArg],
        memory: &mut dyn InterpMemory,
        host: &mut dyn InterpHost,
        range: Range<u64>,
    ) -> Result<(), InterpError> {
        let n_threads = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
        let fits = (1..=MAX_DIMS).contains(&shape.len()) && n_threads.is_some_and(|n| range.end <= n);
        if !fits {
            return Err(InterpError::BadArguments(format!("threads {range:?} of a launch of shape {shape:?}")));
        }
        if self.blocks.needed {
            let grid = self.default_grid(n_threads.unwrap_or(0));
            let size = grid.block_size().max(1);
            let blocks = range.start.div_ceil(size)..range.end.div_ceil(size);
            return self.launch_grid(shape, &grid, args, memory, host, blocks);
        }
        let mut stack = self.stack(args)?;
        self.launched()?;
        if range.is_empty() {
            return Ok(());
        }
        let mut machine = run::ThreadMachine::new(self, args, memory, host);
        machine.start(shape, range.start);
        let mut calls = CallStack::default();
        for _ in range {
            machine.thread()?;
            machine.run(&mut calls, &mut stack)?;
            machine.next_thread();
        }
        Ok(())
    }

    /// Runs the blocks of `range` of a grid. Threads are counted block after block, along axis 0 first, as blocks and
    /// the threads in them are; those past the end of a launch of this shape do nothing.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::launch`]; also if the grid has fewer blocks or a block more than 1024 threads.
    pub fn launch_grid(
        &self,
        shape: &[u64],
        grid: &LaunchConfig,
        args: &[InterpArg],
        memory: &mut dyn InterpMemory,
        host: &mut dyn InterpHost,
        range: Range<u64>,
    ) -> Result<(), InterpError> {
        let n_threads = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
        let Some(n_threads) = n_threads.filter(|_| (1..=MAX_DIMS).contains(&shape.len())) else {
            return Err(InterpError::BadArguments(format!("a launch of shape {shape:?}")));
        };
        let stack = self.stack(args)?;
        self.launched()?;
        if range.is_empty() {
            return Ok(());
        }
        if range.end > grid.n_blocks() {
            return Err(InterpError::BadArguments(format!("blocks {range:?} of a grid of {:?}", grid.grid)));
        }
        let mut machine = run::ThreadMachine::new(self, args, memory, host);
        machine.enter_grid(grid, shape, n_threads)?;
        for block in range {
            machine.block(block, &stack)?;
        }
        Ok(())
    }

    fn launched(&self) -> Result<(), InterpError> {
        if self.n_results > 0 {
            return Err(InterpError::BadArguments("a function with results is called, not launched".to_owned()));
        }
        Ok(())
    }

    /// A stack with the entry function's frame on it, so that constants and parameters in their slots. Running does not
    /// change these, so threads can run on it one after another.
    fn stack(&self, args: &[InterpArg]) -> Result<Vec<u64>, InterpError> {
        if args.len() != self.param_types.len() {
            let message = format!("{} for {} parameters", args.len(), self.param_types.len());
            return Err(InterpError::BadArguments(message));
        }
        let mut stack = vec![0; self.stack_size];
        let code = &self.codes[0];
        stack[..code.frame.len()].copy_from_slice(&code.frame);
        for (index, (&arg, &ty)) in args.iter().zip(&self.param_types).enumerate() {
            let slot = &mut stack[code.params[index] as usize];
            match (arg, ty) {
                (InterpArg::Scalar(bits), Type::Scalar(scalar)) if bits <= u64::MAX >> (64 - scalar.bits()) => {
                    *slot = bits
                }
                // An array value is the number of the argument.
                (InterpArg::Array(_), Type::Array { .. }) => *slot = index as u64,
                _ => return Err(InterpError::BadArguments(format!("argument {index} is {arg:x?}, not a {ty}"))),
            }
        }
        Ok(stack)
    }
}

#[cfg(test)]
mod tests;
