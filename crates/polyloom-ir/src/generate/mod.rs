//! Random programs that run: kernels with launches, for checking passes and back ends against the interpreter.
//!
//! Every program of [`program`] is valid, ends, stays inside its arrays, and gives the same result in whatever order
//! its threads run: a thread writes elements of its own only, or updates shared ones by one integer atomic whose result
//! it does not use. What differs between back ends by definition does not happen: no NaN's bits are looked at. So a
//! compiled program must leave the memory that the interpreter leaves, as [`same_memory`] compares it.
//!
//! A seed means the same program on every machine, until this module changes.

mod code;
mod launch;
mod random;

pub use random::Random;

use crate::builder::Builder;
use crate::entity::{FuncId, Value};
use crate::function::{Function, FunctionKind, Module};
use crate::interp::{BufferMemory, InterpArg, InterpError, Interpreter, PrintingHost};
use crate::types::{Scalar, Type};
use code::CodeGenerator;
use launch::{LaunchBuilder, ParamRole};

/// Describes what programs may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenerateOptions {
    /// Library ops.
    pub library: bool,
    /// Native ops on floats, other than conversions.
    pub float_arithmetic: bool,
    /// About how many instructions a kernel has.
    pub size: usize,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions { library: true, float_arithmetic: true, size: 60 }
    }
}

/// A kernel and a launch of it.
#[derive(Clone, Debug)]
pub struct GeneratedProgram {
    /// The module; the verifier accepts it.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Extents of the launch.
    pub shape: Vec<u64>,
    /// Arguments. Each array has a buffer of its own, dense and row-major from its start.
    pub args: Vec<InterpArg>,
    /// The buffers before the launch.
    pub memory: BufferMemory,
}

impl GeneratedProgram {
    /// Number of threads of the launch.
    pub fn n_threads(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The memory after the interpreter has run the launch.
    ///
    /// # Errors
    ///
    /// [`InterpError::StepLimit`] for the rare program that runs long; no other if `module` is as generated or
    /// equivalent.
    pub fn interpret(&self, module: &Module, kernel: FuncId) -> Result<BufferMemory, InterpError> {
        let interpreter = Interpreter::new(module, kernel)?.with_max_steps(1_000_000);
        let mut memory = self.memory.clone();
        interpreter.launch(&self.shape, &self.args, &mut memory, &mut PrintingHost::default(), 0..self.n_threads())?;
        Ok(memory)
    }

    /// Compares two memories after the launch, a NaN being equal to any NaN.
    ///
    /// # Errors
    ///
    /// The first element that differs, in words.
    pub fn same_memory(&self, expected: &BufferMemory, found: &BufferMemory) -> Result<(), String> {
        let kernel = &self.module.functions[self.kernel];
        for (index, (&arg, &param)) in self.args.iter().zip(kernel.params()).enumerate() {
            let Type::Array { elem, .. } = kernel.ty(param) else { continue };
            let (expected, found) = (expected.elements(elem, arg), found.elements(elem, arg));
            let name = &kernel.param_names[index];
            if expected.len() != found.len() {
                return Err(format!("{name} has {} elements, not {}", found.len(), expected.len()));
            }
            for (element, (&expected, &found)) in expected.iter().zip(&found).enumerate() {
                if expected != found && !(is_nan(elem, expected) && is_nan(elem, found)) {
                    return Err(format!("element {element} of {name}: {elem} is {found:#x}, not {expected:#x}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the bits of a value of this type are a NaN.
pub fn is_nan(ty: Scalar, bits: u64) -> bool {
    let (exponent, mantissa) = match ty {
        Scalar::F16 => (0x7c00, 0x3ff),
        Scalar::BF16 => (0x7f80, 0x7f),
        Scalar::F32 => (0x7f80_0000, 0x7f_ffff),
        Scalar::F64 => (0x7ff0_0000_0000_0000, 0xf_ffff_ffff_ffff),
        _ => return false,
    };
    bits & exponent == exponent && bits & mantissa != 0
}

/// The program of a seed.
pub fn program(seed: u64, options: GenerateOptions) -> GeneratedProgram {
    let mut random = Random::new(seed);
    let mut module = Module::new();
    for index in 0..random.below(3) {
        let function = function(&mut random, &module, options, index);
        module.functions.push(function);
    }
    let shape: Vec<u64> = match random.below(6) {
        0 => vec![1 + random.below(5) as u64, 1 + random.below(40) as u64],
        1 => vec![1 + random.below(3) as u64, 1 + random.below(4) as u64, 1 + random.below(20) as u64],
        2 => vec![2, 1, 2, 1 + random.below(18) as u64],
        _ => vec![1 + random.below(70) as u64],
    };
    let mut launch =
        LaunchBuilder { memory: BufferMemory::default(), args: Vec::new(), params: Vec::new(), roles: Vec::new() };
    launch.arrange(&mut random, shape.iter().product::<u64>() as usize);
    let params = launch.params.iter().map(|(name, ty)| (name.as_str(), *ty));
    let mut kernel = Function::new("kernel", FunctionKind::Kernel, params, &[]);
    let scope = kernel.params().iter().copied().filter(|&v| kernel.ty(v).as_scalar().is_some()).collect();
    let arrays = kernel.params().iter().copied().zip(launch.roles.iter().copied());
    let arrays: Vec<(Value, ParamRole)> = arrays.filter(|(_, role)| *role != ParamRole::Scalar).collect();
    let mut generator = CodeGenerator {
        random: &mut random,
        module: &module,
        builder: Builder::new(&mut kernel),
        scope,
        arrays,
        exits: Vec::new(),
        results: None,
        options,
        budget: options.size,
    };
    generator.kernel_body();
    let kernel = module.functions.push(kernel);
    GeneratedProgram { module, kernel, shape, args: launch.args, memory: launch.memory }
}

/// A function of scalars for kernels to call.
fn function(random: &mut Random, module: &Module, options: GenerateOptions, index: usize) -> Function {
    let params: Vec<(String, Type)> =
        (0..1 + random.below(3)).map(|i| (format!("p{i}"), random.scalar_type())).collect();
    let results: Vec<Type> = (0..1 + random.below(2)).map(|_| random.scalar_type()).collect();
    let params = params.iter().map(|(name, ty)| (name.as_str(), *ty));
    let mut func = Function::new(format!("function{index}"), FunctionKind::Func, params, &results);
    let scope = func.params().to_vec();
    let mut generator = CodeGenerator {
        random,
        module,
        builder: Builder::new(&mut func),
        scope,
        arrays: Vec::new(),
        exits: Vec::new(),
        results: Some(results.clone()),
        options,
        budget: options.size / 3,
    };
    generator.code(2);
    let values = generator.values(&results);
    generator.builder.return_(&values);
    func
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_valid_and_end() {
        let mut n_long = 0;
        for seed in 0..500 {
            let program = program(seed, GenerateOptions::default());
            if let Err(errors) = crate::verify::verify_module(&program.module) {
                panic!("seed {seed}: {errors:#?}\n{}", program.module);
            }
            match program.interpret(&program.module, program.kernel) {
                Ok(_) => {}
                Err(InterpError::StepLimit { .. }) => n_long += 1,
                Err(InterpError::NoDefinition { .. }) => {}
                Err(error) => panic!("seed {seed}: {error:?}\n{}", program.module),
            }
        }
        assert!(n_long < 5, "{n_long} programs run long");
    }

    #[test]
    fn the_order_of_threads_does_not_matter() {
        for seed in 0..200 {
            let program = program(seed, GenerateOptions { library: false, ..GenerateOptions::default() });
            let Ok(expected) = program.interpret(&program.module, program.kernel) else { continue };
            let interpreter = Interpreter::new(&program.module, program.kernel).unwrap();
            let mut memory = program.memory.clone();
            for thread in (0..program.n_threads()).rev() {
                let (args, host) = (&program.args, &mut PrintingHost::default());
                interpreter.launch(&program.shape, args, &mut memory, host, thread..thread + 1).unwrap();
            }
            program.same_memory(&expected, &memory).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        }
    }
}
